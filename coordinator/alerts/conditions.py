"""The conditions that need an operator. The first page, the metric `conditions` and notifications
have this list, and no other.

A sentence names aggregators, queries and counts: never a curator, and nothing of a reading. What
only another service knows of itself (its disk, its backups) is in its own metrics.
"""

from __future__ import annotations

import asyncio
import shutil
import ssl
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit

from common.runtime.clock import Clock
from common.runtime.settings import LAST_BACKUP
from common.runtime.tls import expiry
from common.store import tokens as token_store
from common.store.transactions import Database, Transaction
from common.web.paging import Page
from coordinator import queries
from coordinator.budget.ledger import Ledger
from coordinator.budget.limits import Limit
from coordinator.budget.outlook import outlook_of
from coordinator.budget.plans import BudgetOutlook, OutlookRequest
from coordinator.queries import periods_over
from coordinator.registry.aggregators import Attendance
from coordinator.rounds import progress
from coordinator.settings import CoordinatorSettings
from coordinator.store import queries as query_store
from coordinator.store import registry
from coordinator.store import rounds as round_store
from coordinator.store.rounds import ACTIVE, Filter, Participation
from coordinator.store.tables import tokens
from tacit.protocol.round.state import RoundState
from tacit.wire import format_exact, format_instant


class ConditionKind(StrEnum):
    AGGREGATOR_AWAY = "aggregator_away"
    BACKUP_OLD = "backup_old"
    BUDGET_ENDS = "budget_ends"
    CERTIFICATE_ENDS = "certificate_ends"
    CLOCK_SKEW = "clock_skew"
    DISK_FULL = "disk_full"
    LEDGER_BROKEN = "ledger_broken"
    PARTICIPATION_FALLS = "participation_falls"
    ROUND_ABORTED = "round_aborted"
    SCHEDULE_STOPPED = "schedule_stopped"
    TOKENS_END = "tokens_end"


RUNBOOK: Final = "docs/how-to/troubleshoot.md"
HEADINGS: Final[Mapping[ConditionKind, str]] = {
    ConditionKind.AGGREGATOR_AWAY: "an-aggregator-does-not-answer",
    ConditionKind.BACKUP_OLD: "the-last-backup-is-old",
    ConditionKind.BUDGET_ENDS: "the-budget-ends",
    ConditionKind.CERTIFICATE_ENDS: "tls-fails",
    ConditionKind.CLOCK_SKEW: "a-clock-is-wrong",
    ConditionKind.DISK_FULL: "the-disk-is-nearly-full",
    ConditionKind.LEDGER_BROKEN: "the-ledger-does-not-verify",
    ConditionKind.PARTICIPATION_FALLS: "participation-falls",
    ConditionKind.ROUND_ABORTED: "a-round-is-not-released",
    ConditionKind.SCHEDULE_STOPPED: "a-schedule-opens-no-rounds",
    ConditionKind.TOKENS_END: "a-token-ends",
}
"""The heading of the page of troubles for each."""


def runbook(kind: ConditionKind) -> str:
    """Which section of the documentation says what to do."""
    return f"{RUNBOOK}#{HEADINGS[kind]}"


@dataclass(frozen=True)
class Condition:
    """Something that needs an operator. `subject`: what it concerns, which with the kind
    identifies the condition. `sentence` can end in a time, `at`. `path`: the page that shows it."""

    kind: ConditionKind
    subject: str
    sentence: str
    path: str
    at: datetime | None = None

    @property
    def text(self) -> str:
        """The sentence with its time."""
        return self.sentence if self.at is None else f"{self.sentence} {format_instant(self.at)}"


LATE: Final = timedelta(minutes=10)
"""How long after the end of its period the round of a schedule is overdue."""
FREE_RATIO: Final = 0.1
SKEW_S: Final = 30.0
CERTIFICATE: Final = timedelta(days=14)
TOKEN: Final = timedelta(days=3)
TOKEN_LIFE: Final = timedelta(days=7)
"""Tokens that were made for less than this end without a word."""
SHARE: Final = 0.7
"""Of the mean of the days before; fewer participants are a fall."""
DAYS: Final = 3
SAME_HOUR: Final = timedelta(minutes=30)
KEPT: Final = timedelta(minutes=10)
"""How long an outlook of the budget and a comparison of days serve, which may take a second."""
CERTIFICATES_KEPT: Final = timedelta(hours=1)
_CONNECT_S: Final = 5.0
_EXAMINED: Final = 20


@dataclass(frozen=True)
class _Slow:
    looked: datetime
    outlook: BudgetOutlook
    falls: Sequence[Condition]


class Conditions:
    """Finds the conditions of this moment."""

    def __init__(
        self,
        settings: CoordinatorSettings,
        database: Database,
        ledger: Ledger,
        attendance: Attendance,
        clock: Clock,
    ) -> None:
        self._settings, self._database, self._ledger = settings, database, ledger
        self._attendance, self._clock = attendance, clock
        self._slow: _Slow | None = None
        self._looking = asyncio.Lock()
        self._certificates: dict[str, datetime] = {}
        self._certificates_looked: datetime | None = None

    async def present(self, outlook: BudgetOutlook | None = None) -> list[Condition]:
        """All current conditions, the most urgent first; uses the caller's current `outlook`, if
        given."""
        now = self._clock.now()
        async with self._looking:
            slow = await self._look(now, outlook)
        async with self._database.reading() as transaction:
            schedules = await late_schedules(transaction, now - LATE)
            first_token = await token_store.first_made(transaction, tokens)
            ending = await token_store.count_ending(
                transaction, tokens, now, now + TOKEN, TOKEN_LIFE
            )
        return [
            *self._ledger_broken(),
            *away(self._attendance),
            *self._disk_full(),
            *await self._aborted(),
            *(
                Condition(
                    ConditionKind.SCHEDULE_STOPPED,
                    query_id,
                    f"The schedule of {name} opens no rounds",
                    f"/console/queries/{query_id}",
                )
                for query_id, name in schedules
            ),
            *slow.falls,
            *budget_ends(slow.outlook),
            *self._clock_skew(),
            *self._certificates_end(now),
            *tokens_end(ending),
            *self._backup_old(now, first_token),
        ]

    async def outlook(self) -> BudgetOutlook:
        """How long the limits of the budget last; worked out every ten minutes."""
        async with self._looking:
            return (await self._look(self._clock.now(), None)).outlook

    async def look_at_certificates(self) -> None:
        """Ask each aggregator with TLS for its certificate; once an hour."""
        now = self._clock.now()
        looked = self._certificates_looked
        if looked is not None and timedelta() <= now - looked < CERTIFICATES_KEPT:
            return
        self._certificates_looked = now
        async with self._database.reading() as transaction:
            rows = await registry.list_aggregators(transaction)
        secure = [row for row in rows if urlsplit(row.url).scheme == "https"]
        if secure:
            trust = self._settings.trust()
            ends = await asyncio.gather(*(certificate_end(row.url, trust) for row in secure))
            self._certificates = {
                row.id: end for row, end in zip(secure, ends, strict=True) if end is not None
            }

    async def _look(self, now: datetime, outlook: BudgetOutlook | None) -> _Slow:
        slow = self._slow
        if slow is None or outlook is not None or not timedelta() <= now - slow.looked < KEPT:
            days = OutlookRequest(days=self._settings.budget_warning_days)
            if outlook is None:
                outlook = await outlook_of(self._database, self._ledger, self._clock, days)
            async with self._database.reading() as transaction:
                since = now - timedelta(days=DAYS + 1) - SAME_HOUR
                falls = participation_falls(
                    await round_store.participation_since(transaction, since)
                )
                names = [
                    (await queries.find(transaction, newest.query_id)).query.name
                    for newest, _ in falls
                ]
            falls_found = [_fall(*fall, name) for fall, name in zip(falls, names, strict=True)]
            slow = self._slow = _Slow(now, outlook, falls_found)
        return slow

    def _ledger_broken(self) -> list[Condition]:
        if self._ledger.broken is None:
            return []
        sentence = "The budget ledger does not verify: no round may be opened"
        return [
            Condition(ConditionKind.LEDGER_BROKEN, "ledger", sentence, "/console/budget/ledger")
        ]

    def _disk_full(self) -> list[Condition]:
        try:
            usage = shutil.disk_usage(self._settings.data_dir)
        except OSError:
            return []
        if usage.free >= FREE_RATIO * usage.total:
            return []
        sentence = f"The disk of the coordinator has {100 * usage.free / usage.total:.0f} % left"
        return [Condition(ConditionKind.DISK_FULL, "coordinator", sentence, "/console")]

    async def _aborted(self) -> list[Condition]:
        """The newest round that ended, if it released no sum."""
        which = Filter(newest_first=True, heads=True)
        heads, _ = await progress.heads(self._database, which, Page(_EXAMINED, None))
        newest = next((head for head in heads if head.state not in ACTIVE), None)
        if newest is None or newest.state is not RoundState.ABORTED:
            return []
        sentence = f"The last round of {newest.query} opened no sum: {newest.reason}"
        path = f"/console/rounds/{newest.id}"
        return [Condition(ConditionKind.ROUND_ABORTED, newest.query_id, sentence, path)]

    def _clock_skew(self) -> list[Condition]:
        """Aggregators whose clocks differ from this one's."""
        return [
            Condition(
                ConditionKind.CLOCK_SKEW,
                presence.id,
                f"The clocks of {presence.id} and of the coordinator are "
                f"{abs(presence.ahead_s):.0f} s apart",
                "/console/parties",
            )
            for presence in self._attendance.present.values()
            if presence.ahead_s is not None and abs(presence.ahead_s) > SKEW_S
        ]

    def _certificates_end(self, now: datetime) -> list[Condition]:
        ends = dict(self._certificates)
        if self._settings.tls_certificate is not None:
            with suppress(OSError, ValueError):  # a file that is being renewed
                ends["coordinator"] = expiry(self._settings.tls_certificate)
        return [
            Condition(
                ConditionKind.CERTIFICATE_ENDS,
                name,
                f"The certificate of {name} ends on",
                "/console",
                end,
            )
            for name, end in ends.items()
            if end - now < CERTIFICATE
        ]

    def _backup_old(self, now: datetime, made_at: datetime | None) -> list[Condition]:
        """Too long since the last backup; before the first backup, since the deployment was
        made."""
        days = self._settings.backup_warning_days
        try:
            marker = (self._settings.data_dir / LAST_BACKUP).stat()
            last = datetime.fromtimestamp(marker.st_mtime, UTC)
        except OSError:
            last = made_at or now
        if now - last <= timedelta(days=days):
            return []
        sentence = f"The coordinator was not backed up for {(now - last).days} days"
        return [Condition(ConditionKind.BACKUP_OLD, "coordinator", sentence, "/console")]


def away(attendance: Attendance) -> list[Condition]:
    """Aggregators that do not answer: no round with them can be opened or finished."""
    return [
        Condition(
            ConditionKind.AGGREGATOR_AWAY,
            presence.id,
            f"{attendance.sentence(presence)}: {presence.problem}",
            "/console/parties",
        )
        for presence in attendance.away()
    ]


def budget_ends(outlook: BudgetOutlook) -> list[Condition]:
    """Limits that the schedules use up soon."""
    return [
        Condition(
            ConditionKind.BUDGET_ENDS,
            stated(budget_limit.limit),
            f"A limit of epsilon {stated(budget_limit.limit)} is used up on",
            f"/console/budget?limit={place}",
            budget_limit.exhausted,
        )
        for place, budget_limit in enumerate(outlook.limits)
        if budget_limit.exhausted is not None
    ]


def stated(limit: Limit) -> str:
    """The figure of a limit; of one in zCDP with the delta that it is at."""
    epsilon = format_exact(limit.epsilon)
    at_delta = limit.zcdp is not None and limit.delta is not None
    return f"{epsilon} at delta {format_exact(limit.delta)}" if at_delta else epsilon


def tokens_end(count: int) -> list[Condition]:
    """API tokens of people and programs that expire; parties and services renew theirs
    automatically."""
    if not count:
        return []
    tokens_in_words = "1 token" if count == 1 else f"{count} tokens"
    sentence = f"{tokens_in_words} of the coordinator will end within {TOKEN.days} days"
    return [Condition(ConditionKind.TOKENS_END, "coordinator", sentence, "/console/tokens")]


def participation_falls(
    counts: Iterable[Participation],
) -> list[tuple[Participation, float]]:
    """The newest sum of each query that has fewer curators than `SHARE` of the mean at the same
    hour of the three days before, with that mean. `counts`: releases, the oldest first."""
    by_query: dict[str, list[Participation]] = {}
    for item in counts:
        by_query.setdefault(item.query_id, []).append(item)
    newest_falls = []
    for items in by_query.values():
        newest, earlier = items[-1], []
        for day in range(1, DAYS + 1):
            then = newest.opened - timedelta(days=day)
            nearest = min(items, key=lambda item: abs(item.opened - then))
            if abs(nearest.opened - then) <= SAME_HOUR:
                earlier.append(nearest.participants)
        usual = sum(earlier) / DAYS
        if len(earlier) == DAYS and newest.participants < SHARE * usual:
            newest_falls.append((newest, usual))
    return newest_falls


def _fall(newest: Participation, usual: float, name: str) -> Condition:
    sentence = (
        f"The newest sum of {name} has {newest.participants} curators; at this hour of the three "
        f"days before it had {usual:.0f}"
    )
    path = f"/console/rounds/{newest.id}"
    return Condition(ConditionKind.PARTICIPATION_FALLS, newest.query_id, sentence, path)


async def late_schedules(transaction: Transaction, before: datetime) -> list[tuple[str, str]]:
    """Id and name of the scheduled queries that have no round for a period that had ended by
    then."""
    late = []
    for row in await query_store.scheduled(transaction):
        assert row.query.schedule is not None
        newest = await round_store.newest_slot(transaction, row.id)
        following = 0 if newest is None else newest + 1
        if following < periods_over(row.query.schedule, before):
            late.append((row.id, row.query.name))
    return late


async def certificate_end(url: str, trust: ssl.SSLContext) -> datetime | None:
    """When the certificate that is shown at an address expires; None if no valid one is shown."""
    host, port = urlsplit(url).hostname, urlsplit(url).port or 443
    try:
        async with asyncio.timeout(_CONNECT_S):
            _, writer = await asyncio.open_connection(host, port, ssl=trust)
    except (OSError, ValueError):
        return None
    try:
        shown = writer.get_extra_info("peercert")
        return datetime.fromtimestamp(ssl.cert_time_to_seconds(shown["notAfter"]), UTC)
    finally:
        writer.close()
