"""An owner's policy is no wider than what its operator agrees to for it.

Both are asked in every round, so a wider one would not be followed; it is refused to tell the owner
so. Spec: console, section 6.5.
"""

from __future__ import annotations

from collections.abc import Iterator

from curator.policy import Limits, Policy
from tacit.errors import FieldError, Invalid
from tacit.query.words import PrivacyUnit


class WiderThanTheOperators(Invalid):
    """What an owner agrees to and its operator does not."""

    name = "wider_than_the_operators"
    title = "An owner's policy may be stricter than the operator's, not wider"


def check_stricter(owner: Policy, operator: Policy) -> None:
    """Raise WiderThanTheOperators with each field that is wider, and what the operator says."""
    errors = [FieldError(pointer, said) for pointer, said in wider(owner, operator)]
    if errors:
        raise WiderThanTheOperators(errors=errors)


def wider(owner: Policy, operator: Policy) -> Iterator[tuple[str, str]]:
    """The fields in which an owner's policy allows what the operator's does not: a pointer, and
    what the operator's says."""
    if owner.period_s != operator.period_s:
        yield "/period_s", f"the operator's periods have {operator.period_s} seconds"
    for unit in PrivacyUnit:
        for name, most in _wider_limits(owner.limits(unit), operator.limits(unit)):
            yield f"/{unit}/{name}", f"the operator allows {most}"
    for name in ("allow_unverified", "accept_any", "allow_repeats"):
        if getattr(owner, name) and not getattr(operator, name):
            yield f"/{name}", "the operator does not allow it"
    for name in ("mechanisms", "stances", "algorithms", "public_columns"):
        allowed = getattr(operator, name)
        if not set(getattr(owner, name)) <= set(allowed):
            yield f"/{name}", f"the operator allows {', '.join(allowed) or 'none'}"
    if not operator.accept_any and not set(owner.queries) <= set(operator.queries):
        yield "/queries", "the operator does not agree to all of them"
    # One more is stricter where all must be in a round, and wider for a local round's one.
    required = set(operator.required_aggregators)
    if required and required != set(owner.required_aggregators):
        yield "/required_aggregators", f"the operator requires {', '.join(sorted(required))}"
    if owner.min_participants < operator.min_participants:
        yield "/min_participants", f"the operator demands {operator.min_participants}"
    if _fewer(owner.min_aggregators, operator.min_aggregators):
        yield "/min_aggregators", f"the operator demands {operator.min_aggregators}"
    for name in ("curators", "aggregators"):
        least = getattr(operator.min_collusion, name)
        if getattr(owner.min_collusion, name) < least:
            yield f"/min_collusion/{name}", f"the operator demands {least}"
    if operator.require_validity is not None and owner.require_validity is None:
        yield "/require_validity", f"the operator demands {operator.require_validity}"


def _wider_limits(owner: Limits, operator: Limits) -> Iterator[tuple[str, str]]:
    for name in Limits.model_fields:
        most = getattr(operator, name).model_dump(mode="json")
        for figure, text in most.items():
            own = getattr(getattr(owner, name), figure)
            limit = getattr(getattr(operator, name), figure)
            if limit is not None and (own is None or own > limit):
                yield f"{name}/{figure}", text


def _fewer(owner: int | str, operator: int | str) -> bool:
    if owner == "all":
        return False
    return operator == "all" or int(owner) < int(operator)
