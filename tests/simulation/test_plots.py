"""Plots are drawn as they say, and the same data give the same file."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from algorithms.drawing import can_draw
from simulation.plots import Line, Mark, Panel, Plot, draw

X = (1.0, 10.0, 100.0)
LINES = (
    Line("theirs", X, (3.0, 2.0, 1.0), (3.1, 2.1, 1.1)),
    Line("ours", X, (2.0, 1.5, 1.0), kind="ours"),
    Line("floor", (1.0, 100.0), (0.5, 0.5), kind="bound"),
)
MARKS = (Mark(5.0, "from here"), Mark(50.0, "from here"), Mark(20.0, "another"))
PLOT = Plot(
    "two-panels",
    "A title",
    (
        Panel("(a)", "epsilon", "MAE (kWh)", LINES, "log", "log", MARKS),
        Panel("(b)", "epsilon", "MRE (share)", LINES[:1]),
    ),
)


def words(svg: Path) -> str:
    """Text that a plot was given; matplotlib leaves it as comments beside the glyphs."""
    return svg.read_text(encoding="utf-8")


def test_both_files_are_written_with_title_labels_and_one_legend(tmp_path: Path) -> None:
    assert can_draw()
    svg, png = draw(PLOT, tmp_path)
    assert png.read_bytes().startswith(b"\x89PNG")
    ElementTree.parse(svg)  # well-formed
    text = words(svg)
    for word in ("A title", "epsilon", "MAE (kWh)", "MRE (share)", "floor", "another"):
        assert f"<!-- {word} -->" in text
    (tmp_path / "again").mkdir()
    assert draw(PLOT, tmp_path / "again")[0].read_bytes() == svg.read_bytes()
    # One legend for both panels, and one entry for marks of one name.
    for word in ("theirs", "ours", "from here"):
        assert text.count(f"<!-- {word} -->") == 1
