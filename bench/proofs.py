"""What proofs cost where they are checked: rounds of lone curators, and a gateway's, with real
processes and durable storage on loopback.

    python -m bench.proofs [--lone 20000] [--hosted 1000000] [--rounds 2] [--part-length 65536]

    lone     a sum of 13 bits over so many lone curators at two aggregators, each step from the
             freeze to the reveal: wall, and the CPU of the first aggregator (the one with explicit
             shares), per contribution and in all; beside it the same round without proofs. The
             goal is 8 s for 100,000 in numpy, 3 s with numba, on a core for each aggregator.
    hosted   a round of so many curators of one gateway, declared and proved, in turn: wall, and
             CPU by role. Noise is the aggregators' (`layer: aggregator`). One proof for each
             `--part-length` of them; without a wish of the query it is 4096.

The engine alone: `bench.validity`; what curators do: `bench.proved_curators`. Spec: validity,
section 15.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench.rounds import Measured
from bench.uploads import closed_loop, cpu_seconds, raw_request
from tacit.protocol.enrolment import PartyKind
from tacit.protocol.round.pieces import pack, proof_context
from tacit.query.proofs import proof_plan
from tests.aggregator.direct import enrol_directly
from tests.aggregator.double import Federation, Round, Sender
from tests.aggregator.process import Process
from tests.aggregator.proved import ProvedRound, keyed, proved

AGGREGATORS: Final = 2
CLIENTS: Final = 64
AT_ONCE: Final = 1000
SUM: Final[dict[str, Any]] = {
    "aggregators": AGGREGATORS,
    "bounds": ["0", "8.191"],
    "resolution": "0.001",
    "max_readings": 1,
}
AGGREGATORS_NOISE: Final[dict[str, Any]] = {
    **dict.fromkeys(("epsilon_u", "epsilon_s", "pr_u", "pr_s")),
    "mechanism": "distributed",
    "layer": "aggregator",
    "epsilon": "1",
    "aggregators": 5,
    "collusion": {"curators": 0, "aggregators": 4},
}


# --- lone curators -------------------------------------------------------------------------------


def proved_pieces(opened: ProvedRound, senders: list[Sender]) -> list[list[bytes]]:
    """Sealed pieces of a reading of 1 unit each, by aggregator."""
    proof = proof_plan(opened.descriptor.query).of(1)
    bound = proof_context(opened.descriptor.digest())
    found: list[list[bytes]] = [[] for _ in range(AGGREGATORS)]
    for start in range(0, len(senders), AT_ONCE):
        some = senders[start : start + AT_ONCE]
        nonces, randomness = proof.prio3.draw_randomness(opened.federation.random, len(some))
        measurement = proof.function.encode(np.ones((len(some), 1), np.int64))
        made = pack(nonces, proof.prio3.shard(bound, measurement, nonces, randomness))
        for index, rows in enumerate(made):
            found[index] += [
                opened.proved_piece(sender, index, row.tobytes()).model_dump_json().encode()
                for sender, row in zip(some, rows, strict=True)
            ]
    return found


def declared_pieces(opened: Round, senders: list[Sender]) -> list[list[bytes]]:
    """The same without proofs."""
    words = opened.split(np.ones((len(senders), 1), np.int64))
    return [
        [
            opened.piece(sender, index, words[index][place]).model_dump_json().encode()
            for place, sender in enumerate(senders)
        ]
        for index in range(AGGREGATORS)
    ]


async def lone(count: int) -> None:
    """One round with proofs, one without."""
    async with AsyncExitStack() as stack:
        folders = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(2)]
        processes = [
            Process(folder, number=number, variant="sound") for number, folder in enumerate(folders)
        ]
        for process in processes:
            stack.callback(process.stop)
        clients = [await stack.enter_async_context(await item.start()) for item in processes]
        for client in clients:
            client.timeout = 600
        federation = await Federation(*clients).pair()
        senders = enrol_directly(folders, federation, count)
        for validity in ("declared", "proved"):
            now = datetime.now(UTC).replace(microsecond=0)
            federation.now = now
            sizes: dict[str, Any] = {"n_max": 1_000_000, "deadline_s": 3000}
            times = {"opened": now, "deadline": now + timedelta(seconds=3000)}
            if validity == "proved":
                opened: Round = await keyed(federation, proved(**SUM, **sizes), **times)
                assert isinstance(opened, ProvedRound)
                bodies = proved_pieces(opened, senders)
            else:
                asked = proved(**SUM, **sizes, validity=None)
                opened = await federation.open(asked, **times)
                bodies = declared_pieces(opened, senders)
            await _round(validity, opened, bodies, senders, processes)


async def _round(
    validity: str,
    opened: Round,
    bodies: list[list[bytes]],
    senders: list[Sender],
    processes: list[Process],
) -> None:
    pid, count = processes[0].pid, len(senders)
    for index, process in enumerate(processes):
        requests = [
            raw_request(opened, _with_token(sender, index), body, "application/json", "pieces")
            for sender, body in zip(senders, bodies[index], strict=True)
        ]
        load = await closed_loop(process.port, requests, CLIENTS, process.pid)
        assert load.statuses == {201: count}, load.statuses
        if index == 0:
            print(f"lone {validity}: {load}", flush=True)
    marks = []

    async def step(name: str, work: Awaitable[Any]) -> Any:
        wall, cpu = time.perf_counter(), cpu_seconds(pid)
        answer = await work
        marks.append((name, time.perf_counter() - wall, cpu_seconds(pid) - cpu))
        return answer

    if isinstance(opened, ProvedRound):
        accepted = await step("freeze", opened.freeze())
        verifications = await step("verify", opened.verify(accepted))
        await step("exchange", opened.exchange())
        verdicts = await step("decide", opened.decide(verifications))
        total, manifest = await step("commit and reveal", opened.opened(accepted, verdicts))
    else:
        total, manifest = await step("freeze to reveal", opened.release())
    assert (manifest.count, int(total[0])) == (count, count)
    for name, wall, cpu in marks:
        print(f"  {name}: {wall:.2f} s wall of both in turn, {cpu:.2f} s CPU of the first")
    spent = sum(cpu for _, _, cpu in marks)
    print(
        f"  in all {spent:.2f} s CPU of the first aggregator, {1e6 * spent / count:.1f} us a "
        f"contribution, {spent * 100_000 / count:.1f} s for 100,000",
        flush=True,
    )


def _with_token(sender: Sender, index: int) -> Sender:
    """The sender as one aggregator knows it."""
    found = Sender(**{name: getattr(sender, name) for name in sender.__dataclass_fields__})
    found.tokens = [sender.tokens[index]]
    return found


# --- a gateway -----------------------------------------------------------------------------------


def hosted(count: int, rounds: int, part_length: int) -> None:
    """Rounds over one gateway, declared and proved in turn."""
    proofs = {"validity": "proved", "part_length": part_length}
    with tempfile.TemporaryDirectory() as directory, Measured(Path(directory)) as it:
        it.enrol("gateway", PartyKind.HOST, [f"meter-{number:07d}" for number in range(count)])
        queries = {
            name: it.query(f"hosted-{name}", count, **SUM | AGGREGATORS_NOISE | changes)
            for name, changes in (("declared", {}), ("proved", proofs))
        }
        found: dict[str, list[dict[str, float]]] = {name: [] for name in queries}
        for _ in range(rounds + 1):
            for name, query in queries.items():
                found[name].append(it.of(lambda query=query: it.round_of(query, count)))  # type: ignore[misc]
    figures = {
        name: {key: statistics.median(each[key] for each in several[1:]) for key in several[0]}
        for name, several in found.items()
    }
    print(f"hosted {count:,}, parts of {part_length:,} (ms)", flush=True)
    for key, before in figures["declared"].items():
        after = figures["proved"][key]
        print(f"  {key}: declared {before:,.0f}, proved {after:,.0f}, ratio {after / before:.2f}")


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--lone", type=int, default=20_000)
    parser.add_argument("--hosted", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--part-length", type=int, default=65_536, help="curators of a proof")
    options = parser.parse_args()
    if options.lone:
        asyncio.run(lone(options.lone))
    if options.hosted:
        hosted(options.hosted, options.rounds, options.part_length)


if __name__ == "__main__":
    main()
