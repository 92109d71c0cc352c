"""What leaves a curator, and what stays with an aggregator, tells nothing of private values
(spec: aggregation, section 10, checks 11 and 12).

Where randomness decides, a test either repeats it (two runs with the same randomness must agree to
the byte) or states the rate of its false alarms.
"""

from __future__ import annotations

import io
import json
import math
import os
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import structlog
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from fastapi import FastAPI
from numpy.typing import NDArray
from sqlalchemy import select

from aggregator.app import create_app as create_aggregator
from aggregator.context import Aggregator
from aggregator.rounds import opening
from aggregator.store.tables import metadata
from common.bodies import decode_cbor
from common.runtime.clock import ManualClock
from common.runtime.logs import configure_logging
from common.web.dependencies import part_of
from curator.participation import loop
from curator.participation.loop import Participation
from tacit.crypto.sealing import (
    ENCAPSULATION_BYTES,
    MAX_SEGMENT,
    NONCE_BYTES,
    SealBroken,
    SealKey,
    SealPublicKey,
    read_batch_header,
    read_part_header,
)
from tacit.protocol.round.state import RoundState
from tacit.query.query import Query
from tests.aggregator.conftest import settings as aggregator_settings
from tests.aggregator.double import Federation, Round
from tests.aggregator.double import query as aggregator_query
from tests.built_once import migrated
from tests.curator.conftest import NOISY, OPEN, Site, curators, query
from tests.curator.double import COORDINATOR, FakeWorld

Running = Callable[[FastAPI], AbstractAsyncContextManager[httpx.AsyncClient]]

# --- check 11: a curator with nothing to say says it in the same way -----------------------------

FULL = [f"full-{index:02}" for index in range(10)]
VOID = [f"void-{index:02}" for index in range(10)]
ROUNDS = 20
SHARE = 0.8
STEPS = 30
SPREAD: dict[str, Any] = {"send_window_share": SHARE, "prepare_lead_s": 0}
OPEN_S = 3600
CHEAP: dict[str, Any] = {
    **NOISY,
    "epsilon": "0.001",
    "aggregators": 2,
    "collusion": {"curators": 0, "aggregators": 1},
}
"""With noise: of the same readings a curator answers one sum without."""
ALARM = 1e-6
"""Rate of false alarms of each of the three statistical comparisons below."""


async def fill(site: Site, names: list[str]) -> None:
    """As many readings as count, for each."""
    for name in names:
        for minute in range(4):
            await site.reading(name, f"1.{minute}", 10 * minute)


def sender_of(body: bytes) -> str:
    """Whose sealed bytes these are: that much is not hidden."""
    if body[0] >> 5 == 5:  # a map in CBOR: a lone piece
        return str(decode_cbor(body)["sender"])
    try:
        return read_batch_header(body)[0].host
    except SealBroken:
        return read_part_header(body, MAX_SEGMENT)[0].host


async def arrivals(site: Site) -> dict[str, list[tuple[str, int, int]]]:
    """(round, size, step) of everything that aggregators receive, by sender, while the clock goes
    through the open time of all rounds in equal steps."""
    seen: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
    for step in range(STEPS):
        site.clock.advance(timedelta(seconds=OPEN_S / STEPS))
        await part_of(site.app, Participation).contribute_due()
        for item in site.world.aggregators:
            for round_id, body in item.bodies:
                seen[sender_of(body)].append((round_id, len(body), step))
            item.bodies.clear()
    return seen


def distance(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Kolmogorov and Smirnov's: the largest difference of two empirical distributions."""
    at = np.union1d(one, other)
    return float(
        np.abs(
            np.searchsorted(np.sort(one), at, "right") / one.size
            - np.searchsorted(np.sort(other), at, "right") / other.size
        ).max()
    )


def most(size: int, *, samples: int) -> float:
    """Passed by the distance with probability at most ALARM if the distributions are equal: of one
    sample from its law 2 exp(-2 n t^2) (Massart 1990), of two samples of the same size from one
    another e exp(-n t^2) (Wei and Dudley 2012). Ties only make it smaller."""
    if samples == 1:
        return math.sqrt(math.log(2 / ALARM) / (2 * size))
    return math.sqrt(math.log(math.e / ALARM) / size)


@pytest.mark.slow
async def test_silence_has_the_size_and_the_moment_of_speech(
    tmp_path: Path, clock: ManualClock
) -> None:
    world = FakeWorld(2)
    async with curators(tmp_path, world, clock, **SPREAD) as site:
        await site.policy(**OPEN)
        for name in (*FULL, *VOID):
            await site.enrol(name)
        await fill(site, FULL)
        for index in range(ROUNDS):
            site.open(query(CHEAP, name=f"round-{index}"))
        assert await part_of(site.app, Participation).discover(COORDINATOR)
        seen = await arrivals(site)
    moments: dict[str, list[int]] = {"full": [], "void": []}
    sizes = set()  # of a curator's messages: the first of a session is longer
    for name in (*FULL, *VOID):
        assert Counter(round_id for round_id, _, _ in seen[name]) == dict.fromkeys(world.rounds, 2)
        sizes.add(frozenset(size for _, size, _ in seen[name]))
        at = {(round_id, step) for round_id, _, step in seen[name]}
        assert len(at) == ROUNDS, "the pieces of one round leave together"
        moments[name[:4]] += [step for _, step in at]
    assert len(sizes) == 1
    full, void = (np.array(moments[kind], np.float64) for kind in ("full", "void"))
    size = ROUNDS * len(FULL)
    assert full.size == void.size == size
    assert distance(full, void) < most(size, samples=2)
    # a moment at the share u of the window is seen at the step that u falls into
    even = np.floor(np.linspace(0, SHARE * STEPS, 100_000, endpoint=False))
    for sample in (full, void):
        assert distance(sample, even) < most(size, samples=1) + 1e-3
    # the comparison can fail: curators with nothing to say, in the first half of the window
    assert distance(full, np.floor(void / 2)) > most(size, samples=2)


@pytest.mark.parametrize("kind", ["lone", "host"])
@pytest.mark.parametrize("mechanism", [{"layer": "aggregator"}, {"layer": "curator"}])
async def test_the_same_randomness_gives_the_same_moments_with_and_without_readings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, mechanism: dict[str, Any]
) -> None:
    """Not a matter of statistics: when a piece leaves, and how long it is, is decided without a
    look at readings."""
    told = {}
    for spoken in (False, True):
        monkeypatch.setattr(loop, "_moment", random.Random(11))
        folder, clock, world = tmp_path / str(spoken), ManualClock(), FakeWorld()
        async with curators(folder, world, clock, **SPREAD) as site:
            names = []
            for index in range(5):
                party = f"party-{index}"
                hosted = [f"{party}.{i}" for i in range(3)]
                await site.enrol(party, None if kind == "lone" else hosted)
                names += [party] if kind == "lone" else hosted
            if spoken:
                await fill(site, names[1:])
            changes = {**mechanism, "collusion": {"curators": 0, "aggregators": 0}}
            places = [site.open(query(NOISY, **changes, name=f"q-{i}")).round for i in range(3)]
            assert await part_of(site.app, Participation).discover(COORDINATOR)
            seen = await arrivals(site)
        told[spoken] = {
            name: sorted((places.index(r), size, step) for r, size, step in items)
            for name, items in seen.items()
        }
    assert len(told[False]) == 5
    assert told[False] == told[True]


# --- check 12: an aggregator's books do not depend on what it holds a share of --------------------


class Tape:
    """One sequence of bytes in place of all the randomness of the process.

    Encapsulations draw theirs inside the library, where none can be given: another seal of the same
    length and opened by the same key stands for them.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._source = random.Random(12)

        def seal(key: SealPublicKey, plaintext: bytes, info: bytes) -> bytes:
            nonce = self.read(NONCE_BYTES)
            head = bytes(ENCAPSULATION_BYTES - NONCE_BYTES) + nonce
            return head + AESGCM(key.hash).encrypt(nonce, plaintext, info)

        def opened(key: SealKey, sealed: bytes, info: bytes) -> bytes:
            nonce = sealed[ENCAPSULATION_BYTES - NONCE_BYTES : ENCAPSULATION_BYTES]
            return AESGCM(key.public.hash).decrypt(nonce, sealed[ENCAPSULATION_BYTES:], info)

        def ed25519(cls: type[Ed25519PrivateKey]) -> Ed25519PrivateKey:
            return cls.from_private_bytes(self.read(32))

        monkeypatch.setattr(os, "urandom", self.read)
        monkeypatch.setattr(random, "_urandom", self.read)  # what `secrets` draws from
        monkeypatch.setattr(SealPublicKey, "seal", seal)
        monkeypatch.setattr(SealKey, "open", opened)
        monkeypatch.setattr(Ed25519PrivateKey, "generate", classmethod(ed25519))

    def read(self, count: int) -> bytes:
        """The next bytes."""
        return self._source.randbytes(count)


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Everything that is logged, at the most talkative level."""
    before = structlog.get_config()
    stream = io.StringIO()
    configure_logging("debug", "json", stream=stream)
    yield stream
    configure_logging("info", "console")
    structlog.configure(**before)


def lines(log: io.StringIO) -> list[dict[str, Any]]:
    """What the services logged since the last look, but for the time of day and the time it took.
    (The event loop of the test has a line of its own, once.)"""
    found = [json.loads(line) for line in log.getvalue().splitlines()]
    found = [line for line in found if line["logger"] != "asyncio"]
    log.seek(0)
    log.truncate()
    return [{k: v for k, v in line.items() if k not in ("time", "ms")} for line in found]


Rows = dict[str, list[dict[str, Any]]]


async def books(client: httpx.AsyncClient) -> Rows:
    """Every row of every table of an aggregator, and its metrics but for times, memory, disk, how
    often the store was asked, as loops in the background ask it too, and of signatures that were
    checked: this process remembers those of the run before."""
    database = part_of(client.app, Aggregator).database  # type: ignore[attr-defined]
    found: Rows = {}
    async with database.reading() as transaction:
        for table in metadata.sorted_tables:
            asked = select(table).order_by(*table.primary_key.columns)
            found[table.name] = [dict(row._mapping) for row in await transaction.execute(asked)]
    shown = (await client.get("/metrics")).text.splitlines()
    kept = [x for x in shown if "seconds" not in x and "process_" not in x and "created" not in x]
    others = ("python_", "_store_", "signature_checks", "_free_ratio")
    kept = [x for x in kept if not any(part in x for part in others)]
    found["metrics"] = [{"line": line} for line in kept]
    return found


def differing(one: Rows, other: Rows) -> set[str]:
    """The columns in which two books differ. They have the same rows, and each value has the same
    kind and length, whatever it says."""
    columns = set()
    assert one.keys() == other.keys()
    for table, rows in one.items():
        assert len(rows) == len(other[table]), table
        for row, twin in zip(rows, other[table], strict=True):
            for name, value in row.items():
                assert type(value) is type(twin[name])
                if isinstance(value, str | bytes):
                    assert len(value) == len(twin[name]), f"{table}.{name}"
                if value != twin[name]:
                    columns.add(f"{table}.{name}")
    return columns


@dataclass
class Story:
    """One run: the books of each aggregator at each stage, the log, and the total."""

    books: dict[str, list[Rows]] = field(default_factory=dict)
    log: list[dict[str, Any]] = field(default_factory=list)
    total: int = 0

    async def look(self, stage: str, federation: Federation) -> None:
        """Keep the books as they are now."""
        self.books[stage] = [await books(peer.client) for peer in federation.peers]


async def told(
    folder: Path, running: Running, log: io.StringIO, asked: Query, secret: int
) -> Story:
    """A round of three curators and a host, all of whose values are `secret`."""
    clock, story = ManualClock(), Story()
    async with AsyncExitStack() as stack:
        clients = []
        for index in range(asked.aggregators):
            own = aggregator_settings(index, folder)
            await migrated(own)
            app = create_aggregator(own, clock=clock)
            client = await stack.enter_async_context(running(app))
            client.app = app  # type: ignore[attr-defined]
            clients.append(client)
        federation = await Federation(*clients, now=clock.now()).pair()
        lone = await federation.lone(3)
        host = await federation.host("gateway", 64)
        current: Round = await federation.open(asked)
        await story.look("opened", federation)
        for sender in (*lone, host):
            await current.contribute(sender, np.full((len(sender.curators), 1), secret))
        piece = current.piece(lone[0], 0, np.array([1], np.uint64))
        assert (await current.send(lone[0], 0, piece)).status_code == 409
        await story.look("filled", federation)
        accepted = await current.freeze()
        await story.look("frozen", federation)
        manifest, commitments = await current.commit(accepted)
        await story.look("committed", federation)
        reveals = await current.reveal(manifest, commitments)
        await story.look("released", federation)
        assert story.books["released"][0]["round"][0]["state"] == RoundState.RELEASED.value
        assert len(reveals) == asked.aggregators
    story.log = lines(log)
    return story


ADDITIVE = {"aggregators": 3, "mechanism": "distributed", "epsilon": "1"}
SHAMIR = {**ADDITIVE, "sharing": "shamir", "threshold": 2}
PIECES = {"piece.tags", "piece.bodies", "batch.tag", "batch.body"}
SHARES = {"round.noise_shares", "contribution.sealed"}
SUMS = {"round.partial", "round.commitment"}
SEEDED: tuple[set[str], ...] = ({"batch.tag", "batch.body"}, set(), set())
"""Of 2 of 3, the first gets a seed for a host's batch, whatever is in it."""
SECRETS = (0, 1_234_567_890)


async def test_an_aggregator_books_the_same_whatever_the_curators_measured(
    tmp_path: Path, running: Running, log: io.StringIO
) -> None:
    """With additive sharing all pieces but the last are the same words: these aggregators' books
    agree to the byte until they see a hash from the last one."""
    stories = []
    for secret in SECRETS:
        with pytest.MonkeyPatch.context() as monkeypatch:
            Tape(monkeypatch)
            folder = tmp_path / str(secret)
            stories.append(await told(folder, running, log, aggregator_query(**ADDITIVE), secret))
    one, other = stories
    assert one.log == other.log
    assert len(one.log) > 30
    assert not any(str(SECRETS[1]) in str(line) for line in other.log)
    expected = {
        "opened": (set(), set()),
        "filled": (set(), PIECES),
        "frozen": (set(), PIECES),
        "committed": (set(), PIECES | SUMS),
    }
    for stage, (first, last) in expected.items():
        found = [differing(a, b) for a, b in zip(one.books[stage], other.books[stage], strict=True)]
        assert found == [first, first, last], stage
    for a, b in zip(one.books["released"], other.books["released"], strict=True):
        # the bodies are gone; what is left of pieces are tags, which tell a duplicate
        assert differing(a, b) <= {"piece.tags", "batch.tag", *SUMS} | {
            "round.reveal",
            "round.reveal_request",
        }


async def test_an_aggregator_books_the_same_whatever_noise_it_shares(
    tmp_path: Path, running: Running, log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under Shamir an aggregator shares a value of its own, its noise; and every piece differs."""
    drawn = opening.draw
    stories = []
    for shift, secret in (0, 5), (1000, 5), (0, 6):
        with pytest.MonkeyPatch.context() as inner:
            Tape(inner)
            inner.setattr(opening, "draw", lambda *given, by=shift: drawn(*given) + by)
            folder = tmp_path / f"{shift}-{secret}"
            stories.append(await told(folder, running, log, aggregator_query(**SHAMIR), secret))
    plain, noisier, larger = stories
    assert plain.log == noisier.log == larger.log
    for stage in ("opened", "filled", "frozen"):
        for index, rows in enumerate(plain.books[stage]):
            assert differing(rows, noisier.books[stage][index]) == SHARES
            pieces = set() if stage == "opened" else PIECES - SEEDED[index]
            assert differing(rows, larger.books[stage][index]) == pieces
    for index, rows in enumerate(plain.books["committed"]):
        assert differing(rows, noisier.books["committed"][index]) == SHARES | SUMS
        assert differing(rows, larger.books["committed"][index]) == (PIECES | SUMS) - SEEDED[index]
