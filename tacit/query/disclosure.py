"""The share rule of a sum without noise: a total so large that nobody can hold too much of it.

With proofs that every contribution x lies in 0..B, the `top` largest together hold at most top B of
the total S. So S >= top B / max_share implies that they hold at most `max_share` of it, and nobody
learns how much the largest holds. Where S is smaller the rule may be kept or not: nothing is
released. B is what an accepted proof allows, which rounding to whole bits makes larger than what
the query asks honest curators for. A host's contribution is proved for all its curators together:
within it the host is trusted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from tacit.errors import Conflict
from tacit.query.terms import MAX_CURATORS
from tacit.wire import Exact, WireModel, format_exact, require

if TYPE_CHECKING:
    from tacit.query.query import Query


class DisclosureRule(WireModel):
    """What protects the members of a sum without noise: there are at least `min_participants`, and
    the `top` largest together have at most `max_share` of it (null: shares are not checked).

    `small_cells`: of a table, whose recipient sees cells of few records, or of one.
    """

    min_participants: Annotated[int, Field(ge=2, le=MAX_CURATORS)]
    max_share: Exact | None = None
    top: Annotated[int, Field(ge=1, le=MAX_CURATORS)] = 1
    small_cells: Literal[True] | None = None

    @field_validator("max_share")
    @classmethod
    def _below_one(cls, value: Fraction | None) -> Fraction | None:
        return require(value is None or 0 < value < 1, value, "must lie between 0 and 1")

    def weaker_than(self, least: DisclosureRule) -> str | None:
        """Why this rule does not imply another; None if it does."""
        if self.min_participants < least.min_participants:
            return f"at least {least.min_participants} participants are demanded"
        if self.small_cells and not least.small_cells:
            return "tables, whose cells may be of few records, are not agreed to (small_cells)"
        if least.max_share is not None and (
            self.max_share is None or self.max_share > least.max_share or self.top < least.top
        ):
            share = format_exact(least.max_share)
            return f"the {least.top} largest may hold at most {share} of the sum"
        return None


class RuleNotMet(Conflict):
    """The total is too small for the rule; by how much is not said."""

    name = "rule_not_met"
    title = (
        "The disclosure rule is not met: the total is too small to rule out a share above the limit"
    )


def least_totals(query: Query) -> Sequence[int]:
    """The least total of each coordinate that is released, (d,) ring units; empty if the query
    has no rule on shares."""
    rule = query.rule
    if rule is None or rule.max_share is None:
        return ()
    from tacit.query.proofs import proof_plan

    largest = proof_plan(query).of(1).function.influence_from_zero
    return [math.ceil(rule.top * most / rule.max_share) for most in largest]


def check_shares(query: Query, total: NDArray[np.int64]) -> None:
    """Raise RuleNotMet if a coordinate of the total, (d,) ring units, is below its least."""
    if any(int(count) < least for count, least in zip(total, least_totals(query), strict=False)):
        raise RuleNotMet
