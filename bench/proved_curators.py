"""What curators and hosts do for a proved round: from readings to sealed bytes.

    python -m bench.proved_curators [--seconds 1.0]

One process, CPU time, the least of the repetitions that fit into `--seconds`: clamp, noise, encode,
split, prove and seal, by the engine that the service uses, with five aggregators. Lone curators are
prepared together, 1,000 and as many as a lot of the service has; a host's part has 4,096 curators
and one proof, and the parts of a lot are proved together. Beside it stands the same round without
proofs. Spec: validity, sections 8 and 9.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from bench.validity import least_us
from curator.engine import (
    Engine,
    HostPart,
    Prepared,
    Sealer,
    Terms,
    Total,
    prepare_parts,
    prepare_together,
)
from curator.participation.preparation import LOT_WORDS
from tacit.crypto.sealing import Span
from tacit.crypto.signing import Identity
from tacit.query.functions import Readings
from tacit.randomness import SecureRandom
from tests.curator.conftest import query
from tests.curator.double import FakeWorld

PART = 4096
LOT = 100
NOW = datetime(2026, 1, 1, tzinfo=UTC)
BASE: dict[str, Any] = {
    "bounds": ["0", "8.191"],
    "max_readings": 1,
    "aggregators": 5,
    "mechanism": "distributed",
    "epsilon": "1",
    "layer": "aggregator",
    "min_participants": 1000,
    "n_max": 1_000_000,
    "collusion": {"curators": 0, "aggregators": 4},
}
CURATORS = {"layer": "curator", "collusion": {"curators": 0, "aggregators": 0}}
COINS = {
    "mechanism": "two-layer",
    "epsilon": None,
    "layer": None,
    "epsilon_u": "1",
    "epsilon_s": "1",
    "pr_u": "0.5",
    "pr_s": "0.5",
}
EDGES = {"function": "histogram", "edges": [str(edge) for edge in range(101)]}
CASES: dict[str, dict[str, Any]] = {
    "sum 13 bits": {},
    "sum, curators' noise": CURATORS,
    "sum, two layers": COINS,
    "histogram 100": EDGES,
}


def terms_of(changes: dict[str, Any]) -> Terms:
    """The terms of a round of the query."""
    world = FakeWorld(5)
    world.next_number = PART
    asked = query(**{**BASE, **changes})
    return Terms.of(world.open_round(asked, NOW - timedelta(hours=1), NOW, NOW))


def readings(count: int) -> Readings:
    """One reading of 4.2 kWh each."""
    owner = np.arange(count, dtype=np.int64)
    return Readings(count, owner, np.full(count, 42 * 36 * 10**13), np.zeros(count, np.int64))


def engines(count: int) -> list[Engine]:
    """As many parties."""
    source, identity = SecureRandom(), Identity.generate()

    def sealer(party: str) -> Sealer:
        return Sealer(party, identity)

    return [Engine(sealer(f"party-{place}"), source) for place in range(count)]


def lone(terms: Terms, count: int) -> Callable[[], Iterable[Prepared]]:
    """Lone curators together."""
    parties, own = engines(count), readings(count)
    return lambda: prepare_together(terms, parties, own)


def hosted(terms: Terms) -> tuple[Callable[[], object], int]:
    """The parts of a lot, or the batches of as many curators where nothing is proved; how many."""
    (host,), own, present = engines(1), readings(PART), np.ones(PART, np.bool_)
    if terms.proofs is None:
        return lambda: host.prepare_segment(terms, Span(0, 0, PART), present, own), 1
    count = max(1, LOT_WORDS // (PART * terms.dimension))
    spans = [Span(place, PART * place, PART) for place in range(count)]

    def prepare() -> list[Prepared]:
        parts = [HostPart(span, present, (Total.of(terms.query, own),)) for span in spans]
        return prepare_parts(terms, count * [host], parts)

    return prepare, count


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="what curators and hosts do for a proved round")
    parser.add_argument("--seconds", type=float, default=1.0, help="time per figure")
    seconds = parser.parse_args().seconds
    print("CPU us per lone curator; ms per part of 4,096; 5 aggregators")
    print(f"{'case':24}{'':10}{'n = 100':>10}{'n = 1,000':>11}{'part':>9}{'bytes sent':>12}")
    for name, changes in CASES.items():
        for kind in ("declared", "proved"):
            terms = terms_of({**changes, "validity": kind})
            several = [least_us(lone(terms, count), seconds) / count for count in (LOT, 1000)]
            work, parts = hosted(terms)
            part = least_us(work, seconds) / 1000 / parts
            size = sum(len(body.content) for body in next(iter(lone(terms, 1)())).bodies)
            print(
                f"{name:24}{kind:10}{several[0]:>10,.0f}{several[1]:>11,.0f}{part:>9,.2f}{size:>12,}"
            )


if __name__ == "__main__":
    main()
