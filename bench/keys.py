"""What sealing costs: X-Wing, and sessions under it.

    python -m bench.keys [--curators 10000] [--clients 64] [--rounds 3]

First the primitives, in microseconds of one core, and what documents weigh. Then lone curators
against a real aggregator process, as in `bench.uploads`: the first round of a key, with the
announcements of all sessions, further rounds, and one after a kill -9. Rates depend on what else
the machine does; CPU of the server for each piece can be compared.
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
from pydantic import BaseModel

from bench.uploads import Load, closed_loop, raw_request
from common.bodies import CBOR, encode
from tacit.crypto.sealing import Direction, SealKey, SealPublicKey, open_octets, seal_octets
from tacit.crypto.signing import HybridIdentity, Identity, verify_hybrid, verify_once
from tacit.protocol.enrolment import Grant, JoinToken, PartyKind
from tacit.protocol.identities import IDENTITY_LABEL, IdentityDocument, Role
from tacit.protocol.sealing_sessions import (
    SEAL_KEY_LABEL,
    SealKeyStatement,
    SessionEnds,
    begin_session,
    open_session,
)
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
    secret = os.urandom(32)
    sealed = key.public.seal(secret, b"info")
    nonce, piece = seal_octets(secret, bytes(8), b"context")
    raw = key.public.raw
    rows: list[tuple[str, Work]] = [
        ("new key", lambda: SealKey(SealKey.new_seed())),
        ("parse a public key", lambda: SealPublicKey(raw)),
        ("seal 32 bytes", lambda: key.public.seal(secret, b"info")),
        ("open them", lambda: key.open(sealed, b"info")),
        ("begin a session, signed", lambda: begin_session(party, ends, key.public)),
        ("open a session", lambda: open_session(own.announce, ends, key)),
        ("seal a piece", lambda: seal_octets(secret, bytes(8), b"context")),
        ("open a piece", lambda: open_octets(secret, nonce, piece, b"context")),
    ]
    print("us of CPU")
    for name, work in rows:
        print(f"{name:28}{microseconds(work):>10.1f}", flush=True)


def signatures() -> None:
    """Ed25519 alone, and together with ML-DSA-65 as identity documents are signed."""
    pair, party = HybridIdentity.generate(), Identity.generate()
    now = datetime.now(UTC).replace(microsecond=0)
    said = SealKeyStatement(
        party="north", number=17, public_key_hash=bytes(32), made=now, until=now
    )
    one, both = party.sign(SEAL_KEY_LABEL, said), pair.sign(SEAL_KEY_LABEL, said)
    rows: list[tuple[str, Work, Work]] = [
        ("new identity", Identity.generate, HybridIdentity.generate),
        (
            "sign a statement",
            lambda: party.sign(SEAL_KEY_LABEL, said),
            lambda: pair.sign(SEAL_KEY_LABEL, said),
        ),
        (
            "verify it",
            lambda: verify_once(SEAL_KEY_LABEL, one, party.public_key),
            lambda: verify_hybrid(SEAL_KEY_LABEL, both, pair.public),
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
        next=bytes(32),
    )
    cbor = len(encode(announce.model_dump(exclude_none=True), CBOR))
    rows = [
        ("public key to seal to", len(key.public.raw)),
        ("secret for a session", len(key.public.seal(bytes(32), b""))),
        ("a party's session", _json(announce)),
        ("the session in CBOR", cbor),
        ("signed key in a descriptor", _json(north.sign(SEAL_KEY_LABEL, seal_key))),
        ("identity document, signed", _json(pair.sign(IDENTITY_LABEL, document))),
    ]
    rows += [(f"join token, {count} aggregators", _token(count)) for count in (3, 5, 16)]
    print("bytes")
    for name, size in rows:
        print(f"{name:28}{size:>10}", flush=True)


def _json(model: BaseModel) -> int:
    return len(model.model_dump_json(exclude_none=True))


def _token(aggregators: int) -> int:
    def grant(party: str) -> Grant:
        url, secret = f"https://{party}.example.org", "s" * 43
        return Grant(party=party, url=url, fingerprint=os.urandom(32), secret=secret)

    token = JoinToken(
        party="meter-17",
        kind=PartyKind.CURATOR,
        max_curators=1,
        coordinator=grant("tacit"),
        aggregators=tuple(grant(f"aggregator-{number}") for number in range(aggregators)),
        expires=datetime(2031, 1, 1, tzinfo=UTC),
    )
    return len(token.to_text())


async def one_round(
    process: Process,
    federation: Federation,
    senders: list[Sender],
    clients: int,
    *,
    warm_s: float = 0.0,
) -> Load:
    """A round of lone curators, until it is revealed. `warm_s`: a pause before the pieces, for what
    the server does by itself."""
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
    federation.acknowledged.update(piece.session for piece in pieces)
    assert load.statuses == {201: len(senders)}, load.statuses
    total, manifest = await current.release()
    assert (manifest.count, int(total[0])) == (len(senders), len(senders))
    return load


async def run(options: argparse.Namespace) -> None:
    """All of it."""
    primitives()
    signatures()
    sizes()
    async with AsyncExitStack() as stack:
        process, federation, senders = await aggregator(stack, options.curators)
        cpu_us = []
        for number in range(options.rounds + 1):
            load = await one_round(
                process,
                federation,
                senders,
                options.clients,
                warm_s=0 if number else options.warm_s,
            )
            cpu_us.append(load.cpu_s / len(senders) * 1e6)
            kind = "first round of the key" if number == 0 else f"round {number + 1}"
            print(f"{kind}: {load}", flush=True)
        process.kill()  # it finds keys and sessions in its store
        client = federation.peers[0].client = await process.start()
        stack.push_async_callback(client.aclose)
        load = await one_round(process, federation, senders, options.clients)
        print(f"after a restart: {load}", flush=True)
        restarted_us = load.cpu_s / len(senders) * 1e6
    known_us = float(np.median(cpu_us[1:]))
    print(f"a session at its first piece: {cpu_us[0] - known_us:.0f} us of CPU")
    print(f"what is known, once more after a restart: {restarted_us - known_us:.0f} us of CPU")
    print(f"a piece under a known session: {known_us:.0f} us of CPU (median)")


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
