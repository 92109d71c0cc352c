"""What sealing costs in rounds of format 1 (X25519) and format 2 (X-Wing, sessions), side by side.

    python -m bench.keys [--curators 10000] [--clients 64] [--rounds 3]

First the primitives, in microseconds of one core, and what documents weigh. Then lone curators
against real aggregator processes, one for each format, as in `bench.uploads`: in each format the
first round of a key, with what it needs once (in format 2 the announcements of all sessions), then
rounds of both formats in turns, and one after a kill -9. Rates depend on what else the machine
does; CPU of the server for each piece can be compared.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from pydantic import BaseModel

from bench.uploads import Load, closed_loop, raw_request
from common.web.wire import CBOR, encode
from tacit.crypto.hybrid_signing import HybridIdentity, verify_hybrid
from tacit.crypto.seal_keys import SealKey, SealPublicKey
from tacit.crypto.sealing import Direction, Ends, agree_key, open_octets, seal_octets
from tacit.crypto.signing import Identity, verify_once
from tacit.protocol.enrolment import EPOCH_KEY_LABEL, EpochKey, Grant, JoinToken, PartyKind
from tacit.protocol.identities import IDENTITY_LABEL, IdentityDocument, Role
from tacit.protocol.sessions import (
    SEAL_KEY_LABEL,
    SealKeyStatement,
    SessionEnds,
    begin_session,
    open_session,
)
from tacit.protocol.suites import SUITES_LABEL, Suites
from tests.aggregator.direct import enrol_directly
from tests.aggregator.double import Federation, Sender, query
from tests.aggregator.process import Process

Work = Callable[[], object]


def microseconds(work: Work, seconds: float = 0.3) -> float:
    """Mean CPU of a call."""
    calls, start = 0, time.process_time()
    while time.process_time() - start < seconds:
        work()
        calls += 1
    return (time.process_time() - start) / calls * 1e6


def primitives() -> None:
    """The table of what is done once for a key, a session, a piece."""
    seed = SealKey.new_seed()
    key, party, aggregator = SealKey(seed), Identity.generate(), Identity.generate()
    ends = SessionEnds(
        "bench",
        "party",
        party.public_key,
        "north",
        aggregator.public_key,
        Direction.CURATOR_TO_AGGREGATOR,
    )
    own = begin_session(party, ends, key.public)
    one, other = X25519PrivateKey.generate(), X25519PrivateKey.generate()
    agreed = Ends(
        "party",
        "north",
        one.public_key().public_bytes_raw(),
        other.public_key().public_bytes_raw(),
        7,
        Direction.CURATOR_TO_AGGREGATOR,
    )
    secret = os.urandom(32)
    sealed = key.public.seal(secret, b"info")
    nonce, piece = seal_octets(secret, bytes(8), b"context")
    raw = key.public.raw
    rows: list[tuple[str, Work | None, Work | None]] = [
        ("new key", X25519PrivateKey.generate, lambda: SealKey(SealKey.new_seed())),
        ("parse a public key", None, lambda: SealPublicKey(raw)),
        ("agree, or seal 32 bytes", lambda: agree_key(one, agreed), lambda: _seal(key, secret)),
        (
            "agree, or open them",
            lambda: agree_key(other, agreed),
            lambda: key.open(sealed, b"info"),
        ),
        ("begin a session, signed", None, lambda: begin_session(party, ends, key.public)),
        ("take a session", None, lambda: open_session(own.announce, ends, key)),
        ("seal a piece", lambda: seal_octets(secret, bytes(8), b"context"), None),
        ("open a piece", lambda: open_octets(secret, nonce, piece, b"context"), None),
    ]
    print(f"{'us of CPU':28}{'format 1':>10}{'format 2':>10}")
    for name, first, second in rows:
        if name.endswith("a piece"):
            second = first
        shown = ["-" if work is None else f"{microseconds(work):.1f}" for work in (first, second)]
        print(f"{name:28}{shown[0]:>10}{shown[1]:>10}", flush=True)


def signatures() -> None:
    """Ed25519 alone, and together with ML-DSA-65 as identity documents are signed."""
    pair, party = HybridIdentity.generate(), Identity.generate()
    said = Suites(party="meter-17", suites=(1, 2), software="tacit 0.1.0")
    one, both = party.sign(SUITES_LABEL, said), pair.sign(SUITES_LABEL, said)
    rows: list[tuple[str, Work, Work]] = [
        ("new identity", Identity.generate, HybridIdentity.generate),
        (
            "sign a statement",
            lambda: party.sign(SUITES_LABEL, said),
            lambda: pair.sign(SUITES_LABEL, said),
        ),
        (
            "verify it",
            lambda: verify_once(SUITES_LABEL, one, party.public_key),
            lambda: verify_hybrid(SUITES_LABEL, both, pair.public),
        ),
    ]
    print(f"{'us of CPU':28}{'Ed25519':>10}{'+ML-DSA-65':>12}")
    for name, first, second in rows:
        shown = [f"{microseconds(work):.1f}" for work in (first, second)]
        print(f"{name:28}{shown[0]:>10}{shown[1]:>12}", flush=True)


def sizes() -> None:
    """What is sent once for each key, party or token, in bytes."""
    party, north, key = Identity.generate(), Identity.generate(), SealKey(SealKey.new_seed())
    now = datetime.now(UTC).replace(microsecond=0)
    ends = SessionEnds(
        "bench",
        "meter-17",
        party.public_key,
        "north",
        north.public_key,
        Direction.CURATOR_TO_AGGREGATOR,
    )
    announce = begin_session(party, ends, key.public).announce
    epoch_key = EpochKey(party="north", epoch=20_000, public_key=os.urandom(32))
    seal_key = SealKeyStatement(
        party="north", number=17, public_key_hash=key.public.hash, made=now, until=now
    )
    pair = HybridIdentity.generate()
    document = IdentityDocument(
        role=Role.AGGREGATOR,
        name="north",
        serial=1,
        ed25519=pair.public.ed25519,
        mldsa65=pair.public.mldsa65,
        suites=(1, 2),
        next=bytes(32),
    )
    cbor = len(encode(announce.model_dump(exclude_none=True), CBOR))
    rows = [
        ("public key to seal to", 32, len(key.public.raw)),
        ("secret for a session", 0, len(key.public.seal(bytes(32), b""))),
        ("a party's key; session", _json(party.sign(EPOCH_KEY_LABEL, epoch_key)), _json(announce)),
        ("the session in CBOR", "-", cbor),
        (
            "signed key in a descriptor",
            _json(north.sign(EPOCH_KEY_LABEL, epoch_key)),
            _json(north.sign(SEAL_KEY_LABEL, seal_key)),
        ),
        ("identity document, signed", "-", _json(pair.sign(IDENTITY_LABEL, document))),
    ]
    rows += [
        (f"join token, {each} aggregators", _token(each, 1), _token(each, 2)) for each in (3, 5, 16)
    ]
    print(f"{'bytes':28}{'format 1':>10}{'format 2':>10}")
    for name, first, second in rows:
        print(f"{name:28}{first:>10}{second:>10}", flush=True)


def _json(model: BaseModel) -> int:
    return len(model.model_dump_json(exclude_none=True))


def _token(aggregators: int, suite: int) -> int:
    def grant(party: str) -> Grant:
        url, secret = f"https://{party}.example.org", "s" * 43
        return Grant(party=party, url=url, fingerprint=os.urandom(32), secret=secret)

    token = JoinToken(
        format="tacit.join/1" if suite == 1 else "tacit.join/2",
        minimum_suite=None if suite == 1 else suite,
        party="meter-17",
        kind=PartyKind.CURATOR,
        max_curators=1,
        coordinator=grant("tacit"),
        aggregators=tuple(grant(f"aggregator-{number}") for number in range(aggregators)),
        expires=datetime(2031, 1, 1, tzinfo=UTC),
    )
    return len(token.to_text())


def _seal(key: SealKey, secret: bytes) -> bytes:
    return key.public.seal(secret, b"info")


async def one_round(
    process: Process,
    federation: Federation,
    senders: list[Sender],
    clients: int,
    *,
    sessions: bool,
    warm_s: float = 0.0,
) -> Load:
    """A round of lone curators, until it is revealed. `warm_s`: a pause before the pieces, for what
    the server does by itself."""
    federation.sessions = sessions
    now = datetime.now(UTC).replace(microsecond=0)
    current = await federation.open(query(), opened=now, deadline=now + timedelta(seconds=600))
    words = current.split(np.ones((len(senders), 1), np.int64))[0]
    pieces = [current.piece(sender, 0, words[i]) for i, sender in enumerate(senders)]
    requests = [
        raw_request(current, sender, encode(piece, CBOR), CBOR, "pieces")
        for sender, piece in zip(senders, pieces, strict=True)
    ]
    await asyncio.sleep(warm_s)
    load = await closed_loop(process.port, requests, clients, process.pid)
    federation.acknowledged.update(piece.session for piece in pieces if piece.session is not None)
    assert load.statuses == {201: len(senders)}, load.statuses
    total, manifest = await current.release()
    assert (manifest.count, int(total[0])) == (len(senders), len(senders))
    return load


async def run(options: argparse.Namespace) -> None:
    """All of it. Each format has an aggregator of its own: one that opened format 2 ends its epoch
    keys."""
    primitives()
    signatures()
    sizes()
    async with AsyncExitStack() as stack:
        served = [await aggregator(stack, options.curators) for _ in range(2)]
        cpu: dict[bool, list[float]] = {False: [], True: []}
        for number in range(options.rounds + 1):
            for sessions, (process, federation, senders) in enumerate(served):
                load = await one_round(
                    process,
                    federation,
                    senders,
                    options.clients,
                    sessions=bool(sessions),
                    warm_s=0 if number else options.warm_s,
                )
                cpu[bool(sessions)].append(load.cpu_s / len(senders) * 1e6)
                kind = "first round of the key" if number == 0 else f"round {number + 1}"
                print(f"format {1 + sessions}, {kind}: {load}", flush=True)
        again = [await after_restart(stack, each, options.clients) for each in served]
    known = {sessions: float(np.median(found[1:])) for sessions, found in cpu.items()}
    ratio = np.median(np.array(cpu[True][1:]) / np.array(cpu[False][1:]))
    print(f"a session at its first piece: {cpu[True][0] - known[True]:.0f} us of CPU")
    first, second = (cpu_us - known[bool(each)] for each, cpu_us in enumerate(again))
    print(f"what is known, once more after a restart: {first:.0f} and {second:.0f} us of CPU")
    print(
        f"a piece with what is known: {known[False]:.0f} and {known[True]:.0f} us of CPU, "
        f"format 2 / format 1 = {ratio:.3f} (medians)"
    )


async def after_restart(
    stack: AsyncExitStack, served: tuple[Process, Federation, list[Sender]], clients: int
) -> float:
    """CPU of a piece, in microseconds, in the first round after the aggregator was killed: it finds
    keys and sessions in its store."""
    process, federation, senders = served
    sessions = federation.sessions
    process.kill()
    client = federation.peers[0].client = await process.start()
    stack.push_async_callback(client.aclose)
    load = await one_round(process, federation, senders, clients, sessions=sessions)
    print(f"format {1 + sessions}, after a restart: {load}", flush=True)
    return load.cpu_s / len(senders) * 1e6


async def aggregator(
    stack: AsyncExitStack, curators: int
) -> tuple[Process, Federation, list[Sender]]:
    """A process with this many lone curators on its roster."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    process = Process(folder)
    client = await process.start()
    stack.callback(process.stop)
    stack.push_async_callback(client.aclose)
    federation = await Federation(client).pair()
    return process, federation, enrol_directly([folder], federation, curators)


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--curators", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-s", type=float, default=5.0)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
