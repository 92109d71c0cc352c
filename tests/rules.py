"""Queries that many tests ask. Sums without noise need a rule; most tests of them are about
something else."""

from collections.abc import Mapping
from typing import Any

RULE = {"min_participants": 2}


def ruled(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a query, with the weakest rule where its mechanism is `exact`."""
    exact = fields.get("mechanism") == "exact" and "rule" not in fields
    return {**fields, "rule": RULE} if exact else dict(fields)


def energy_sum(**changes: Any) -> dict[str, Any]:
    """A query of a sum of kWh, as JSON, with changes."""
    base = {
        "name": "test",
        "function": "sum",
        "unit": "kWh",
        "bounds": ["0", "5"],
        "max_readings": 4,
        "resolution": "0.001",
        "sharing": "additive",
        "aggregators": 3,
    }
    return ruled({**base, **changes})
