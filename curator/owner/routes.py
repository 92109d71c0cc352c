"""The routes of a curator's owner: budget, contributions, counts of readings, what was published.

What was published of a round that a curator answered is fetched for its owner and left as received,
with the identities by which it is checked: those that the curator checked before it answered.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request, Response
from starlette.responses import JSONResponse

from common.bodies import JSON
from common.principals import Principal
from common.runtime.clock import Clock
from common.store.transactions import Database
from common.web.dependencies import part
from common.web.openapi import gives
from common.web.paging import PageQuery, next_link
from common.web.problems import ProblemReceived
from common.web.wire import json_response
from curator.errors import NotGiven, NothingPublished, SignerForgotten
from curator.owner import statement
from curator.owner.policies import Policies
from curator.owner.statement import AskedReports
from curator.parties.peers import Peers
from curator.store.parties import Coordinator, PartyRow
from curator.web import CuratorId, DatabasePart, Owner, answer
from tacit.answers.curator import (
    ListOfContributions,
    ListOfDebits,
    OwnBudget,
    ReadingCounts,
    WholeContribution,
)
from tacit.crypto.signing import Signed, fingerprint
from tacit.protocol.round.agreement import DescriptorRefused, check_consistent
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.protocol.round.messages import Transcript
from tacit.protocol.trust import Anchors, Pinned, Trust, TrustedAggregator
from tacit.query.terms import PrivacyUnit
from tacit.wire import WireModel


@dataclass(frozen=True)
class Given:
    """A round that a curator answered, as `coordinator_key` signed it, and the party that spoke for
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


async def given(database: Database, curator_id: str, round_id: str, caller: Principal) -> Given:
    """Raises ForeignCurator, UnknownCurator, UnknownAnswer, NotGiven, SignerForgotten."""
    async with database.reading() as transaction:
        row, party = await statement.find(transaction, curator_id, caller)
        answer, signed = await statement.answered(transaction, row, party, round_id)
    if not answer["contributed"]:
        raise NotGiven
    return Given(signed.statement, _signer(signed, party.coordinator), party)


def _signer(signed: Signed[RoundDescriptor], coordinator: Coordinator) -> bytes:
    """The coordinator's key that signed a round, now or before it was replaced."""
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


# The routes of a curator's owner: budget, contributions, counts of readings.


class ListOfReports(WireModel):
    """A page of jobs."""

    reports: tuple[AskedReports, ...]


PeersPart = Annotated[Peers, Depends(part(Peers))]


def add_owner(app: FastAPI) -> None:
    """Add the routes to an app."""

    @app.get(
        "/v1/curators/{curator_id}/budget",
        **gives(OwnBudget),
        tags=["owner"],
        summary="The ledger statement: what was spent, what is left",
    )
    async def get_own_budget(
        curator_id: CuratorId,
        caller: Owner,
        database: DatabasePart,
        policies: Annotated[Policies, Depends(part(Policies))],
        clock: Annotated[Clock, Depends(part(Clock))],
    ) -> dict[str, Any]:
        async with database.reading() as transaction:
            row, party = await statement.find(transaction, curator_id, caller)
            return await statement.budget(
                transaction, row, party, await policies.current(), clock.now()
            )

    @app.get(
        "/v1/curators/{curator_id}/contributions",
        **gives(ListOfContributions),
        tags=["owner"],
        summary="Rounds this curator contributed to or refused, newest first",
    )
    async def list_contributions(
        request: Request,
        curator_id: CuratorId,
        page: PageQuery,
        caller: Owner,
        database: DatabasePart,
    ) -> Response:
        after = page.after_number()
        async with database.reading() as transaction:
            row, party = await statement.find(transaction, curator_id, caller)
            items, following = await statement.contributions(
                transaction, row, party, after, page.limit
            )
        headers = None if following is None else next_link(request, following)
        return JSONResponse({"contributions": items}, headers=headers)

    @app.get(
        "/v1/curators/{curator_id}/contributions/{round_id}",
        **gives(WholeContribution),
        tags=["owner"],
        summary="One answer, and who would have to work together to learn what of it",
    )
    async def get_contribution(
        curator_id: CuratorId, round_id: str, caller: Owner, database: DatabasePart
    ) -> dict[str, Any]:
        async with database.reading() as transaction:
            row, party = await statement.find(transaction, curator_id, caller)
            return await statement.contribution(transaction, row, party, round_id)

    @app.get(
        "/v1/curators/{curator_id}/contributions/{round_id}/transcript",
        tags=["owner"],
        summary="The transcript of a round that was answered, as its coordinator published it",
        responses={200: {"model": Transcript}},
    )
    async def get_contribution_transcript(
        curator_id: CuratorId,
        round_id: str,
        caller: Owner,
        database: DatabasePart,
        peers: PeersPart,
    ) -> Response:
        of = await given(database, curator_id, round_id, caller)
        return json_response(await transcript(peers, of))

    @app.get(
        "/v1/curators/{curator_id}/contributions/{round_id}/anchors",
        tags=["owner"],
        summary="Which round was answered, and whose identities the answer went to",
        responses={200: {"model": Anchors}},
    )
    async def get_contribution_anchors(
        curator_id: CuratorId, round_id: str, caller: Owner, database: DatabasePart
    ) -> Response:
        of = await given(database, curator_id, round_id, caller)
        return answer(of.anchors)

    @app.get(
        "/v1/curators/{curator_id}/debits",
        **gives(ListOfDebits),
        tags=["owner"],
        summary="All debits of the ledger in one privacy unit, newest first",
    )
    async def list_debits(
        request: Request,
        curator_id: CuratorId,
        page: PageQuery,
        caller: Owner,
        database: DatabasePart,
        unit: PrivacyUnit = PrivacyUnit.CURATOR,
    ) -> Response:
        after = page.after_number()
        async with database.reading() as transaction:
            row, party = await statement.find(transaction, curator_id, caller)
            items, following = await statement.debits(
                transaction, row, party, unit, after, page.limit
            )
        headers = None if following is None else next_link(request, following)
        return JSONResponse({"debits": items}, headers=headers)

    @app.get(
        "/v1/curators/{curator_id}/reports",
        tags=["owner"],
        summary="Jobs that asked for noisy reports, newest first, and how many were made",
        response_model=ListOfReports,
    )
    async def list_reports(
        request: Request,
        curator_id: CuratorId,
        page: PageQuery,
        caller: Owner,
        database: DatabasePart,
    ) -> Response:
        after = page.after_text()
        async with database.reading() as transaction:
            row, party = await statement.find(transaction, curator_id, caller)
            items, following = await statement.reports(transaction, row, party, after, page.limit)
        headers = None if following is None else next_link(request, following)
        body = ListOfReports(reports=tuple(items)).model_dump_json()
        return Response(body, media_type=JSON, headers=headers)

    @app.get(
        "/v1/curators/{curator_id}/readings",
        **gives(ReadingCounts),
        tags=["owner"],
        summary="How many readings were accepted, refused, used, clamped",
    )
    async def list_readings(
        curator_id: CuratorId, caller: Owner, database: DatabasePart
    ) -> dict[str, Any]:
        async with database.reading() as transaction:
            row, party = await statement.find(transaction, curator_id, caller)
            return await statement.reading_counts(transaction, row, party)
