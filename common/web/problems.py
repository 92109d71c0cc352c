"""The one place where errors become HTTP: RFC 9457 `application/problem+json`, and back.

A problem states what is wrong and where, never what was sent: no input value is repeated, no
message of an unexpected exception leaves the process. Unexpected exceptions are logged by type
and place only.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final, cast

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError, ResponseValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from common.bodies import UNKNOWN, invalid_from, invalid_of
from common.runtime.logs import describe, get_logger
from common.store.failures import store_problem
from common.web.client import ServiceResponse
from tacit import errors
from tacit.errors import DomainError, FieldError

MEDIA_TYPE: Final = "application/problem+json"
TYPE_PREFIX: Final = "urn:tacit:problem:"
DEFAULT_RETRY_AFTER_S: Final = 1


class BodyTooSlow(DomainError):
    """The body arrives slower than the service waits for."""

    name = "body_too_slow"
    title = "The request body arrives too slowly"
    retryable_by_default = True


STATUS: Final[Mapping[type[DomainError], int]] = MappingProxyType(
    {
        errors.Malformed: 400,
        errors.Unauthenticated: 401,
        errors.Forbidden: 403,
        errors.NotFound: 404,
        BodyTooSlow: 408,
        errors.Conflict: 409,
        errors.Gone: 410,
        errors.TooLarge: 413,
        errors.UnsupportedForm: 415,
        errors.Invalid: 422,
        errors.TooMany: 429,
        errors.Unavailable: 503,
    }
)

_HTTP_NAMES: Final = {
    400: "malformed_body",
    401: "unauthenticated",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "body_too_slow",
    409: "conflict",
    410: "gone",
    413: "body_too_large",
    415: "unsupported_media_type",
    422: "bad_parameter",
    429: "too_many_requests",
    500: "internal_error",
    503: "unavailable",
}
_QUOTA_UNITS: Final = {"requests": "concurrent-requests", "bytes": "content-bytes"}

_logger = get_logger("tacit.problems")


def status_of(error: DomainError) -> int:
    """The HTTP status of a domain error, by its category."""
    for kind in type(error).__mro__:
        if kind in STATUS:
            return STATUS[kind]
    return 500


def problem_of(error: DomainError, *, instance: str | None = None) -> dict[str, object]:
    """The problem document of a domain error; `extra` never overwrites a standard member."""
    field_errors: tuple[FieldError, ...] = error.errors if isinstance(error, errors.Invalid) else ()
    if error.pointer is not None and not field_errors:
        field_errors = (FieldError(error.pointer, error.detail),)
    document = _document(
        status_of(error),
        error.name,
        error.title,
        error.detail,
        retryable=error.retryable,
        found=field_errors,
        instance=instance,
    )
    return {**error.extra, **document}


def problem_response(error: Exception, *, instance: str | None = None) -> Response:
    """The answer for any exception, for routes and middleware outside FastAPI's handlers."""
    if isinstance(error, DomainError):
        return _domain_response(error, instance)
    if isinstance(error, (RequestValidationError, ValidationError)):
        return _domain_response(invalid_request(error), instance)
    if isinstance(error, HTTPException):
        return _http_response(error)
    if (failed := store_problem(error)) is not None:
        _logger.error("store_unavailable", **describe(error))
        return _domain_response(failed, instance)
    _logger.error("internal_error", **describe(error))
    document = _document(500, "internal_error", "An internal error occurred", "", retryable=False)
    return JSONResponse(document, 500, media_type=MEDIA_TYPE)


def invalid_request(error: RequestValidationError | ValidationError) -> DomainError:
    """The domain error of a request that fails the validation of the framework or of a model."""
    if isinstance(error, ValidationError):
        return invalid_from(error)
    body = UNKNOWN if error.body is None else error.body
    return invalid_of(error.errors(), body, placed=True)


def install_problem_handlers(app: FastAPI) -> None:
    """Let every error of an app leave it as a problem."""

    async def handle(_: Request, error: Exception) -> Response:
        return problem_response(error)

    for kind in (
        DomainError,
        RequestValidationError,
        ResponseValidationError,
        ValidationError,
        HTTPException,
        Exception,
    ):
        app.add_exception_handler(kind, handle)


class ProblemReceived(Exception):
    """Another service answered with an error; `problem` is its document, or made from the status.

    The text of the exception has only the status and the problem's name.
    """

    def __init__(
        self,
        status: int,
        name: str,
        problem: Mapping[str, object],
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(f"{status} {name}")
        self.status = status
        self.name = name
        self.problem = problem
        self.retry_after_s = retry_after_s

    @property
    def retryable(self) -> bool:
        """Whether the answering service indicates that the same request may succeed later."""
        return self.problem.get("retryable") is True


def raise_for_problem(response: ServiceResponse) -> None:
    """Raise `ProblemReceived` for any answer of 400 and above."""
    status = response.status
    if status < 400:
        return
    name = _HTTP_NAMES.get(status, f"http_{status}")
    document: dict[str, object] = {"status": status}
    if response.headers.get("Content-Type", "").startswith(MEDIA_TYPE):
        try:
            parsed = response.json()
        except ValueError:
            parsed = None
        if isinstance(parsed, dict):
            document = cast(dict[str, object], parsed)
            kind = document.get("type")
            if isinstance(kind, str) and kind.startswith(TYPE_PREFIX):
                name = kind.removeprefix(TYPE_PREFIX)
    after = response.headers.get("Retry-After", "")
    raise ProblemReceived(status, name, document, float(after) if after.isdecimal() else None)


PROBLEM_SCHEMA: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "title": "Problem",
        "description": "An error as in RFC 9457; further members hold public figures.",
        "type": "object",
        "required": ["type", "title", "status", "detail", "errors", "retryable"],
        "additionalProperties": True,
        "properties": {
            "type": {"type": "string", "examples": ["urn:tacit:problem:not_found"]},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
            "instance": {"type": "string"},
            "retryable": {
                "type": "boolean",
                "description": "Whether the same request may succeed later.",
            },
            "errors": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["pointer", "detail"],
                    "properties": {
                        "pointer": {"type": "string", "description": "JSON pointer (RFC 6901)"},
                        "detail": {"type": "string"},
                        "in": {
                            "type": "string",
                            "enum": ["query", "path", "header", "cookie"],
                            "description": "Where the pointer starts, when not in the body.",
                        },
                    },
                },
            },
        },
    }
)


def openapi_responses() -> dict[int | str, dict[str, Any]]:
    """The error answer that every route documents, once for all statuses."""
    return {
        "default": {
            "description": "A problem; its `status` is that of the answer",
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
    }


def _document(
    status: int,
    name: str,
    title: str,
    detail: str,
    *,
    retryable: bool,
    found: Sequence[FieldError] = (),
    instance: str | None = None,
) -> dict[str, object]:
    document: dict[str, object] = {
        "type": TYPE_PREFIX + name,
        "title": title,
        "status": status,
        "detail": detail or title,
        "errors": [_error_member(item) for item in found],
        "retryable": retryable,
    }
    if instance is not None:
        document["instance"] = instance
    return document


def _error_member(item: FieldError) -> dict[str, str]:
    member = {"pointer": item.pointer, "detail": item.message}
    return member if item.place == "body" else {"in": item.place, **member}


def _domain_response(error: DomainError, instance: str | None) -> Response:
    status = status_of(error)
    headers: dict[str, str] = {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if status in (429, 503) or error.retry_after_s is not None:
        after = error.retry_after_s
        after = DEFAULT_RETRY_AFTER_S if after is None else max(0, after)
        headers["Retry-After"] = str(after)
        headers |= _rate_limit(error, after)
    document = problem_of(error, instance=instance)
    return JSONResponse(document, status, headers=headers, media_type=MEDIA_TYPE)


def _rate_limit(error: DomainError, after_s: int) -> dict[str, str]:
    """The fields of draft-ietf-httpapi-ratelimit-headers for an exhausted quota: an error has it
    as the figures `quota` and, unless it counts requests, `quota_unit`."""
    quota = error.extra.get("quota")
    if not isinstance(quota, int):
        return {}
    unit = _QUOTA_UNITS.get(str(error.extra.get("quota_unit", "requests")), "requests")
    return {
        "RateLimit-Policy": f'"{error.name}";q={quota};qu="{unit}"',
        "RateLimit": f'"{error.name}";r=0;t={after_s}',
    }


def _http_response(error: HTTPException) -> Response:
    status = error.status_code
    headers = dict(error.headers or {})
    if status < 400 or status == 204:
        return Response(status_code=status, headers=headers)
    if status in (429, 503):
        headers.setdefault("Retry-After", str(DEFAULT_RETRY_AFTER_S))
    try:
        title = HTTPStatus(status).phrase
    except ValueError:
        title = "Error"
    document = _document(
        status,
        _HTTP_NAMES.get(status, f"http_{status}"),
        title,
        "",
        retryable=status in (429, 503),
    )
    return JSONResponse(document, status, headers=headers, media_type=MEDIA_TYPE)
