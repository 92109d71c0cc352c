"""What if epsilon were another one: the same query at several, each with its error and guarantee.

Spec: console, section 7 (10). Nothing is spent, and no reading is touched.
"""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Annotated, Any, Final

from pydantic import Field, ValidationError

from tacit.accounting.scenarios import Scenario
from tacit.errors import FieldError, Invalid
from tacit.query.query import Query
from tacit.query.words import Mechanism
from tacit.report.model import PrivacyReport, Subject
from tacit.report.queries import query_report
from tacit.wire import Exact, WireModel, canonical_json

MOST: Final = 32


class PreviewRequest(Query):
    """A query, and epsilons to try in place of its own. Of mechanism two-layer it is the epsilon of
    the aggregators; that of the curators keeps its ratio to it."""

    epsilons: Annotated[tuple[Exact, ...], Field(max_length=MOST)] | None = None

    @property
    def query(self) -> Query:
        """The query alone."""
        fields = self.model_dump(mode="json", exclude_none=True, exclude={"epsilons"})
        return Query.model_validate_json(canonical_json(fields))


class Stop(WireModel):
    """The query at another epsilon: the error to expect, and how often a guess is right at most
    where the query's own assumption holds."""

    epsilon: Exact
    error: dict[str, Any] | None
    guess: str


class Preview(PrivacyReport):
    """The report of a result, before anything is spent; `stops`: at the epsilons that were named,
    in their order."""

    stops: tuple[Stop, ...] | None = None


def stops(query: Query, epsilons: tuple[Fraction, ...], operators: tuple[str, ...]) -> list[Stop]:
    """The query at each of these. Raises Invalid with the place of one that cannot be."""
    found = []
    for place, epsilon in enumerate(epsilons):
        try:
            tried = at_epsilon(query, epsilon)
        except ValidationError as error:
            raise _refused(place, error.errors()[0]["msg"]) from None
        except ValueError as error:
            raise _refused(place, str(error)) from None
        report = query_report(
            tried, subject=Subject(kind="query", id=""), operators=operators or None
        )
        promised = next(line for line in report.verified if line.key == Scenario.ASSUMED.value)
        found.append(Stop(epsilon=epsilon, error=report.error, guess=promised.guess or "1"))
    return found


def _refused(place: int, problem: str) -> Invalid:
    return Invalid(problem, errors=(FieldError(f"/epsilons/{place}", problem),))


def at_epsilon(query: Query, epsilon: Fraction) -> Query:
    """The same query with another epsilon. Raises ValueError where it has none, or cannot have this
    one."""
    fields = json.loads(query.canonical())
    match query.mechanism:
        case Mechanism.DISTRIBUTED:
            changed = {"epsilon": epsilon}
        case Mechanism.LOCAL:
            changed = {"epsilon_i": epsilon}
        case Mechanism.TWO_LAYER:
            assert query.epsilon_s is not None
            assert query.epsilon_u is not None
            curators = query.epsilon_u * epsilon / query.epsilon_s
            changed = {"epsilon_s": epsilon, "epsilon_u": curators}
        case Mechanism.EXACT:
            raise ValueError("mechanism exact has no noise")
    fields |= {name: str(value) for name, value in changed.items()}
    return Query.model_validate_json(canonical_json(fields))
