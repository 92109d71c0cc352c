"""A plot of the findings: what each model asked for, and what the worst group of the table has.

Spec: jobs, section "Result". Visible only to the operator; drawn where the evaluation is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from algorithms.contract import Plot
from algorithms.drawing import BLUE, picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INCHES: Final = (5.4, 3.2)
_FAILED: Final = "#c8553d"


def evaluation_pictures(
    evaluation: Mapping[str, Any], _summary: Mapping[str, Any]
) -> tuple[Plot, ...]:
    """One bar for each model that asked for a number; none without such a model."""
    asked = [each for each in evaluation.get("findings", ()) if _number(each.get("required"))]
    if not asked:
        return ()
    return (picture("privacy-check", "findings", partial(_findings, asked), _INCHES),)


def _findings(asked: Sequence[Mapping[str, Any]], axes: Axes) -> None:
    axes.set_title("The worst group over what each model asks (private)")
    names = [f"{place + 1} {each['model']}" for place, each in enumerate(asked)]
    shares = [(_number(each["value"]) or 0.0) / (_number(each["required"]) or 1) for each in asked]
    colours = [BLUE if each["satisfied"] else _FAILED for each in asked]
    axes.barh(names, shares, color=colours)
    axes.axvline(1, color="#444444", linewidth=1)
    axes.invert_yaxis()
    axes.set_xlabel("value / asked; red: not satisfied")


def _number(value: object) -> float | None:
    """Of a figure, which may be a fraction in a text; None for what is none, and for 0."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    return float(Fraction(value)) or None
