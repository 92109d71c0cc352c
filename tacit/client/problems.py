"""Refusals as exceptions: one class for each HTTP status that a service uses, RFC 9457 inside.

`except tacit.NotFound` or `except tacit.Problem`; `name`, the stable end of the `type`
(`urn:tacit:problem:<name>`), identifies the exact problem. Some names have a class of their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final

import httpx

from tacit.errors import Error

MEDIA_TYPE: Final = "application/problem+json"
TYPE_PREFIX: Final = "urn:tacit:problem:"
_STANDARD: Final = frozenset(
    {"type", "title", "status", "detail", "instance", "errors", "retryable"}
)


_COUNT: Final = re.compile(r"\d+ fields? of the request cannot be accepted")
_MOST_FIELDS: Final = 5


@dataclass(frozen=True)
class FieldProblem:
    """One field that a service cannot accept: a JSON pointer, and the rule it breaks."""

    pointer: str
    detail: str
    place: str = "body"


class NoAnswer(Error, httpx.TransportError):
    """A service did not answer, after all attempts; `__cause__` says how."""


class NotFinished(Error, TimeoutError):
    """It did not come to its end in the time that the caller gave it."""


class Problem(Error):
    """A service refused. The members of the problem document are attributes. `name`: the stable
    end of the type; `problem`: the document as received."""

    def __init__(
        self,
        status: int,
        name: str,
        problem: Mapping[str, object],
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(status, name)
        self.status, self.name, self.problem = status, name, problem
        self.retry_after_s = retry_after_s

    @property
    def retryable(self) -> bool:
        """Whether the service says that the same request may succeed later."""
        return self.problem.get("retryable") is True

    @property
    def type(self) -> str:
        """The stable URI of this kind of problem."""
        return str(self.problem.get("type", "about:blank"))

    @property
    def title(self) -> str:
        """What this kind of problem is."""
        return str(self.problem.get("title", self.name))

    @property
    def detail(self) -> str:
        """What is wrong this time."""
        return str(self.problem.get("detail", self.title))

    @property
    def instance(self) -> str | None:
        """Where it happened, if the service says so."""
        address = self.problem.get("instance")
        return None if address is None else str(address)

    @property
    def errors(self) -> tuple[FieldProblem, ...]:
        """The fields that cannot be accepted."""
        entries: Any = self.problem.get("errors")
        if not isinstance(entries, list):
            return ()
        return tuple(
            FieldProblem(item.get("pointer", ""), item.get("detail", ""), item.get("in", "body"))
            for item in entries
            if isinstance(item, dict)
        )

    @property
    def figures(self) -> Mapping[str, object]:
        """Further members: limits, counts, amounts of the refusal."""
        extra = {name: value for name, value in self.problem.items() if name not in _STANDARD}
        return MappingProxyType(extra)

    @property
    def sentence(self) -> str:
        """The problem as one sentence without repetition: the fields with their rules, if those
        say everything."""
        places = "; ".join(
            f"{item.pointer or 'the request'}: {item.detail}" for item in self.errors[:_MOST_FIELDS]
        )
        more = len(self.errors) - _MOST_FIELDS
        places += f"; and {more} more" if more > 0 else ""
        if not places:
            return self.detail
        said_there = self.detail in {item.detail for item in self.errors}
        if said_there or _COUNT.fullmatch(self.detail):
            return places
        return f"{self.detail} ({places})"

    def __str__(self) -> str:
        return f"{self.status} {self.name}: {self.sentence}"


class Malformed(Problem):
    """400: the request cannot be understood."""


class Unauthenticated(Problem):
    """401: no token, or none that is known."""


class Forbidden(Problem):
    """403: the token may not do this."""


class NotFound(Problem):
    """404: there is no such thing, or none that the token may see."""


class TooSlow(Problem):
    """408: the request arrived slower than the service waits for."""


class Conflict(Problem):
    """409: the request contradicts the current state."""


class Gone(Problem):
    """410: it was there and will not come back."""


class TooLarge(Problem):
    """413: more than is accepted in one request."""


class UnsupportedForm(Problem):
    """415: the service does not read this format."""


class Invalid(Problem):
    """422: understood, and a field breaks a rule (`errors`)."""


class TooMany(Problem):
    """429: too much at this moment; `retry_after_s`."""


class Unavailable(Problem):
    """503: something that is needed does not answer; `retry_after_s`."""


class ServiceFailed(Problem):
    """Any other 5xx: the fault is the service's."""


class BudgetExceeded(Conflict):
    """A round would exceed a limit; `figures` has the requested, spent and allowed amounts."""


class NotReleased(Conflict):
    """The round has no result, or none yet (`figures["state"]`)."""


class RoundClosed(Gone):
    """The round takes nothing more."""


class RoundExpired(Gone):
    """The round's content was dropped after the deployment's retention; its id and what it cost
    are kept (`figures` has its `state` and when it `expired`)."""


class KeyReused(Invalid):
    """The Idempotency-Key was used for another request."""


_BY_STATUS: Final[Mapping[int, type[Problem]]] = MappingProxyType(
    {
        400: Malformed,
        401: Unauthenticated,
        403: Forbidden,
        404: NotFound,
        408: TooSlow,
        409: Conflict,
        410: Gone,
        413: TooLarge,
        415: UnsupportedForm,
        422: Invalid,
        429: TooMany,
        503: Unavailable,
    }
)
_BY_NAME: Final[Mapping[str, type[Problem]]] = MappingProxyType(
    {
        "budget_exceeded": BudgetExceeded,
        "not_released": NotReleased,
        "round_closed": RoundClosed,
        "round_expired": RoundExpired,
        "idempotency_key_reused": KeyReused,
    }
)


def problem_in(answer: httpx.Response) -> Problem:
    """The problem that an answer of 400 and above reports, made from its status if necessary."""
    status = answer.status_code
    if status < 400:
        raise ValueError("the answer is no refusal")
    document: Mapping[str, object] = {"status": status, "title": _phrase(status)}
    name = f"http_{status}"
    if answer.headers.get("content-type", "").startswith(MEDIA_TYPE):
        document = _object(answer) or document
        kind = document.get("type")
        if isinstance(kind, str) and kind.startswith(TYPE_PREFIX):
            name = kind.removeprefix(TYPE_PREFIX)
    after = answer.headers.get("retry-after", "")
    base = _BY_STATUS.get(status, ServiceFailed if status >= 500 else Problem)
    named = _BY_NAME.get(name, base)
    made = named if issubclass(named, base) else base
    return made(status, name, document, float(after) if after.isdecimal() else None)


def _object(answer: httpx.Response) -> Mapping[str, object] | None:
    try:
        document = answer.json()
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"
