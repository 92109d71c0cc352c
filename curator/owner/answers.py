"""What an answer was asked, in words that its owner knows, and how well it is hidden."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from tacit.accounting.scenarios import Scenario
from tacit.query.query import Query
from tacit.query.words import Layer, Mechanism
from tacit.report.model import VerifiedStatement
from tacit.report.queries import verified_statements
from tacit.wire import format_exact


@lru_cache(maxsize=256)  # an owner's history has few queries, and each costs some milliseconds
def verified(query: Query, operators: tuple[str, ...]) -> tuple[VerifiedStatement, ...]:
    """Who would have to work together to learn what: rows a to e, whoever else takes part."""
    return verified_statements(query, operators=operators)


def promised(query: Query, operators: tuple[str, ...]) -> VerifiedStatement:
    """The row that the query promises (e)."""
    return next(line for line in verified(query, operators) if line.key == Scenario.ASSUMED)


def _noise_by(query: Query) -> str:
    """Who adds noise: "curator", "aggregators", "both" or "nobody"."""
    match query.mechanism, query.layer:
        case Mechanism.EXACT, _:
            return "nobody"
        case Mechanism.LOCAL, _:
            return "curator"
        case Mechanism.TWO_LAYER, _:
            return "both"
        case _, Layer.AGGREGATOR:
            return "aggregators"
        case _, Layer.CURATOR:
            return "curator"
    return "both"


def asked(query: Query) -> dict[str, Any]:
    """What of the readings is asked for; `bounds`: to which each is cut."""
    return {
        "register": query.register_name,
        "unit": query.unit,
        "bounds": [format_exact(bound) for bound in query.bounds],
        "min_participants": query.min_participants,
        "noise_by": _noise_by(query),
    }
