"""Plots of experiments: lines over an axis, in the manner of the sources, as SVG and PNG.

A `Plot` is only data; `draw` needs matplotlib (extra `plots`), imported inside. The same data give
the same SVG, byte for byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from algorithms.drawing import DOTS_PER_INCH, STYLE

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

Kind = Literal["source", "ours", "bound"]
Scale = Literal["linear", "log"]

_SOURCE_COLOURS: Final = ("#1b6ca8", "#c8553d", "#4f772d", "#7b4b94", "#8d6b1f", "#5c677d")
_OUR_COLOURS: Final = ("#111111", "#555555", "#8c8c8c", "#b3b3b3", "#2f2f2f")
_MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
_DASHES: Final = ((4, 2), (1, 1.5), (6, 2, 1, 2), (3, 1, 1, 1), (8, 3))
_MARK_COLOURS: Final = ("#d98324", "#3a9ea5", "#c8a2c8")
_PANEL_INCHES: Final = (5.4, 4.0)
_LEGEND_COLUMNS: Final = 2
_LEGEND_ROW_INCHES: Final = 0.2


@dataclass(frozen=True)
class Line:
    """Measured y over x, and the expected y, if known.

    kind: a scheme of the source, one of ours (dashed), or a bound (dotted, without points).
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    expected: tuple[float, ...] | None = None
    kind: Kind = "source"

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y) or (self.expected and len(self.expected) != len(self.x)):
            raise ValueError("a line has as many values as places")


@dataclass(frozen=True)
class Mark:
    """A vertical line at a place of the x axis; marks of one name have the same style."""

    x: float
    name: str


@dataclass(frozen=True)
class Panel:
    """One set of axes; labels carry the units."""

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    x_scale: Scale = "linear"
    y_scale: Scale = "log"
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True)
class Plot:
    """A figure: its file name without ending, title and panels side by side with one legend."""

    name: str
    title: str
    panels: tuple[Panel, ...]


def draw(plot: Plot, directory: Path) -> tuple[Path, Path]:
    """Write NAME.svg and NAME.png; their paths."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    names = {line.name for panel in plot.panels for line in panel.lines}
    names |= {mark.name for panel in plot.panels for mark in panel.marks}
    columns = _LEGEND_COLUMNS * len(plot.panels)
    width, height = _PANEL_INCHES
    legend_rows = -(-len(names) // columns)
    svg, png = directory / f"{plot.name}.svg", directory / f"{plot.name}.png"
    style: Any = {**STYLE, "svg.hashsalt": plot.name}
    with rc_context(style):
        figure = Figure(
            figsize=(width * len(plot.panels), height + _LEGEND_ROW_INCHES * legend_rows),
            layout="constrained",
        )
        figure.suptitle(plot.title)
        labelled: dict[str, Artist] = {}
        grid = figure.subplots(1, len(plot.panels), squeeze=False)[0]
        for panel, axes in zip(plot.panels, grid, strict=True):
            _fill(panel, axes)
            handles, labels = axes.get_legend_handles_labels()
            labelled |= dict(zip(labels, handles, strict=True))
        figure.legend(
            list(labelled.values()),
            list(labelled),
            loc="outside lower center",
            ncols=columns,
            frameon=False,
        )
        figure.savefig(svg, metadata={"Date": None})
        figure.savefig(png, dpi=DOTS_PER_INCH)
    return svg, png


def _fill(panel: Panel, axes: Axes) -> None:
    axes.set_title(panel.title)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    axes.set_xscale(panel.x_scale)
    axes.set_yscale(panel.y_scale)
    axes.grid(which="major", color="#dddddd", linewidth=0.6)
    drawn = {"source": 0, "ours": 0, "bound": 0}
    for line in panel.lines:
        place = drawn[line.kind]
        drawn[line.kind] += 1
        colours = _OUR_COLOURS if line.kind == "ours" else _SOURCE_COLOURS
        colour = colours[place % len(colours)]
        if line.kind == "bound":
            axes.plot(line.x, line.y, label=line.name, color=colour, linestyle=":", linewidth=1.2)
            continue
        ours = line.kind == "ours"
        markers = _MARKERS[::-1] if ours else _MARKERS
        # Open and larger: a scheme of the source with the same noise shows through.
        style: dict[str, Any] = {
            "color": colour,
            "marker": markers[place % len(markers)],
            "markersize": 7 if ours else 4,
            "markerfacecolor": "none" if ours else colour,
        }
        dash: Any = (0, _DASHES[place % len(_DASHES)]) if ours else "-"
        if line.expected is None:
            axes.plot(line.x, line.y, linestyle=dash, linewidth=1.2, **style)
        else:  # the points are measured, the line is what is expected
            axes.plot(line.x, line.expected, color=colour, linestyle=dash, linewidth=1)
            axes.plot(line.x, line.y, linestyle="none", **style)
        axes.plot([], [], label=line.name, linestyle=dash, linewidth=1.2, **style)
    names = list(dict.fromkeys(mark.name for mark in panel.marks))
    for mark in panel.marks:
        place = names.index(mark.name)
        axes.axvline(
            mark.x,
            label=mark.name,
            color=_MARK_COLOURS[place % len(_MARK_COLOURS)],
            linestyle=("--", "-.")[place % 2],
            linewidth=1,
        )
