"""Pictures that several jobs draw at once are those that each would draw alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from algorithms.contract import Picture
from algorithms.drawing import picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def drawn(number: int) -> Picture:
    """A picture with mathematics in its labels, which matplotlib parses."""

    def fill(axes: Axes) -> None:
        axes.semilogy([1, 2, 3], [10.0**-number, 1, 10])
        axes.set_xlabel(f"$b_{{{number}}} = \\sqrt{{{number}}}$")

    return picture("drawing", f"picture-{number}", fill, (4, 3))


@pytest.mark.slow
def test_threads_draw_what_one_alone_draws() -> None:
    alone = [drawn(number) for number in range(6)]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(drawn, range(6)))
    assert together == alone
