"""Plots of published values: centres over the noisy synopsis, steps against noise, the budget.

Those of an evaluation (true and released sizes, centres and the means of their rows) are for the
operator only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from algorithms.contract import Plot
from algorithms.drawing import BLUE, can_draw, compared_bars, picture
from algorithms.kmeans.report import planned_split
from algorithms.kmeans.sound_run import Release, State, ZoneEstimate
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


# Spec: jobs, section "Result". Visible only to the operator; drawn where the evaluation is read.

_EVALUATION_INCHES: Final = (5.4, 4.0)


def evaluation_pictures(
    evaluation: Mapping[str, Any], summary: Mapping[str, Any]
) -> tuple[Plot, ...]:
    """Both plots, where the evaluation has `clusters`."""
    clusters = evaluation.get("clusters")
    if not clusters:
        return ()
    true = [each["rows"] for each in clusters]
    shifts = [each["mean_distance_off"] for each in clusters]
    released = summary["noisy_counts"]
    return (
        picture("kmeans", "sizes", lambda axes: _sizes(axes, true, released), _EVALUATION_INCHES),
        picture("kmeans", "shifts", lambda axes: _shifts(axes, shifts), _EVALUATION_INCHES),
    )


def _sizes(axes: Axes, true: Sequence[float], released: Sequence[float]) -> None:
    axes.set_title("Rows of each cluster (private)")
    names = [str(place) for place in range(len(true))]
    compared_bars(axes, names, {"true": true, "released": released})
    axes.set_xlabel("cluster")
    axes.set_ylabel("rows")


def _shifts(axes: Axes, shifts: Sequence[float | None]) -> None:
    axes.set_title("Released centres against their rows' means (private)")
    known = [(place, shift) for place, shift in enumerate(shifts) if shift is not None]
    axes.bar([place for place, _ in known], [shift for _, shift in known], color=BLUE)
    axes.set_xticks(range(len(shifts)))
    axes.set_xlabel("cluster")
    axes.set_ylabel("distance (sides of the box)")
