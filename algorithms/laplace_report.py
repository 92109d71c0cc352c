"""What the reports of releases by Laplace noise share: lines, charge, noise, caveats.

Spec: jobs, "Privacy report". `sound` draws whole numbers and states figures; `paper` draws in
floating point, states none and lies outside the budget.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from algorithms.contract import Stance
from common.models.report import Charge, Neighbouring, NoiseStatement, Unit, VerifiedStatement
from common.report.figures import amount, epsilon_amount

FLOATING: Final = (
    "floating-point Laplace: epsilon-DP holds in real arithmetic only, and the low bits of a "
    "double can show what a count was not. No figure is stated."
)


def neighbour_lines(
    stance: Stance,
    unit: Unit,
    epsilon: Fraction,
    added: str,
    replaced: str,
    why: str = "a removal and an addition",
) -> tuple[VerifiedStatement, VerifiedStatement]:
    """What holds against whoever reads the result, with delta 0: where one unit is `added` (in
    words) or removed, and, at twice epsilon and `why`, where one is `replaced`."""
    paper = stance == "paper"

    def line(
        key: str, neighbouring: Neighbouring, total: Fraction, change: str, reason: str | None
    ) -> VerifiedStatement:
        return VerifiedStatement(
            scenario="recipient",
            key=key,
            description=f"whoever reads the result; {change}",
            model="none" if paper else "pure-dp",
            privacy_unit=unit,
            neighbouring=neighbouring,
            epsilon=None if paper else epsilon_amount(total),
            delta=None if paper else "0",
            reason=FLOATING if paper else reason,
        )

    return (
        line("a", "add-remove", epsilon, added, None),
        line("b", "replace", 2 * epsilon, replaced, why),
    )


def charge(stance: Stance, unit: Unit, epsilon: Fraction) -> Charge:
    """What the data set's ledger is charged for one unit."""
    if stance == "paper":
        return Charge(ledger="dataset", privacy_unit=unit, outside_budget=True)
    figure = epsilon_amount(epsilon)
    return Charge(ledger="dataset", privacy_unit=unit, epsilon=figure, delta="0", reserved=figure)


def noise(stance: Stance, part: str, scale: Fraction | None) -> NoiseStatement:
    """The noise of each count of a part; scale None: not known yet."""
    paper = stance == "paper"
    return NoiseStatement(
        layer="coordinator",
        distribution="Laplace" if paper else "discrete Laplace",
        part=part,
        scale=None if scale is None else amount(scale),
        weight="1",
        draws=1,
        sampler="float" if paper else "exact-integer",
    )


def caveats(stance: Stance, *further: str, evaluated: bool) -> tuple[str, ...]:
    """What a reader of the lines has to know, `further` before what an evaluation asks for."""
    held = ["This is one release: other releases from the same data add up."]
    if stance == "paper":
        held.append("Stance paper: floating-point noise; nothing is verified.")
        held.append("This release lies outside the budget of its data set.")
    else:
        held.append("To the delta of every line add sampler_delta, for draws not quite exact.")
    held.extend(further)
    if evaluated:
        held.append(
            "An evaluation against the true data is attached for the operator's eyes only; it is "
            "not differentially private."
        )
    return tuple(held)
