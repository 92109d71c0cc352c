"""The base of all answers of the API, and the answers that every service has.

A service returns these models, and the client reads them. A client of an older release ignores
fields that it does not know.
"""

from __future__ import annotations

import json
from collections.abc import KeysView
from functools import cached_property
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

Figure: TypeAlias = Annotated[str, Field(description="An exact decimal or fraction, or `inf`")]
Time: TypeAlias = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
Day: TypeAlias = Annotated[str, Field(json_schema_extra={"format": "date"})]
Octets: TypeAlias = Annotated[str, Field(description="Base64url without padding")]


class Answer(BaseModel):
    """An answer of the API, or a part of one.

    Its fields are attributes. `answer["id"]` is the JSON value of a field under its name in the
    API, and `dict(answer)` has all of them.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    @cached_property
    def _json(self) -> dict[str, Any]:
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)

    def __repr__(self) -> str:
        """At a prompt: the text of an answer that has one (a report, a result)."""
        return super().__repr__() if type(self).__str__ is BaseModel.__str__ else str(self)

    def __getitem__(self, name: str) -> Any:
        return self._json[name]

    def __contains__(self, name: object) -> bool:
        return name in self._json

    def get(self, name: str, default: Any = None) -> Any:
        """The JSON of a field; `default` where the answer does not have it."""
        return self._json.get(name, default)

    def keys(self) -> KeysView[str]:
        """The names of the answer's fields in the API."""
        return self._json.keys()


A = TypeVar("A", bound=Answer)


def read(kind: type[A], received: dict[str, Any]) -> A:
    """An answer of this kind as received, including fields that this release does not know.

    An answer that does not fit the model (of another release) has its fields as plain JSON.
    """
    try:
        answer = kind.model_validate_json(json.dumps(received), extra="allow")
    except ValidationError:
        answer = cast(A, kind.model_construct(**received))
    _keep(answer, received)
    return answer


def _keep(value: object, received: Any) -> None:
    """Keep in an answer, and in its parts, the JSON that they were read from."""
    if isinstance(value, Answer):
        vars(value)["_json"] = received
        for name, field in type(value).model_fields.items():
            if (key := field.alias or name) in received:
                _keep(getattr(value, name), received[key])
    elif isinstance(value, list | tuple):
        for item, part in zip(value, received, strict=True):
            _keep(item, part)


class Support(Answer):
    """What an operator sends to the people who help. `libraries`: versions by name; `settings`:
    `[set]` in place of a secret or of a text that may be private; `revision`: of the database's
    schema; `rows`: of each table."""

    service: str
    version: str
    platform: dict[str, str]
    libraries: dict[str, str]
    settings: dict[str, Any]
    revision: str
    rows: dict[str, int]
    log: list[str]


class Health(Answer):
    """The process is alive."""

    status: Literal["ok"]
    service: str
    version: str


class Readiness(Answer):
    """The service can do its work. `checks`: `ok` for each, or what is wrong elsewhere (a
    coordinator's `aggregators`: which do not answer, and since when); `tls_pq`: whether its TLS
    offers a group that withstands quantum computers; `pid`: of the answering process, as its own
    machine or container numbers it."""

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
    """An API token without its secret. `last_used`: the day of its last use; people's tokens
    only."""

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
