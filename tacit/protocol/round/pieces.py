"""Sealed pieces on their way to an aggregator, alone or several in one request, and the answers."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from tacit.crypto.signing import Signed
from tacit.protocol.round.descriptor import RoundId
from tacit.protocol.sessions import Session, SessionId
from tacit.query.words import Identifier
from tacit.wire import Binary, WireModel, require


class Piece(WireModel):
    """One sealed piece of one sender for one aggregator; words inside are little-endian.

    It names a session, and carries its announcement until the aggregator has answered under it.
    """

    sender: Identifier
    session: SessionId
    nonce: Annotated[Binary, Field(min_length=12, max_length=12)]
    sealed: Binary
    announce: Signed[Session] | None = None

    @model_validator(mode="after")
    def _one_key(self) -> Piece:
        alone = self.announce is None or self.announce.statement.session == self.session
        require(alone, None, "the announcement is of another session")
        return self


class CarriedPiece(Piece):
    """A piece among those of several parties in one request: each with its own party's token, and
    with its round where the request is for several."""

    token: Annotated[str, Field(max_length=512)] | None = None
    round: RoundId | None = None


class CarriedBatch(WireModel):
    """A sealed batch among several in one request: each with its own host's token, and with its
    round where the request is for several."""

    body: Binary
    token: Annotated[str, Field(max_length=512)] | None = None
    round: RoundId | None = None


class Contribution(WireModel):
    """An aggregator's own noise as a shared value (Shamir), one sealed piece per aggregator."""

    aggregator: Identifier
    pieces: tuple[Piece, ...]


class ItemAnswer(WireModel):
    """The answer to one item of a bulk upload. `status` as if it had come alone; `included`, once
    the round takes nothing more: whether this very piece is in."""

    index: int
    status: int
    problem: str | None = None
    detail: str | None = None
    included: bool | None = None
