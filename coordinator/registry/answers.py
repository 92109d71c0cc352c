"""The answers of aggregators, and how a step combines those of all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from typing import Annotated, Final, Protocol, TypeVar

from pydantic import BaseModel, Field, RootModel

from common.web.problems import ProblemReceived
from coordinator.errors import AggregatorUnreachable
from tacit.crypto.signing import Signed
from tacit.protocol.enrolment import PublicKey
from tacit.protocol.round.messages import AcceptedSet, Commitment, SealedKeyShare
from tacit.protocol.round.pieces import Contribution, Piece
from tacit.query.disclosure import DisclosureRule
from tacit.query.terms import Identifier
from tacit.wire import WireModel

Answer = TypeVar("Answer")
SOON_S: Final = 3.0
"""How long a page waits for an aggregator."""


class Named(Protocol):
    """An aggregator that a request was sent to."""

    @property
    def id(self) -> str: ...


class Opening(WireModel):
    """An aggregator's answer to a round descriptor."""

    round: str
    descriptor_hash: str
    contribution: Contribution | None = None
    key_shares: tuple[SealedKeyShare, ...] | None = None


class RelayedPiece(WireModel):
    """A noise contribution's piece for one aggregator, as the coordinator forwards it."""

    aggregator: str
    piece: Piece


class Progress(BaseModel):
    """What an aggregator reports about an open round: how many curators it accepted."""

    accepted: Annotated[int, Field(ge=0)]


class OfRound(WireModel):
    """The round for which a seal key is requested."""

    round: str


class FreezeAnswer(RootModel[Signed[Commitment] | Signed[AcceptedSet] | Progress]):
    """The commitment to what was expected, the accepted set where it is another, or the progress
    of a round that is not frozen yet."""


class Missing(BaseModel):
    """The number of the requested curators of which an aggregator holds no piece."""

    missing: Annotated[int, Field(ge=0)]


class WellKnown(BaseModel):
    """What a coordinator reads of an aggregator's statement about itself."""

    id: Identifier
    operator: Annotated[str, Field(min_length=1, max_length=128)]
    identity_key: PublicKey


_Figure = Annotated[int, Field(ge=0, lt=1 << 53)]


class AggregatorPolicy(BaseModel):
    """Which rounds an aggregator accepts, as it states."""

    min_participants: _Figure
    max_curators: _Figure
    max_roster: _Figure
    max_dimension: _Figure
    max_round_s: _Figure
    exact_rule: DisclosureRule | None
    allow_paper: bool


class FullStatement(WellKnown):
    """The same with the aggregator's policy, for operators."""

    policy: AggregatorPolicy


# --- requests to all -----------------------------------------------------------------------------


async def soon(call: Awaitable[Answer]) -> Answer:
    """An answer that a page waits for. Raises AggregatorUnreachable after a few
    seconds."""
    try:
        async with asyncio.timeout(SOON_S):
            return await call
    except TimeoutError:
        raise AggregatorUnreachable(f"no answer within {SOON_S:g} seconds") from None


async def gather(calls: Iterable[Awaitable[Answer]]) -> list[Answer | Exception]:
    """All answers in order; where an aggregator refused or did not answer, the exception."""

    async def one(call: Awaitable[Answer]) -> Answer | Exception:
        try:
            return await call
        except (AggregatorUnreachable, ProblemReceived) as error:
            return error

    return list(await asyncio.gather(*(one(call) for call in calls)))


def answered(answers: Iterable[Answer | Exception]) -> list[Answer]:
    """The answers without the exceptions."""
    return [item for item in answers if not isinstance(item, Exception)]


def refuses(answer: object) -> bool:
    """Whether an answer is a permanent refusal: a retry would give the same one."""
    return (
        isinstance(answer, ProblemReceived)
        and answer.status < 500
        and not answer.retryable
        and answer.status not in (401, 404, 429)  # a token or a store that is being put right
    )


def refusal(step: str, peers: Sequence[Named], answers: Sequence[object]) -> str | None:
    """The aggregator that refuses a step permanently, and why; None if a retry may succeed."""
    for peer, item in zip(peers, answers, strict=True):
        if isinstance(item, ProblemReceived) and refuses(item):
            return f"{peer.id} refuses {step}: {item.name}"
    return None


def silence(step: str, peers: Sequence[Named], answers: Sequence[object]) -> AggregatorUnreachable:
    """An error that names the aggregators that did not answer a step."""
    names = [
        peer.id for peer, item in zip(peers, answers, strict=True) if isinstance(item, Exception)
    ]
    return AggregatorUnreachable(f"{', '.join(names)}: no answer to {step}")
