"""Rounds through running services: real keys, seals, stores, signatures, HTTP.

The coordinator and the aggregators run elsewhere, as processes of a deployment. The curators are
hosted here: this process runs its own curator service that enrols with a join token. So its
connection to the others can simulate a bad network (`simulation.network.Faults`), and no port needs
to listen. Its readings are submitted through its API, a window for each round; its noise is the
services' own, from the operating system, hence no two runs are alike.

Events: a curator that sends nothing gets a policy that refuses every query; joins, leaves and
refreshes are also reported to the coordinator's ledger. A host sends one batch for all its
curators, so a straggler is out if its delay passes the deadline, and in time otherwise. Curators
that add no noise are not possible here: the service has no such switch.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any, Final

import httpx
import numpy as np
from numpy.typing import NDArray
from pydantic import SecretStr

from common.web.client import TcpTransport
from curator.app import create_app
from curator.engine import within_reach
from curator.settings import CuratorSettings
from simulation.network import PERFECT, Faults, Network, Traffic
from simulation.populations import Population, RoundEvents
from simulation.simulated_rounds import Outcome, Store, Sums, check_unit, readings, sums
from tacit import AsyncClient, Round, RoundClosed
from tacit.accounting.expected_error import forecast
from tacit.protocol.enrolment import JoinToken
from tacit.protocol.round.messages import Transcript
from tacit.protocol.round.opening import check_transcript
from tacit.protocol.round.state import RoundState
from tacit.query.functions import encode
from tacit.query.query import Query
from tacit.randomness import SeededRandom
from tacit.sets import Bits
from tacit.units import NANO, UNITS
from tacit.wire import format_exact, format_instant, parse_binary

Ints = NDArray[np.int64]

FIRST_WINDOW: Final = datetime(2025, 1, 6, tzinfo=UTC)
HOUR: Final = timedelta(hours=1)
NAMED_AT_ONCE: Final = 10_000
POLL_S: Final = 0.02
GRACE_S: Final = 120.0
REFUSING: Final[dict[str, Any]] = {"accept_any": False}
AGREEING: Final[dict[str, Any]] = {
    "min_participants": 1,
    "min_aggregators": 1,
    "allow_unverified": True,
    "allow_repeats": True,
    "exact": {"min_participants": 2},
}
"""No limits and no conditions: simulated people have nothing to lose."""


@dataclass(frozen=True, eq=False)
class Services:
    """The driver of a deployment.

    `coordinator` and `token`: its address, and an operator's token there. `join_token`: for a host
    of at least as many curators as the population has. `directory`: for the host's data. `alone`:
    no other curators are in the deployment, so a round may be frozen as soon as ours are in.
    `cpu_s`: CPU seconds so far, of whatever is to be counted.
    """

    coordinator: str
    token: str
    join_token: str
    directory: Path
    source: SeededRandom
    alone: bool = True
    cpu_s: Callable[[], float] = time.process_time
    settings: Mapping[str, Any] = field(default_factory=dict)

    def run(
        self,
        query: Query,
        population: Population,
        rounds: int,
        events: Iterator[RoundEvents],
        network: Network,
    ) -> Iterator[Outcome]:
        """The outcomes of this many rounds, as they end. Raises tacit.Problem for what the services
        refuse, ValueError for events that they do not support."""
        check_unit(query, population)
        with asyncio.Runner() as runner:
            running = self._host(query, population, network)
            host = runner.run(running.__aenter__())
            try:
                for number, event in enumerate(islice(events, rounds)):
                    yield runner.run(host.round(number, event))
            finally:
                runner.run(running.__aexit__(None, None, None))

    @asynccontextmanager
    async def _host(
        self, query: Query, population: Population, network: Network
    ) -> AsyncIterator[_Host]:
        """The curators' service, enrolled, and the query, created."""
        traffic, join = Traffic(), JoinToken.from_text(self.join_token)
        faults = {
            grant.url.rstrip("/"): Faults(
                TcpTransport(max_connections=100), PERFECT, self.source, traffic
            )
            for grant in (join.coordinator, *join.aggregators)
        }
        operator = secrets.token_urlsafe(32)
        given: dict[str, Any] = {
            "data_dir": self.directory,
            "operator_token": SecretStr(operator),
            "send_window_share": 0.0,
            "prepare_lead_s": 0.0,
            "poll_wait_s": 5.0,
            "retry_s": 0.2,
            "peer_timeout_s": 30.0,
            "settle_after_s": 1.0,
            **self.settings,
        }
        app = create_app(CuratorSettings(**given), transports=faults)
        async with (
            app.router.lifespan_context(app),
            AsyncClient(
                "http://curators.simulated",
                operator,
                transport=httpx.ASGITransport(app=app),
                timeout_s=600,
            ) as curators,
            AsyncClient(self.coordinator, self.token) as coordinator,
        ):
            ids = [f"{join.party}-{place:07d}" for place in range(population.curators)]
            await curators.parties.enrol(self.join_token, ids)
            await curators.policies.set(AGREEING)
            created = await coordinator.queries.create(json.loads(query.canonical()))
            identity = await coordinator.keys.identity()
            for transport in faults.values():
                transport.network = network
            yield _Host(
                self,
                query,
                created["id"],
                Store.of(population),
                ids,
                curators,
                coordinator,
                parse_binary(identity["identity_key"]),
                traffic,
                np.zeros(population.curators, np.bool_),
                np.ones(population.curators, np.bool_),
            )


@dataclass(eq=False)
class _Host:
    """One run: `refusing` and `known` are the current decisions of policies and of the
    coordinator's ledger."""

    driver: Services
    query: Query
    query_id: str
    store: Store
    ids: list[str]
    curators: AsyncClient
    coordinator: AsyncClient
    coordinator_key: bytes
    traffic: Traffic
    refusing: Bits
    known: Bits

    async def round(self, number: int, event: RoundEvents) -> Outcome:
        """One round, from its readings to its transcript."""
        if event.non_compliant.any():
            raise ValueError("a curator service always adds its noise: use the driver in process")
        query, before = self.query, replace(self.traffic)
        senders = event.sends & (event.late_s < query.deadline_s)
        window = self._window(number)
        await self._tell_ledger(event)
        await self._set_policies(~senders)
        await self._give_readings(event, window)
        wall, cpu = time.perf_counter(), self.driver.cpu_s()
        shown = {"start": format_instant(window[0]), "end": format_instant(window[1])}
        opened = await self.coordinator.rounds.open(self.query_id, window=shown)
        state = await self._follow(opened["id"], senders)
        wall, cpu = time.perf_counter() - wall, self.driver.cpu_s() - cpu
        stages = self._exact(event, senders)
        released = state["state"] == RoundState.RELEASED.value
        participants = int(state["participants"] or 0)
        may_know = self.driver.alone and participants == int(senders.sum())
        return Outcome(
            number,
            RoundState(state["state"]),
            state["reason"],
            int(event.enrolled.sum()),
            participants,
            int((event.enrolled & ~event.sends).sum()),
            max(0, int(event.sends.sum()) - participants) if released else 0,
            int(event.lying.sum()),
            state["refused"] or 0,
            stages.raw,
            stages.clamped,
            stages.truth,
            stages.sent,
            stages.present if released and may_know else None,
            stages.held if released and may_know else None,
            await self._opened(opened["id"]) if released else None,
            forecast(query, participants) if released else (),
            self.traffic.since(before),
            wall,
            cpu,
        )

    def _window(self, number: int) -> tuple[datetime, datetime]:
        """Enough hours to give each of a curator's readings its own instant."""
        most = max(int(self.store.counts.max(initial=1)), self.query.max_readings)
        length = HOUR * (1 + most // 3600)
        if self.query.window is not None:
            return self.query.window.start, self.query.window.end
        return FIRST_WINDOW + number * length, FIRST_WINDOW + (number + 1) * length

    async def _tell_ledger(self, event: RoundEvents) -> None:
        changes = {
            "left": self.known & ~event.enrolled,
            "joined": ~self.known & event.enrolled,
            "refreshed": event.refreshed,
        }
        for kind, members in changes.items():
            named = [self.ids[place] for place in np.flatnonzero(members)]
            for start in range(0, len(named), NAMED_AT_ONCE):
                some = named[start : start + NAMED_AT_ONCE]
                await self.coordinator.budget.record_event({"kind": kind, "curators": some})
        self.known = event.enrolled.copy()

    async def _set_policies(self, refusing: Bits) -> None:
        for place in np.flatnonzero(refusing & ~self.refusing):
            await self.curators.policies.set(REFUSING, curator=self.ids[place])
        for place in np.flatnonzero(self.refusing & ~refusing):
            await self.curators.policies.delete(self.ids[place])
        self.refusing = refusing

    async def _give_readings(self, event: RoundEvents, window: tuple[datetime, datetime]) -> None:
        """Import the readings of a window. Raises RuntimeError if one is not stored."""
        lots = readings(self.query, self.store, event.readings_of, event.lying)
        start, length = window[0], window[1] - window[0]
        unit = UNITS[self.query.unit].factor * NANO
        lines = ["curator,device,time,value"]
        length_us = length // timedelta(microseconds=1)
        counts = np.bincount(lots.curator, minlength=lots.count)
        place = np.arange(lots.curator.size) - (np.cumsum(counts) - counts)[lots.curator]
        # Up to the next microsecond: a reading on a slot's border falls into that slot.
        at = -(-place * length_us // counts[lots.curator])
        for owner, moment, quantity in zip(
            lots.curator.tolist(), at.tolist(), lots.quantity.tolist(), strict=True
        ):
            name = self.ids[owner]
            instant = format_instant(start + timedelta(microseconds=moment))
            lines.append(f"{name},{name},{instant},{format_exact(Fraction(quantity) / unit)}")
        answer = await self.curators.readings.import_file(
            "\n".join(lines).encode(),
            unit=self.query.unit,
            register=self.query.register_name,
            kind="delta",
            curator_column="curator",
            device_column="device",
        )
        if answer["accepted"] != len(lines) - 1:
            raise RuntimeError("a reading was not stored")

    async def _follow(self, round_id: str, senders: Bits) -> Round:
        """Watch a round to its end; freeze it once all our curators have submitted, if none are
        remote."""
        if self.driver.alone and not senders.all() and senders.any():
            await self._delivered(round_id, self.ids[int(np.flatnonzero(senders)[0])])
            with contextlib.suppress(RoundClosed):  # it was faster
                await self.coordinator.rounds.close(round_id)
        watched = self.coordinator.rounds.watch(round_id, self.query.deadline_s + GRACE_S)
        return [state async for state in watched][-1]

    async def _delivered(self, round_id: str, curator: str) -> None:
        """Wait until the host's batch of a round is delivered, or will never be."""
        path = f"/v1/curators/{curator}/contributions"
        end = time.monotonic() + self.query.deadline_s
        while time.monotonic() < end:
            newest = (await self.curators.get(path, limit=1))["contributions"]
            ours = [item["state"] for item in newest if item["round"] == round_id]
            if ours and ours[0] not in ("planned", "prepared"):
                return
            await asyncio.sleep(POLL_S)

    async def _opened(self, round_id: str) -> Ints:
        """The total in ring units, recombined here from the checked transcript."""
        answer = await self.coordinator.request("GET", f"/v1/rounds/{round_id}/transcript")
        transcript = Transcript.model_validate_json(answer.content)
        return check_transcript(transcript, self.coordinator_key).total

    def _exact(self, event: RoundEvents, senders: Bits) -> _Exact:
        """What readings of the enrolled come to, and what the senders reported."""
        rows = event.readings_of
        lots = readings(self.query, self.store, rows, np.zeros(rows.size, np.bool_))
        enrolled_lots = lots.rows(np.flatnonzero(event.enrolled[lots.curator]))
        values = honest = encode(self.query, within_reach(self.query, lots)).values
        if event.lying.any():
            lied = readings(self.query, self.store, rows, event.lying)
            values = encode(self.query, within_reach(self.query, lied)).values
        return _Exact(
            sums(self.query, enrolled_lots, clamp=False),
            sums(self.query, enrolled_lots, clamp=True),
            honest[event.enrolled].sum(axis=0),
            honest[event.sends].sum(axis=0),
            honest[senders].sum(axis=0),
            values[senders].sum(axis=0),
        )


@dataclass(frozen=True, eq=False)
class _Exact:
    """As in an `Outcome`."""

    raw: Sums
    clamped: Sums
    truth: Ints
    sent: Ints
    present: Ints
    held: Ints
