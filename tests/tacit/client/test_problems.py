"""Every refusal of a service arrives as the exception of its status, with what it says."""

from __future__ import annotations

import httpx
import pytest

import tacit
from common.web import problems as service
from coordinator.errors import BudgetExceeded, NotReleased, RoundClosed, RoundExpired
from tacit import errors
from tacit.client.problems import MEDIA_TYPE, TYPE_PREFIX, problem_in
from tacit.errors import DomainError, FieldError

KINDS = {
    errors.Malformed: tacit.Malformed,
    errors.Unauthenticated: tacit.Unauthenticated,
    errors.Forbidden: tacit.Forbidden,
    errors.NotFound: tacit.NotFound,
    service.BodyTooSlow: tacit.TooSlow,
    errors.Conflict: tacit.Conflict,
    errors.Gone: tacit.Gone,
    errors.TooLarge: tacit.TooLarge,
    errors.UnsupportedForm: tacit.UnsupportedForm,
    errors.Invalid: tacit.Invalid,
    errors.TooMany: tacit.TooMany,
    errors.Unavailable: tacit.Unavailable,
    BudgetExceeded: tacit.BudgetExceeded,
    NotReleased: tacit.NotReleased,
    RoundClosed: tacit.RoundClosed,
    RoundExpired: tacit.RoundExpired,
}


def received(error: Exception) -> tacit.Problem:
    """What a client makes of a service's answer to an error."""
    answer = service.problem_response(error)
    return problem_in(
        httpx.Response(answer.status_code, headers=dict(answer.headers), content=answer.body)
    )


def test_every_category_has_a_class() -> None:
    assert set(service.STATUS) <= set(KINDS)
    assert (service.MEDIA_TYPE, service.TYPE_PREFIX) == (MEDIA_TYPE, TYPE_PREFIX)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_refusal_is_the_exception_of_its_kind(kind: type[DomainError]) -> None:
    problem = received(kind("it is so", extra={"limit": "4"}))
    assert type(problem) is KINDS[kind]
    assert problem.name == kind.name
    assert problem.type == TYPE_PREFIX + kind.name
    assert problem.title == kind.title
    assert problem.detail == "it is so"
    assert problem.retryable == kind.retryable_by_default
    assert problem.figures == {"limit": "4"}
    assert str(problem) == f"{problem.status} {kind.name}: it is so"


def test_the_fields_that_are_wrong() -> None:
    found = (FieldError("/epsilon", "must be above 0"), FieldError("/delta", "too", place="query"))
    problem = received(errors.Invalid("2 fields", errors=found))
    assert problem.errors == (
        tacit.FieldProblem("/epsilon", "must be above 0"),
        tacit.FieldProblem("/delta", "too", "query"),
    )
    assert "/epsilon: must be above 0" in str(problem)


def test_an_unexpected_failure() -> None:
    problem = received(RuntimeError("private"))
    assert type(problem) is tacit.ServiceFailed
    assert (problem.status, problem.name) == (500, "internal_error")
    assert "private" not in str(problem)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(404, tacit.NotFound), (418, tacit.Problem), (502, tacit.ServiceFailed), (599, None)],
)
def test_an_answer_that_is_no_problem_document(
    status: int, kind: type[tacit.Problem] | None
) -> None:
    problem = problem_in(httpx.Response(status, text="<html>"))
    assert type(problem) is (kind or tacit.ServiceFailed)
    assert (problem.status, problem.name, problem.errors) == (status, f"http_{status}", ())
    broken = httpx.Response(status, content=b"[", headers={"Content-Type": MEDIA_TYPE})
    assert problem_in(broken).name == f"http_{status}"


def test_an_answer_that_is_no_refusal() -> None:
    with pytest.raises(ValueError, match="no refusal"):
        problem_in(httpx.Response(200))
