"""An error of a job as a problem document (RFC 9457), made without a web framework."""

from __future__ import annotations

from typing import Any, Final

from tacit.errors import Conflict, DomainError, FieldError, Invalid, NotFound, TooLarge, Unavailable

_PREFIX: Final = "urn:tacit:problem:"
_STATUS: Final = (
    (Invalid, 422),
    (NotFound, 404),
    (TooLarge, 413),
    (Conflict, 409),
    (Unavailable, 503),
)


class JobFailed(Conflict):
    """The algorithm raised an unexpected error."""

    name = "job_failed"
    title = "The job failed"


class WorkerLost(Unavailable):
    """Every attempt lost its worker."""

    name = "worker_lost"
    title = "The job's workers were lost, as often as it was tried"


def plain_problem(error: Exception) -> dict[str, Any]:
    """The document of an error. An error that is not a DomainError is named by its type only: its
    message might contain data."""
    if not isinstance(error, DomainError):
        error = JobFailed(f"an unforeseen error ({type(error).__name__})")
    found: tuple[FieldError, ...] = error.errors if isinstance(error, Invalid) else ()
    if error.pointer is not None and not found:
        found = (FieldError(error.pointer, error.detail),)
    status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
    return {
        **error.extra,
        "type": _PREFIX + error.name,
        "title": error.title,
        "status": status,
        "detail": error.detail,
        "errors": [{"pointer": item.pointer, "detail": item.message} for item in found],
        "retryable": error.retryable,
    }
