"""The base of all answers of the API, and the answers that every service has.

What all answers of the API have in common: frozen fields, texts for exact numbers and instants.

A service writes its answers itself; these models say what is in them. A client of an older release
ignores fields that it does not know.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

Figure: TypeAlias = Annotated[str, Field(description="An exact decimal or fraction, or `inf`")]
Time: TypeAlias = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
Day: TypeAlias = Annotated[str, Field(json_schema_extra={"format": "date"})]
Octets: TypeAlias = Annotated[str, Field(description="Base64url without padding")]


class Answer(BaseModel):
    """An answer of the API, or a part of one."""

    model_config = ConfigDict(frozen=True, extra="ignore")


# Answers that every service has: whether it lives and is ready, API tokens, who did what.


class Health(Answer):
    """The process is alive."""

    status: Literal["ok"]
    service: str
    version: str


class Readiness(Answer):
    """The service can do its work. `checks`: `ok` for each; `tls_pq`: whether its TLS offers a
    group that withstands quantum computers; `pid`: the process that answers, in the numbers of its
    own machine or container."""

    status: Literal["ready"]
    checks: dict[str, str]
    tls_pq: str
    pid: int


class MadeToken(Answer):
    """A new API token: `token` is the secret, in this answer alone."""

    id: str
    token: str
    scopes: list[str]
    subject: str | None


class Token(Answer):
    """An API token without its secret. `last_used`: the day, of people's tokens only."""

    id: str
    scopes: list[str]
    subject: str | None
    label: str
    created: Time
    expires: Time | None
    revoked: Time | None
    last_used: Day | None


class ListOfTokens(Answer):
    """A page of tokens."""

    tokens: list[Token]


class Audited(Answer):
    """Who did what on a page."""

    id: str
    at: Time
    token_id: str
    action: str
    object: str
    outcome: str


class Audit(Answer):
    """A page of what was done on pages, the newest first."""

    audit: list[Audited]
