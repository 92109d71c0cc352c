"""Pictures of results in one style, as SVG and PNG. They need the extra `plots`."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Algorithm, Picture, Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DOTS_PER_INCH: Final = 150
STYLE: Final = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
BLUE: Final = "#1b6ca8"
RED: Final = "#c8553d"
GREY: Final = "#555555"
COLOURS: Final = (BLUE, RED, "#3a7d44", "#8d6b1f", "#5c677d")
"""Of lines that must be distinguishable."""
_BARS: Final = (GREY, BLUE, RED)
_one_at_a_time = Lock()
"""Matplotlib's style and its reader of labels are the process's, not a thread's."""


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def picture(
    algorithm: str, name: str, fill: Callable[[Axes], None], inches: tuple[float, float]
) -> Picture:
    """The picture that `fill` draws.

    The same drawing gives the same bytes: the names of algorithm and picture are the salt of the
    SVG's identifiers, and no date is written.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    svg, png = io.BytesIO(), io.BytesIO()
    style: Any = {**STYLE, "svg.hashsalt": f"{algorithm} {name}"}
    with _one_at_a_time, rc_context(style):
        figure = Figure(figsize=inches, layout="constrained")
        fill(figure.subplots())
        # Laid out once, not again for each file: a layout draws everything to measure its size.
        layout = figure.get_layout_engine()
        assert layout is not None
        layout.execute(figure)
        figure.set_layout_engine("none")
        figure.savefig(svg, format="svg", metadata={"Date": None})
        figure.savefig(png, format="png", dpi=DOTS_PER_INCH)
    return Picture(name, svg.getvalue(), png.getvalue())


def drawn(algorithm: Algorithm, plot: Plot) -> Picture:
    """The picture of a plot. Raises KeyError for one that the algorithm does not draw."""
    drawing = algorithm.drawings[plot.name]
    return picture(
        algorithm.name, plot.name, lambda axes: drawing.fill(axes, plot.values), drawing.inches
    )


def all_drawn(algorithm: str, plots: Mapping[str, Mapping[str, Any]]) -> dict[str, bytes]:
    """The pictures of a result's plots, NAME.svg and NAME.png, from the values of each."""
    from algorithms.catalogue import find

    pictures: dict[str, bytes] = {}
    for name, values in plots.items():
        one = drawn(find(algorithm), Plot(name, values))
        pictures |= {f"{name}.svg": one.svg, f"{name}.png": one.png}
    return pictures


def floats(values: Sequence[Any]) -> NDArray[np.float64]:
    """An array of a plot's numbers; NaN where there is none."""
    return np.array(values, np.float64)


def compared_bars(
    axes: Axes, names: Sequence[str], series: Mapping[str, Sequence[float | None]]
) -> None:
    """Up to three bars side by side for each name: the truth first, in grey. None: no bar."""
    places, width = np.arange(len(names)), 0.8 / len(series)
    for number, (label, values) in enumerate(series.items()):
        heights = [np.nan if value is None else value for value in values]
        shift = (number - (len(series) - 1) / 2) * width
        axes.bar(places + shift, heights, width, color=_BARS[number], label=label)
    axes.set_xticks(places, names)
    axes.axhline(0, color="black", linewidth=0.6)
    axes.legend(frameon=False)
