"""Plots of published values: centres over the noisy synopsis, steps against noise, the budget.

Spec: kmeans, section 2.2. Needs matplotlib (extra `plots`), imported inside and drawn by Agg; no
plots without it. The same values give the same SVG, byte for byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from algorithms.contract import Plot
from algorithms.drawing import can_draw, picture
from algorithms.kmeans.report import planned_split
from algorithms.kmeans.steps import Release, State
from algorithms.kmeans.zone_round import ZoneEstimate
from tacit.encoders.kmeans.encoder import Floats, Grid
from tacit.wire import parse_exact

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INCHES: Final = (5.4, 4.2)
_CENTRE: Final = "#c8553d"
_BLUE: Final = "#1b6ca8"
_GREY: Final = "#8c8c8c"


def pictures(state: State, found: Release, grid: Grid, columns: Sequence[str]) -> tuple[Plot, ...]:
    """All plots of a sound run; none without matplotlib."""
    if not can_draw():
        return ()
    drawn = [picture("kmeans", "budget", lambda axes: _budget(axes, state), _INCHES)]
    if grid.dimension > 1 and state.start is not None:
        centres = grid.raw(found.centres)
        drawn.insert(
            0,
            picture(
                "kmeans",
                "centres",
                lambda axes: _centres(axes, state, grid, centres, columns),
                _INCHES,
            ),
        )
    if state.rounds:
        drawn.append(picture("kmeans", "steps", lambda axes: _steps(axes, state.rounds), _INCHES))
    return tuple(drawn)


def step_norms(found: ZoneEstimate) -> Floats:
    """How far each centre (k,) moved in a round: Euclidean, in half sides of the box."""
    norms: Floats = np.linalg.norm(found.centres - found.zone.centres / found.zone.steps, axis=1)
    return norms


def noise_deviations(found: ZoneEstimate) -> Floats:
    """The length of each step's noise (k,): standard deviation over all coordinates."""
    deviations: Floats = np.sqrt(found.zone.centres.shape[1] * found.variances)
    return deviations


def _centres(axes: Axes, state: State, grid: Grid, centres: Floats, columns: Sequence[str]) -> None:
    """By the first two columns: centres over the released cells, summed over further columns."""
    shown = "" if grid.dimension == 2 else ", first two columns"
    axes.set_title(f"Centres over the noisy histogram{shown}")
    if state.histogram is not None and state.view is None:
        side = round(state.histogram.size ** (1 / grid.dimension))
        table = state.histogram.reshape((side,) * grid.dimension)
        cells = np.maximum(table.sum(axis=tuple(range(2, grid.dimension))), 0)
        axes.pcolormesh(
            np.linspace(grid.lower[0], grid.upper[0], side + 1),
            np.linspace(grid.lower[1], grid.upper[1], side + 1),
            cells.T,
            cmap="Blues",
            rasterized=True,
        )
    axes.plot(centres[:, 0], centres[:, 1], "o", color=_CENTRE, markersize=6)
    axes.set_xlim(grid.lower[0], grid.upper[0])
    axes.set_ylim(grid.lower[1], grid.upper[1])
    axes.set_xlabel(columns[0])
    axes.set_ylabel(columns[1])


def _steps(axes: Axes, rounds: Sequence[ZoneEstimate]) -> None:
    axes.set_title("Steps and their noise")
    numbers = np.arange(1, len(rounds) + 1)
    moved = np.stack([step_norms(each) for each in rounds])
    noise = np.stack([noise_deviations(each) for each in rounds])
    for place in range(moved.shape[1]):
        axes.plot(numbers, moved[:, place], "o-", color=_BLUE, markersize=4, linewidth=0.8)
        axes.plot(numbers, noise[:, place], "_--", color=_GREY, markersize=8, linewidth=0.8)
    axes.plot([], [], "o-", color=_BLUE, label="step of a centre")
    axes.plot([], [], "_--", color=_GREY, label="standard deviation of its noise")
    axes.set_xticks(numbers)
    axes.set_xlabel("zone round")
    axes.set_ylabel("length (half sides of the box)")
    axes.legend(frameon=False)


def _budget(axes: Axes, state: State) -> None:
    axes.set_title("Budget by query")
    split = planned_split(state.plan)
    asked = state.answered
    names = [f"{place + 1} {each['kind']}" for place, each in enumerate(split)]
    values = [float(parse_exact(each["epsilon"])) for each in split]
    colours = [_BLUE if place < asked else "#dddddd" for place in range(len(split))]
    axes.barh(names[::-1], values[::-1], color=colours[::-1])
    axes.set_xlabel("epsilon (grey: not spent)" if asked < len(split) else "epsilon")
