"""The files of one reproduction: result.json, CSV of its rows and lines, plots.

Shape: spec, jobs, "Reproductions"; besides its fields `effort`, `data` and `notes` say how much
was run, on what, and what a reader has to know.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any, Final

from simulation.experiments.experiment import Effort, Experiment, Outcome, Row
from simulation.plots import Plot, draw

FORMAT: Final = "tacit.reproduction/1"


def write(
    experiment: Experiment, outcome: Outcome, effort: Effort, directory: Path
) -> tuple[Path, ...]:
    """Write everything into the directory, which is made if needed; the paths."""
    directory.mkdir(parents=True, exist_ok=True)
    result, rows = directory / "result.json", directory / "rows.csv"
    document = result_document(experiment, outcome, effort)
    result.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    fields = ["name", "expected", "basis", "measured", "tolerance", "ok"]
    _write_table(rows, fields, [list(row_document(row).values()) for row in outcome.rows])
    written = [result, rows]
    if outcome.plots:
        lines = directory / "lines.csv"
        header = ["plot", "panel", "line", "kind", "x", "y", "expected"]
        _write_table(lines, header, [row for plot in outcome.plots for row in _points(plot)])
        written.append(lines)
    for plot in outcome.plots:
        written += draw(plot, directory)
    return tuple(written)


def result_document(experiment: Experiment, outcome: Outcome, effort: Effort) -> dict[str, Any]:
    """The content of result.json."""
    return {
        "format": FORMAT,
        "id": experiment.id,
        "source": experiment.source,
        "rows": [row_document(row) for row in outcome.rows],
        "effort": effort.name,
        "data": list(outcome.data),
        "notes": list(outcome.notes),
    }


def row_document(row: Row) -> dict[str, Any]:
    """One row of it."""
    return {
        "name": row.name,
        "expected": row.expected,
        "basis": row.basis,
        "measured": row.measured,
        "tolerance": row.tolerance,
        "ok": row.ok,
    }


def _points(plot: Plot) -> list[list[object]]:
    return [
        [plot.name, panel.title, line.name, line.kind, x, y, expected]
        for panel in plot.panels
        for line in panel.lines
        for x, y, expected in zip(line.x, line.y, line.expected or ("",) * len(line.x), strict=True)
    ]


def _write_table(path: Path, header: list[str], rows: list[list[object]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
