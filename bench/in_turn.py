"""A small round of this checkout and of another, round by round in turn.

    python -m bench.in_turn CHECKOUT [--rounds 30] [--curators 1000] [--groups 0]
    python -m bench.in_turn [CHECKOUT] --postgresql URL [--rounds 20] [--curators 1000] [--groups 0]

A machine that others share is half as fast from one minute to the next, so figures of two runs say
little. Here both deployments of seven processes stand at once (`bench.rounds`, case `small`), and a
pair of rounds is a second apart: what the machine does, it does to both. Printed are medians, and
the mean of the ratios of all pairs, new / old, with its standard error. The other checkout needs
its `.venv`; where it reads clocks of 10 ms a process, take 30 rounds or more. With `--postgresql`
alone both are of this checkout: the old one's databases are SQLite's, the new one's on that server,
whose own CPU is not counted; with a checkout all databases are there. With `--groups` each round is
one over each of this many groups of 100 curators at the same time, and figures are those of one
(`bench.rounds`, case `many`).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from bench.rounds import GROUP, Measured
from tacit.protocol.enrolment import PartyKind

FIGURES = ("cpu_ms", "cpu_ms coordinator", "cpu_ms gateway", "cpu_ms aggregators", "wall_ms")
WARMING = 5
"""Rounds that warm keys, tables and statements."""


def serve(curators: int, groups: int, *server: str) -> None:
    """Measure a round for each line that comes, and answer with its figures."""
    size = groups * GROUP or curators
    with tempfile.TemporaryDirectory() as directory, Measured(Path(directory), *server) as it:
        names = [f"meter-{number:06d}" for number in range(size)]
        it.enrol("gateway", PartyKind.HOST, names)
        work = many(it, names) if groups else partial(it.round_of, it.query("small", size), size)
        for _ in range(1 if groups else WARMING):
            work()
        print("ready", flush=True)
        for _ in sys.stdin:
            found = it.of(work, groups or 1)
            print(json.dumps({name: found[name] for name in FIGURES}), flush=True)


def many(it: Measured, names: list[str]) -> Callable[[], None]:
    """A round over each group of these curators, all opened together."""
    queries = []
    with it.deployment.coordinator.client() as client:
        for number in range(len(names) // GROUP):
            group = f"feeder-{number:05d}"
            curators = names[GROUP * number : GROUP * (number + 1)]
            client.post("/v1/groups", {"name": group, "curators": curators})
            queries.append(it.query(group, GROUP, group=group))

    def together() -> None:
        with ThreadPoolExecutor(32) as threads:
            opened = list(threads.map(it.opened, queries))
        it.ended(opened, GROUP)

    return together


@contextmanager
def deployed(checkout: Path, *sizes: str) -> Iterator[Callable[[], dict[str, float]]]:
    """The services of a checkout; each call measures a round of theirs."""
    root = checkout.resolve()
    with subprocess.Popen(
        [str(root / ".venv/bin/python"), __file__, "--serve", *sizes],
        cwd=root,
        env={"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        requests, answers = process.stdin, process.stdout
        assert answers.readline() == "ready\n", f"the services of {checkout} did not start"

        def measured() -> dict[str, float]:
            print("round", file=requests, flush=True)
            found: dict[str, float] = json.loads(answers.readline())
            return found

        yield measured
        requests.close()


def main() -> None:
    """Print the figures of both, and their ratios."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--curators", type=int, default=1000)
    parser.add_argument("--groups", type=int, default=0)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--postgresql", help="the address of a server")
    asked, here = parser.parse_args(), Path(__file__).parents[1]
    if asked.serve:
        serve(asked.curators, asked.groups, *filter(None, [asked.postgresql]))
        return
    if (asked.checkout is None and asked.postgresql is None) or asked.rounds < 2:
        parser.error("a checkout or a server to compare with, and two rounds at least")
    checkout = asked.checkout or here
    if not (checkout / ".venv/bin/python").exists():
        parser.error(f"{checkout} has no .venv")
    more = [] if asked.postgresql is None else ["--postgresql", asked.postgresql]
    pairs = []
    with ExitStack() as stack:
        sizes = ["--curators", str(asked.curators), "--groups", str(asked.groups)]
        old = stack.enter_context(deployed(checkout, *sizes, *(more if asked.checkout else ())))
        new = stack.enter_context(deployed(here, *sizes, *more))
        for number in range(asked.rounds):
            first, second = (old, new) if number % 2 else (new, old)
            figures = {first: first(), second: second()}
            pairs.append((figures[old], figures[new]))
    for name in FIGURES:
        before, after = ([pair[side][name] for pair in pairs] for side in (0, 1))
        ratios = [now / then for then, now in zip(before, after, strict=True) if then]
        error = statistics.stdev(ratios) / len(ratios) ** 0.5
        print(
            f"{name:20} old {statistics.median(before):7.1f}   new {statistics.median(after):7.1f}"
            f"   new / old {statistics.mean(ratios):.3f} +- {error:.3f}"
        )


if __name__ == "__main__":
    main()
