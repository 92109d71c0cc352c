"""A soak test under kill -9: many short rounds are open while services are killed and restarted.

Seeded killers kill one to three services at a time (coordinator, aggregators, curator hosts),
restart them, sometimes kill them during the start, and continue, while several rounds are open.
Every request is retried until it is acknowledged, as a patient client would do.
`simulation.chaos_checks` has the conditions that must hold afterwards.

Curator i reads 2^i in every window, so an exact sum shows who is in it and how often. The services
are real processes; the object that starts and kills them is a parameter (`Machines`).
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol

import httpx

from tacit import AsyncClient, Problem, Retry
from tacit.randomness import SeededRandom
from tacit.wire import format_instant

FIRST_WINDOW: Final = datetime(2025, 1, 6, tzinfo=UTC)
HOUR: Final = timedelta(hours=1)
REGISTER: Final = "soak"
"""Plain numbers: a register outside the catalogue."""
MOST_CURATORS: Final = 24
"""So that a reading of 2^i stays within a noise scale's limit."""
PATIENT: Final = Retry(attempts=1000, deadline_s=180.0, pause_factor=0.5)
FINISH_S: Final = 180.0
WHILE_STARTING: Final = 0.15
"""The chance that a service is killed once more before it is ready."""


class Machines(Protocol):
    """Starts and kills services by name."""

    @property
    def names(self) -> Sequence[str]:
        """The names of all services."""
        ...

    def kill(self, name: str) -> None:
        """kill -9, and wait for the end."""
        ...

    def start(self, name: str) -> None:
        """Start the process; do not wait."""
        ...

    def wait_until_ready(self, name: str) -> None:
        """Block until it is ready; raises RuntimeError if it ends instead."""
        ...


@dataclass(frozen=True)
class Access:
    """A service's address and its operator's token."""

    url: str
    token: str

    def client(self) -> AsyncClient:
        """A client that retries until it gets an answer."""
        return AsyncClient(self.url, self.token, timeout_s=15.0, retry=PATIENT)


@dataclass(frozen=True)
class Site:
    """The services under test: the coordinator, and each host with its curators, in order."""

    coordinator: Access
    hosts: dict[str, Access]
    curators: dict[str, tuple[str, ...]]
    aggregators: int

    def values(self) -> dict[str, int]:
        """Each curator's reading in every window: a different power of two for each."""
        names = [name for host in self.hosts for name in self.curators[host]]
        if len(names) > MOST_CURATORS:
            raise ValueError(f"at most {MOST_CURATORS} curators")
        return {name: 1 << place for place, name in enumerate(names)}


@dataclass(frozen=True)
class Plan:
    """How much is done: the killing stops after this many kills, or after this many seconds if
    given.

    The run then continues without kills until `released` rounds are released (with at most four
    times as many rounds), so that every check has been exercised.
    """

    kills: int
    seconds: float | None
    seed: int
    released: int = 6
    in_flight: int = 3
    killers: int = 1
    together: int = 3
    deadline_s: int = 3
    pause_s: float = 0.3


@dataclass
class Ran:
    """A round as its client saw it. `total` is recombined from the transcript."""

    number: int
    id: str
    exact: bool
    state: str
    reason: str | None
    participants: int | None
    total: int | None = None
    matches: bool | None = None


@dataclass
class Soak:
    """The state of a soak so far."""

    rounds: list[Ran] = field(default_factory=list)
    acknowledged: dict[str, set[int]] = field(default_factory=dict)
    kills: Counter[str] = field(default_factory=Counter)
    not_opened: Counter[str] = field(default_factory=Counter)
    started: float = field(default_factory=time.monotonic)
    seconds: float = 0.0

    @property
    def killed(self) -> int:
        """The number of kills."""
        return self.kills.total()

    def enough(self, plan: Plan) -> bool:
        """Whether as many rounds were released as the plan requires, or no more can be."""
        released = sum(ran.state == "released" for ran in self.rounds)
        tried = len(self.rounds) + self.not_opened.total()
        return released >= plan.released or tried >= 4 * plan.released


def queries(site: Site, deadline_s: int) -> list[dict[str, Any]]:
    """The rounds' queries, in turn: exact sums under both sharings, and one with noise, whose
    debits are finite."""
    common: dict[str, Any] = {
        "function": "sum",
        "register": REGISTER,
        "unit": "1",
        "bounds": ["0", str(1 << (len(site.values()) - 1))],
        "max_readings": 1,
        "resolution": "1",
        "aggregators": site.aggregators,
        "min_participants": 2,
        "n_max": 1000,
        "deadline_s": deadline_s,
    }
    exact = {**common, "mechanism": "exact", "rule": {"min_participants": 2}}
    return [
        {**exact, "name": "soak-additive", "sharing": "additive"},
        {
            **common,
            "name": "soak-noisy",
            "mechanism": "distributed",
            "epsilon": "1",
            "sharing": "additive",
        },
        {
            **exact,
            "name": "soak-shamir",
            "sharing": "shamir",
            "threshold": site.aggregators // 2 + 1,
        },
    ]


async def soak(
    plan: Plan, site: Site, machines: Machines, on_change: Callable[[Soak], None] = lambda _: None
) -> Soak:
    """Kill and sum until the plan is fulfilled; all services run and all rounds are over then.

    Raises RuntimeError if a service does not come back, TimeoutError if a round does not end.
    """
    done = Soak(acknowledged={name: set() for name in site.values()})
    over = asyncio.Event()
    numbers = iter(range(10**9))
    queries_made = queries(site, plan.deadline_s)
    async with AsyncExitStack() as stack:
        coordinator = await stack.enter_async_context(site.coordinator.client())
        hosts = {
            name: await stack.enter_async_context(access.client())
            for name, access in site.hosts.items()
        }
        group = await stack.enter_async_context(asyncio.TaskGroup())
        ids = [(await coordinator.queries.create(item))["id"] for item in queries_made]

        async def work() -> None:
            while not over.is_set() or not done.enough(plan):
                number = next(numbers)
                kind = number % len(ids)
                exact = queries_made[kind]["mechanism"] == "exact"
                await _give(site, hosts, number, done)
                await _one_round(coordinator, number, ids[kind], exact, done)
                on_change(done)

        for _ in range(plan.in_flight):
            group.create_task(work())
        try:
            await _kill_all(plan, machines, done, on_change)
        finally:
            over.set()
    done.seconds = time.monotonic() - done.started
    return done


# --- the killer ----------------------------------------------------------------------------------


@dataclass
class _Alive:
    """Which services are not being killed at this moment, and how many kills remain."""

    names: set[str]
    left: int

    def take(self, count: int) -> int:
        """This many kills, or the remaining ones if fewer."""
        slots = min(count, self.left)
        self.left -= slots
        return slots


async def _kill_all(
    plan: Plan, machines: Machines, done: Soak, on_change: Callable[[Soak], None]
) -> None:
    """Several killers share the services; no two are at the same one at a time."""
    end = None if plan.seconds is None else done.started + plan.seconds
    alive = _Alive(set(machines.names), plan.kills)
    sources = [SeededRandom(plan.seed + place) for place in range(plan.killers)]
    killers = [_kill(plan, machines, alive, end, source, done, on_change) for source in sources]
    await asyncio.gather(*killers)


async def _kill(
    plan: Plan,
    machines: Machines,
    alive: _Alive,
    end: float | None,
    source: SeededRandom,
    done: Soak,
    on_change: Callable[[Soak], None],
) -> None:
    generator = source.generator

    async def kill(name: str) -> None:
        await asyncio.to_thread(machines.kill, name)
        done.kills[name] += 1

    while alive.left and (end is None or time.monotonic() < end):
        await asyncio.sleep(float(generator.exponential(plan.pause_s)))
        there = sorted(alive.names)
        count = alive.take(min(int(generator.integers(1, plan.together + 1)), len(there)))
        victims = [there[int(place)] for place in generator.choice(len(there), count, False)]
        again = generator.random(count) < WHILE_STARTING
        down_s, starting_s = generator.exponential(0.2), generator.random() * 0.8
        alive.names.difference_update(victims)
        for name in victims:
            await kill(name)
        await asyncio.sleep(float(down_s))
        for name in victims:
            machines.start(name)
        for name, repeated in zip(victims, again, strict=True):
            if repeated and alive.take(1):
                await asyncio.sleep(float(starting_s))
                await kill(name)
                machines.start(name)
        for name in victims:
            await asyncio.to_thread(machines.wait_until_ready, name)
        alive.names.update(victims)
        on_change(done)


# --- a round -------------------------------------------------------------------------------------


def _window(number: int) -> tuple[datetime, datetime]:
    """A separate hour for each round."""
    start = FIRST_WINDOW + number * HOUR
    return start, start + HOUR


async def _give(site: Site, hosts: Mapping[str, AsyncClient], number: int, done: Soak) -> None:
    """Every curator's reading of a window, sent until it is acknowledged."""
    values, (start, _) = site.values(), _window(number)
    for host, client in hosts.items():
        names = site.curators[host]
        items = [
            {
                "curator": name,
                "device": f"meter-{name}",
                "register": REGISTER,
                "time": format_instant(start + HOUR / 2),
                "value": str(values[name]),
                "unit": "1",
                "kind": "delta",
            }
            for name in names
        ]
        answers = await client.readings.send(items)
        for name, answer in zip(names, answers, strict=True):
            if answer["status"] in ("accepted", "duplicate"):
                done.acknowledged[name].add(number)


async def _one_round(
    coordinator: AsyncClient, number: int, query_id: str, exact: bool, done: Soak
) -> None:
    """A round from its opening to its checked transcript."""
    start, end = _window(number)
    window = {"start": format_instant(start), "end": format_instant(end)}
    try:
        opened = await coordinator.rounds.open(query_id, window=window)
    except Problem as problem:
        done.not_opened[problem.name] += 1
        return
    state = await _end_of(coordinator, opened["id"])
    ran = Ran(number, opened["id"], exact, state["state"], state["reason"], state["participants"])
    if ran.state == "released":
        checked = await coordinator.rounds.verify(ran.id)
        ran.total, ran.matches = int(checked["result"]["sum"]), checked["matches"]
    done.rounds.append(ran)


async def _end_of(coordinator: AsyncClient, round_id: str) -> dict[str, Any]:
    """How a round ended, however often the coordinator is restarted."""
    end = time.monotonic() + FINISH_S
    while time.monotonic() < end:
        try:
            async for state in coordinator.rounds.watch(round_id, end - time.monotonic()):
                if state["state"] in ("released", "aborted"):
                    return dict(state)
        except (httpx.TransportError, Problem):
            await asyncio.sleep(0.1)
    raise TimeoutError(f"round {round_id} did not end")
