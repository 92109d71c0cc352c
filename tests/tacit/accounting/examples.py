"""Queries whose guarantees the tests of accounting state, and their rows by key."""

import math
from fractions import Fraction
from typing import Any

import numpy as np

from tacit.accounting.guarantees import VerifiedLine, verified_lines
from tacit.query.query import Query
from tests.tacit.examples import query

LETTERS = "abcde"
"""The keys of the scenarios (spec: aggregation, section 7)."""


def distributed(**changes: Any) -> Query:
    given = {
        "mechanism": "distributed",
        "epsilon": "1",
        "bounds": ["0", "100"],
        "max_readings": 1,
        "aggregators": 5,
        "min_participants": 10,
    }
    return query(**{**given, **changes})


def small(**changes: Any) -> Query:
    """Four ring units of sensitivity: quick to certify."""
    return distributed(**{"bounds": ["0", "4"], **changes})


def two_layer(pr_u: str, pr_s: str, **changes: Any) -> Query:
    given = {
        "mechanism": "two-layer",
        "epsilon_u": "7.5",
        "epsilon_s": "2.5",
        "pr_u": pr_u,
        "pr_s": pr_s,
        "bounds": ["0", "100"],
        "max_readings": 1,
        "aggregators": 4,
        "min_participants": 3,
    }
    return query(**{**given, **changes})


def local(**changes: Any) -> Query:
    return query(mechanism="local", epsilon_i="0.5", sharing="none", aggregators=1, **changes)


def rows(of: Query, **arguments: Any) -> dict[str, VerifiedLine]:
    return {line.scenario.value: line for line in verified_lines(of, **arguments)}


def hockey_stick(law: np.ndarray, epsilon: Fraction | float, shift: int) -> float:
    """sum_z max(0, P(z) - e^epsilon P(z - s)) of a law on a window, by definition."""
    first, second = np.pad(law, (0, shift)), np.pad(law, (shift, 0))
    return math.fsum(np.maximum(0.0, first - math.exp(epsilon) * second))


MECHANISMS: dict[str, dict[str, Any]] = {
    "local": {"mechanism": "local", "epsilon_i": "0.5", "sharing": "none", "aggregators": 1},
    "two-layer": {
        "mechanism": "two-layer",
        "epsilon_u": "2",
        "epsilon_s": "3",
        "pr_u": "1",
        "pr_s": "1",
    },
    "two-layer with coins": {
        "mechanism": "two-layer",
        "epsilon_u": "2",
        "epsilon_s": "3",
        "pr_u": "0.5",
        "pr_s": "0.5",
    },
    "aggregators": {"mechanism": "distributed", "epsilon": "1", "collusion": {"aggregators": 1}},
    "curators": {
        "mechanism": "distributed",
        "epsilon": "1",
        "layer": "curator",
        "min_participants": 4,
        "collusion": {"curators": 2},
    },
    "both": {"mechanism": "distributed", "epsilon": "1", "layer": "both", "min_participants": 4},
}
