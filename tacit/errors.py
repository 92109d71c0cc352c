"""Errors of the domain, defined once, readable by people and machines.

A domain module raises a subclass of one of the categories below and knows nothing about HTTP;
`common.web.problems` gives each category its status. An error carries public figures only
(names, limits, counts, budgets): never a reading, a share, a noise value or a secret.
"""

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, cast

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


@dataclass(frozen=True, slots=True)
class FieldError:
    """One offending field: where it is (a JSON pointer) and what is wrong, never its value."""

    pointer: str
    message: str
    place: str = "body"
    """Where the pointer starts: `body`, `query`, `path`, `header` or `cookie`."""


_MOST_PLACES = 10


def places_of(names: Sequence[str], chosen: Container[str]) -> dict[str, object]:
    """The indices of the chosen names among the given ones: an error never repeats a name."""
    places = [place for place, name in enumerate(names) if name in chosen]
    return {"count": len(places), "places": places[:_MOST_PLACES]}


class Error(Exception):
    """Base of all errors that this library raises on purpose; `tacit.Error`."""


class FieldsRefused(Error, ValueError):
    """Fields that break a rule; `errors` has each, and the text names the first few."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        named = [f"{error.pointer}: {error.message}" for error in errors[:_MOST_PLACES]]
        more = len(errors) - len(named)
        super().__init__("; ".join([*named, *([f"and {more} more"] if more else [])]))
        self.errors = tuple(errors)


class NoDeployment(Error, FileNotFoundError):
    """The directory has no deployment of `tacit up`."""


class MissingExtra(Error, ImportError):
    """Something that is installed apart is needed."""

    def __init__(self, library: str, what_for: str) -> None:
        super().__init__(f"{what_for} need {library}: pip install {library}")


class DomainError(Error):
    """Base of all errors of the domain; raise a named subclass of a category, not this."""

    name: ClassVar[str] = "domain_error"
    title: ClassVar[str] = "The request cannot be fulfilled"
    retryable_by_default: ClassVar[bool] = False

    detail: str
    pointer: str | None
    retryable: bool
    retry_after_s: int | None
    extra: Mapping[str, object]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if _NAME.fullmatch(cls.name) is None:
            raise TypeError(f"{cls.__qualname__}.name must be snake_case")

    def __init__(
        self,
        detail: str = "",
        *,
        pointer: str | None = None,
        retryable: bool | None = None,
        retry_after_s: int | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(detail or self.title)
        self.detail = detail or self.title
        self.pointer = pointer
        self.retryable = self.retryable_by_default if retryable is None else retryable
        self.retry_after_s = retry_after_s
        self.extra = MappingProxyType(dict(extra or {}))

    def __reduce__(self) -> tuple[object, ...]:
        """An error crosses to another process as it is."""
        fields = {**vars(self), "extra": dict(self.extra)}
        return _again, (type(self), self.args, fields)


def _again(
    kind: type[DomainError], arguments: tuple[object, ...], fields: dict[str, object]
) -> DomainError:
    error = kind.__new__(kind, *arguments)
    error.args = arguments
    vars(error).update(fields, extra=MappingProxyType(cast(dict[str, object], fields["extra"])))
    return error


class Malformed(DomainError):
    """The request cannot be understood at all."""

    name = "malformed_request"
    title = "The request is malformed"


class Unauthenticated(DomainError):
    """The caller could not be identified."""

    name = "unauthenticated"
    title = "Authentication is required"


class Forbidden(DomainError):
    """The speaker is known and may not do this."""

    name = "forbidden"
    title = "This is not allowed"


class NotFound(DomainError):
    """There is no such thing, or none that the speaker may see."""

    name = "not_found"
    title = "There is no such resource"


class Conflict(DomainError):
    """The request contradicts the current state."""

    name = "conflict"
    title = "The request conflicts with the current state"


class Gone(DomainError):
    """It was here and will not come back."""

    name = "gone"
    title = "The resource is gone"


class TooLarge(DomainError):
    """More than is accepted in one request."""

    name = "body_too_large"
    title = "The request body is too large"


class UnsupportedForm(DomainError):
    """The body comes in a format that is not read here."""

    name = "unsupported_media_type"
    title = "The format of the body is not supported"


class Invalid(DomainError):
    """Understood, and wrong: one or several fields break a rule."""

    name = "bad_parameter"
    title = "A parameter is not valid"

    errors: tuple[FieldError, ...]

    def __init__(
        self,
        detail: str = "",
        *,
        errors: Sequence[FieldError] = (),
        pointer: str | None = None,
        retryable: bool | None = None,
        retry_after_s: int | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(
            detail,
            pointer=pointer,
            retryable=retryable,
            retry_after_s=retry_after_s,
            extra=extra,
        )
        self.errors = tuple(errors)


class TooMany(DomainError):
    """Too much at this moment: come back later."""

    name = "too_many_requests"
    title = "Too many requests at this moment"
    retryable_by_default = True


class Unavailable(DomainError):
    """Something that is needed does not answer: come back later."""

    name = "unavailable"
    title = "The service is not available at this moment"
    retryable_by_default = True


class StartRefused(RuntimeError):
    """A service cannot start with its configuration; the message is for its operator and has
    nothing private."""
