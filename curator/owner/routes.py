"""The routes of a curator's owner: budget, contributions, counts of readings, what was published.

What was published of a round that a curator answered is fetched for its owner and left as received,
with the identities by which it is checked: those that the curator checked before it answered.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from typing import Annotated
from zoneinfo import ZoneInfo

from fastapi import Depends, Query, Request, Response

from common.runtime.clock import zone_named
from common.web.dependencies import part
from common.web.openapi import api_router, gives
from common.web.paging import PageQuery
from common.web.problems import ProblemReceived
from common.web.wire import json_response
from curator.errors import NotGiven, NothingPublished, SignerForgotten
from curator.owner import calendar, statement
from curator.owner.calendar import Calendar
from curator.owner.policies import PoliciesPart
from curator.owner.statement import AskedReports, OwnCurator, OwnCuratorPart
from curator.parties.peers import Peers
from curator.settings import CuratorSettings
from curator.store.parties import Coordinator, PartyRow
from curator.web import ClockPart, answer, page_of
from tacit.answers.curator import (
    ListOfContributions,
    ListOfDebits,
    OwnBudget,
    ReadingCounts,
    WholeContribution,
)
from tacit.crypto.signing import Signed, fingerprint
from tacit.errors import FieldError, Invalid
from tacit.protocol.round.agreement import DescriptorRefused, check_consistent
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.protocol.round.messages import Transcript
from tacit.protocol.trust import Anchors, Pinned, Trust, TrustedAggregator
from tacit.query.terms import PrivacyUnit
from tacit.wire import WireModel


@dataclass(frozen=True)
class Given:
    """A round that a curator answered, as `coordinator_key` signed it, and the party that acted for
    the curator."""

    descriptor: RoundDescriptor
    coordinator_key: bytes
    party: PartyRow

    @property
    def anchors(self) -> Anchors:
        """A party answers a round only after it has checked each identity against its join
        token."""
        trust = Trust(
            deployment=self.party.deployment,
            coordinator=(fingerprint(self.coordinator_key).hex(),),
            aggregators=tuple(
                TrustedAggregator(
                    id=entry.id, fingerprints=(Pinned(fingerprint=entry.fingerprint.hex()),)
                )
                for entry in self.descriptor.aggregators
            ),
        )
        return Anchors(
            descriptor_hash=self.descriptor.digest(),
            coordinator_key=self.coordinator_key,
            trust=trust,
        )


async def given(own: OwnCurator, round_id: str) -> Given:
    """Raises ForeignCurator, UnknownCurator, UnknownAnswer, NotGiven, SignerForgotten."""
    async with own.reading() as (transaction, row, party):
        answer, signed = await statement.answered(transaction, row, party, round_id)
    if not answer.contributed:
        raise NotGiven
    return Given(signed.statement, _signer(signed, party.coordinator), party)


def _signer(signed: Signed[RoundDescriptor], coordinator: Coordinator) -> bytes:
    """The coordinator's key that signed a round: the current one, or one that it replaced."""
    anchored = coordinator.pin.anchored
    older = () if anchored is None else anchored.documents
    for key in (coordinator.key, *(document.ed25519 for document in older)):
        with suppress(DescriptorRefused):
            check_consistent(signed, key)
            return key
    raise SignerForgotten


async def transcript(peers: Peers, of: Given) -> bytes:
    """Raises NothingPublished, PeerUnavailable."""
    party, round_id = of.party, of.descriptor.round
    try:
        return await peers.transcript(party.coordinator_url, party.coordinator_token, round_id)
    except ProblemReceived as problem:
        raise NothingPublished(extra={"problem": problem.name}) from None


class ListOfReports(WireModel):
    """A page of jobs."""

    reports: tuple[AskedReports, ...]


async def _round_id(round_id: str) -> str:
    return round_id


PeersPart = Annotated[Peers, Depends(part(Peers))]
OfRound = Annotated[str, Depends(_round_id)]
"""A dependency, so that the API document lists it after the curator, as in the path."""


LastDay = Annotated[date | None, Query(alias="to", description="The last day; else today.")]
ZoneName = Annotated[str | None, Query(alias="timezone", description="IANA zone of the days.")]
OfRegister = Annotated[
    str | None, Query(alias="register", description="Else the first that has readings.")
]


def zone_of(named: str | None, settings: CuratorSettings) -> ZoneInfo:
    """The zone of a calendar. Raises Invalid."""
    try:
        return zone_named(named or settings.calendar_timezone)
    except ValueError as error:
        raise Invalid(errors=[FieldError("/timezone", str(error), "query")]) from None


router = api_router("owner")


@router.get(
    "/v1/curators/{curator_id}/budget",
    response_model_exclude_unset=True,
    summary="The ledger statement: what was spent, what is left",
)
async def get_own_budget(
    own: OwnCuratorPart, policies: PoliciesPart, clock: ClockPart
) -> OwnBudget:
    async with own.reading() as (transaction, row, party):
        default = await policies.current()
        return await statement.budget(transaction, row, party, default, clock.now())


@router.get(
    "/v1/curators/{curator_id}/contributions",
    **gives(ListOfContributions),
    summary="Rounds this curator contributed to or refused, newest first",
)
async def list_contributions(request: Request, page: PageQuery, own: OwnCuratorPart) -> Response:
    after = page.after_number()
    async with own.reading() as (transaction, row, party):
        items, following = await statement.contributions(transaction, row, party, after, page.limit)
    return page_of(request, ListOfContributions(contributions=items), following)


@router.get(
    "/v1/curators/{curator_id}/contributions/{round_id}",
    response_model_exclude_unset=True,
    summary="One answer, and who would have to work together to learn what of it",
)
async def get_contribution(own: OwnCuratorPart, round_id: OfRound) -> WholeContribution:
    async with own.reading() as (transaction, row, party):
        return await statement.contribution(transaction, row, party, round_id)


@router.get(
    "/v1/curators/{curator_id}/contributions/{round_id}/transcript",
    summary="The transcript of a round that was answered, as its coordinator published it",
    responses={200: {"model": Transcript}},
)
async def get_contribution_transcript(
    own: OwnCuratorPart, round_id: OfRound, peers: PeersPart
) -> Response:
    of = await given(own, round_id)
    return json_response(await transcript(peers, of))


@router.get(
    "/v1/curators/{curator_id}/contributions/{round_id}/anchors",
    summary="Which round was answered, and which identities received the answer",
    responses={200: {"model": Anchors}},
)
async def get_contribution_anchors(own: OwnCuratorPart, round_id: OfRound) -> Response:
    return answer((await given(own, round_id)).anchors)


@router.get(
    "/v1/curators/{curator_id}/debits",
    **gives(ListOfDebits),
    summary="All debits of the ledger in one privacy unit, newest first",
)
async def list_debits(
    request: Request,
    page: PageQuery,
    own: OwnCuratorPart,
    unit: PrivacyUnit = PrivacyUnit.CURATOR,
) -> Response:
    after = page.after_number()
    async with own.reading() as (transaction, row, party):
        items, following = await statement.debits(transaction, row, party, unit, after, page.limit)
    return page_of(request, ListOfDebits(debits=items), following)


@router.get(
    "/v1/curators/{curator_id}/reports",
    summary="Jobs that asked for noisy reports, newest first, and how many were made",
    response_model=ListOfReports,
)
async def list_reports(request: Request, page: PageQuery, own: OwnCuratorPart) -> Response:
    after = page.after_text()
    async with own.reading() as (transaction, row, party):
        items, following = await statement.reports(transaction, row, party, after, page.limit)
    return page_of(request, ListOfReports(reports=tuple(items)), following)


@router.get(
    "/v1/curators/{curator_id}/readings",
    summary="How many readings were accepted, refused, used, clamped",
)
async def list_readings(own: OwnCuratorPart) -> ReadingCounts:
    async with own.reading() as (transaction, row, party):
        return await statement.reading_counts(transaction, row, party)


@router.get(
    "/v1/curators/{curator_id}/calendar",
    summary="For each device the days on which its readings are complete, partial or missing",
)
async def get_calendar(
    own: OwnCuratorPart,
    clock: ClockPart,
    settings: Annotated[CuratorSettings, Depends(part(CuratorSettings))],
    register: OfRegister = None,
    to: LastDay = None,
    timezone: ZoneName = None,
) -> Calendar:
    zone = zone_of(timezone, settings)
    async with own.reading() as (transaction, row, _):
        sheet_made = await calendar.sheet(transaction, row, register, to, zone, clock.now())
    return sheet_made.calendar
