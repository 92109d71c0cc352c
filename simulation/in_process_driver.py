"""Rounds in this process, with the product's own arithmetic and nothing around it.

Encoding, noise, splitting, summing and opening are the functions that the services call
(`tacit.query.functions`, `mechanisms`, `sharing`, and the curator engine's clamp); only what does
not change a sum is omitted: seals, signatures, stores, HTTP, consent, and in proved rounds, where
noise is clamped as each lone curator clamps its own, the proofs. Curators pass in blocks, so a
million fit in memory. The law of what is released is that of the services (a test compares them);
the randomness is seeded and protects nobody.

Participation: a curator sends at a uniform moment of the first 80 % of the open time, as the
service does, plus a straggler's delay; each aggregator holds what arrives before the deadline, and
the manifest is the intersection of the sets (under Shamir of the quorum that keeps most curators).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from curator.engine import within_reach
from simulation.network import Network, Traffic, arrivals
from simulation.populations import Population, RoundEvents
from simulation.simulated_rounds import Outcome, Store, Sums, check_unit, readings, sums
from tacit.accounting.expected_error import forecast
from tacit.crypto.sharing import Words
from tacit.protocol.round.pieces import clamped
from tacit.protocol.round.state import RoundState
from tacit.query.functions import Readings, dimension, encode, local_sensitivities, parts
from tacit.query.mechanisms import (
    aggregator_plan,
    curator_plan,
    draw,
    draw_by_local_sensitivity,
    scheme,
    shares_its_noise,
)
from tacit.query.proofs import is_proved, proof_plan
from tacit.query.query import Query
from tacit.query.terms import Sharing, Stance
from tacit.randomness import SeededRandom
from tacit.sets import Bits

Ints = NDArray[np.int64]

BLOCK_WORDS: Final = 1 << 20
BLOCK_CURATORS: Final = 1 << 16
SEND_SHARE: Final = 0.8
"""The part of the open time from which the moment of sending is drawn (`send_window_share`)."""


@dataclass(frozen=True, eq=False)
class InProcess:
    """The fast driver."""

    source: SeededRandom

    def run(
        self,
        query: Query,
        population: Population,
        rounds: int,
        events: Iterator[RoundEvents],
        network: Network,
    ) -> Iterator[Outcome]:
        """The outcomes of this many rounds, as they end. Raises ValueError if more curators than
        `n_max` can be enrolled, or if the query does not apply to single readings."""
        check_unit(query, population)
        if population.curators > query.n_max:
            raise ValueError("the population is larger than the query's n_max")
        store = Store.of(population)
        for number, event in enumerate(islice(events, rounds)):
            yield self._round(number, query, store, event, network)

    def _round(
        self, number: int, query: Query, store: Store, event: RoundEvents, network: Network
    ) -> Outcome:
        wall, cpu = time.perf_counter(), time.process_time()
        traffic = Traffic()
        members = self._members(query, event, network, traffic)
        count = int(members.sum())
        enough = count >= query.min_participants
        totals = _Totals.of(query)
        curators = event.enrolled.size
        # At least one reading's worth of room for every curator of a block.
        step = max(1, min(BLOCK_CURATORS, BLOCK_WORDS // max(1, dimension(query))))
        for start in range(0, curators, step):
            self._block(query, store, event, members, slice(start, start + step), totals, enough)
        opened = self._open(query, totals) if enough else None
        error = forecast(query, count) if enough else ()
        return Outcome(
            number,
            RoundState.RELEASED if enough else RoundState.ABORTED,
            None if enough else "too_few_participants",
            int(event.enrolled.sum()),
            count,
            int((event.enrolled & ~event.sends).sum()),
            int((event.sends & ~members).sum()),
            int(event.lying.sum()),
            0,
            totals.raw,
            totals.clamped,
            totals.truth,
            totals.sent,
            totals.present if enough else None,
            totals.held if enough else None,
            opened,
            error,
            traffic,
            time.perf_counter() - wall,
            time.process_time() - cpu,
        )

    # --- who is in -------------------------------------------------------------------------------

    def _members(
        self, query: Query, event: RoundEvents, network: Network, traffic: Traffic
    ) -> Bits:
        senders = np.flatnonzero(event.sends)
        moment = self.source.generator.random(senders.size) * SEND_SHARE * query.deadline_s
        sent = moment + event.late_s[senders]
        agreed_rows = np.empty((query.aggregators, senders.size), np.bool_)
        for row in agreed_rows:
            row[:] = arrivals(network, sent, self.source, traffic) <= query.deadline_s
        members = np.zeros(event.enrolled.size, np.bool_)
        members[senders[agreed(query, agreed_rows)]] = True
        return members

    # --- what they send --------------------------------------------------------------------------

    def _block(
        self,
        query: Query,
        store: Store,
        event: RoundEvents,
        members: Bits,
        block: slice,
        totals: _Totals,
        enough: bool,
    ) -> None:
        rows = event.readings_of[block]
        enrolled, present = event.enrolled[block], members[block]
        lying = event.lying[block]
        honest = np.zeros(rows.size, np.bool_)
        lots = readings(query, store, rows, honest)
        enrolled_lots = lots.rows(np.flatnonzero(enrolled[lots.curator]))
        totals.raw += sums(query, enrolled_lots, clamp=False)
        totals.clamped += sums(query, enrolled_lots, clamp=True)
        reported = within_reach(query, lots)
        values = encode(query, reported).values
        totals.truth += values[enrolled].sum(axis=0)
        totals.sent += values[event.sends[block]].sum(axis=0)
        totals.present += values[present].sum(axis=0)
        if not enough or not present.any():
            return
        if lying.any():
            reported = within_reach(query, readings(query, store, rows, lying))
            values = encode(query, reported).values
        totals.held += values[present].sum(axis=0)
        noise = self._noise(query, reported, event.non_compliant[block])
        sent = values[present] if noise is None else (values + noise)[present]
        for place, pieces in enumerate(totals.scheme.split(sent, self.source)):
            totals.partial[place] = totals.scheme.add(totals.partial[place], pieces)

    def _noise(self, query: Query, reported: Readings, silent: Bits) -> Ints | None:
        plan = curator_plan(query)
        if plan is None:
            return None
        if query.stance is Stance.PAPER:
            sensitivities = tuple(part.sensitivity for part in parts(query))
            local = local_sensitivities(query, reported)
            noise = draw_by_local_sensitivity(plan, sensitivities, local, self.source)
        else:
            noise = draw(plan, self.source, reported.count)
            if is_proved(query):
                noise = clamped(proof_plan(query).of(1), noise)
        noise[silent] = 0
        return noise

    # --- what is opened --------------------------------------------------------------------------

    def _open(self, query: Query, totals: _Totals) -> Ints:
        plan = aggregator_plan(query)
        if plan is not None:
            for place in range(query.aggregators):
                noise = draw(plan, self.source, 1)
                if shares_its_noise(query):
                    for other, share in enumerate(totals.scheme.split(noise, self.source)):
                        totals.partial[other] = totals.scheme.add(totals.partial[other], share)
                else:
                    totals.partial[place] += noise[0].astype(np.uint64)
        return totals.scheme.combine(dict(enumerate(totals.partial)))


class _Totals:
    """Totals over the blocks of a round."""

    def __init__(self, query: Query, d: int) -> None:
        self.scheme = scheme(query)
        self.raw, self.clamped = Sums(), Sums()
        self.truth, self.sent, self.present, self.held = np.zeros((4, d), np.int64)
        self.partial: list[Words] = [np.zeros(d, np.uint64) for _ in range(query.aggregators)]

    @classmethod
    def of(cls, query: Query) -> _Totals:
        """Empty totals."""
        return cls(query, dimension(query))


def agreed(query: Query, members_held: Bits) -> Bits:
    """Who is in the manifest, (n,), given which aggregators have whose message, (c, n).
    Additive: all aggregators. Shamir: of all quorums of at least k the one that keeps most."""
    if query.sharing is not Sharing.SHAMIR or members_held.all():
        return np.asarray(members_held.all(axis=0), np.bool_)
    assert query.threshold is not None
    holders = np.zeros(members_held.shape[1], np.int64)
    for place, row in enumerate(members_held):
        holders |= row.astype(np.int64) << place
    kinds, counts = np.unique(holders, return_counts=True)
    best, most = 0, (-1, 0)
    for choice in range(1 << members_held.shape[0]):
        if choice.bit_count() >= query.threshold:
            count_kept = int(counts[(kinds & choice) == choice].sum())
            if (count_kept, choice.bit_count()) > most:
                best, most = choice, (count_kept, choice.bit_count())
    return np.asarray((holders & best) == best, np.bool_)
