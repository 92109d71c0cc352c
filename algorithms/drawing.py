"""Pictures of results: one axes each, in one style, as SVG and PNG. They need the extra `plots`."""

from __future__ import annotations

import io
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from algorithms.contract import Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DOTS_PER_INCH: Final = 150
BLUE: Final = "#1b6ca8"


def can_draw() -> bool:
    """Whether there is matplotlib."""
    return find_spec("matplotlib") is not None


def picture(
    algorithm: str, name: str, fill: Callable[[Axes], None], inches: tuple[float, float]
) -> Plot:
    """What `fill` draws. The same drawing gives the same bytes: the algorithm's name and the
    picture's are the salt of the SVG's identifiers, and no date is written."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    svg, png = io.BytesIO(), io.BytesIO()
    style: Any = {
        "svg.hashsalt": f"{algorithm} {name}",
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    with rc_context(style):
        figure = Figure(figsize=inches, layout="constrained")
        fill(figure.subplots())
        figure.savefig(svg, format="svg", metadata={"Date": None})
        figure.savefig(png, format="png", dpi=DOTS_PER_INCH)
    return Plot(name, svg.getvalue(), png.getvalue())
