"""Sums without noise need a rule; most tests of them are about something else."""

from collections.abc import Mapping
from typing import Any

RULE = {"min_participants": 2}
RULE_TEXT = '{"min_participants": 2}'


def ruled(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a query, with the weakest rule where its mechanism is `exact`."""
    exact = fields.get("mechanism") == "exact" and "rule" not in fields
    return {**fields, "rule": RULE} if exact else dict(fields)
