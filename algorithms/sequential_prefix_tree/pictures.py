"""Pictures of the release: nodes by level, and noisy against consistent counts.

Needs matplotlib (extra `plots`), imported inside and drawn by Agg; no plots without it. The same
values give the same SVG, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from algorithms.contract import Plot
from algorithms.drawing import BLUE, COLOURS, can_draw, picture
from algorithms.sequential_prefix_tree.publication import Release

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INCHES: Final = (5.4, 4.0)
_POINTS: Final = 400


def pictures(release: Release, beat: Callable[[], None] = lambda: None) -> tuple[Plot, ...]:
    """Both plots; none without matplotlib or without nodes."""
    beat()
    if not can_draw() or not release.tree.nodes:
        return ()
    levels = picture(
        "sequential-prefix-tree", "levels", lambda axes: _levels(axes, release), _INCHES
    )
    beat()
    return levels, picture(
        "sequential-prefix-tree", "consistency", lambda axes: _consistency(axes, release), _INCHES
    )


def _levels(axes: Axes, release: Release) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_title("Nodes and synthetic sequences by level")
    places = np.arange(1, len(release.tree.levels) + 1)
    sizes = [level.size for level in release.tree.levels]
    copies = [int(each.sum()) for each in release.copies]
    axes.bar(places - 0.2, sizes, 0.4, color=BLUE, label="nodes of the tree")
    axes.bar(places + 0.2, copies, 0.4, color=COLOURS[1], label="sequences of this length")
    axes.set_yscale("log")
    axes.set_ylim(bottom=0.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("level (items of a prefix)")
    axes.set_ylabel("number")
    axes.legend(frameon=False)


def _consistency(axes: Axes, release: Release) -> None:
    axes.set_title("Counts before and after consistency")
    highest = 1.0
    for depth in range(min(len(COLOURS), len(release.tree.levels))):
        noisy = release.tree.levels[depth].counts
        order = np.argsort(noisy, kind="stable")
        shown = order[np.unique(np.linspace(0, order.size - 1, _POINTS).astype(int))]
        highest = max(highest, float(noisy.max()))
        axes.plot(
            noisy[shown],
            release.consistent[depth][shown],
            ".",
            color=COLOURS[depth],
            markersize=3,
            label=f"level {depth + 1}",
        )
    axes.plot([0, highest], [0, highest], color="#bbbbbb", linewidth=0.8)
    axes.set_xscale("symlog", linthresh=10)
    axes.set_yscale("symlog", linthresh=10)
    axes.set_xlabel("noisy count (sequences)")
    axes.set_ylabel("consistent count")
    axes.legend(frameon=False)
