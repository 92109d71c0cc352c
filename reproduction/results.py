"""The files of one reproduction: result.json, CSV of its rows and lines, plots.

Spec: jobs, "Reproductions"; besides its fields `checked` counts the rows by kind, `rule` and
`stand_in` state for each row where its tolerance comes from and whether its data replace the
source's; `effort`, `data` and `notes` state how much was run, on what, and what a reader has to
know.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, get_args

from reproduction.experiment import Basis, Effort, Experiment, Outcome, Row
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
    tables = [row_document(row) for row in outcome.rows]
    _write_table(rows, [*tables[0]] if tables else [], [[*each.values()] for each in tables])
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
        "checked": {kind: [held, count] for kind, (held, count) in tally(outcome.rows).items()},
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
        "tolerance": row.tolerance if row.checked else None,
        "rule": row.rule if row.checked else None,
        "stand_in": row.stand_in,
        "ok": row.ok if row.checked else None,
    }


def tally(rows: Iterable[Row]) -> dict[Basis, tuple[int, int]]:
    """By kind of check, how many rows hold and how many there are; of quotations none can fail."""
    listed = list(rows)
    return {
        kind: (
            sum(row.ok and row.checked for row in listed if row.basis == kind),
            sum(row.basis == kind for row in listed),
        )
        for kind in get_args(Basis)
    }


def said(rows: Iterable[Row]) -> str:
    """What was checked, in words: "12 printed, 3 recomputed and 4 trends hold; 5 quoted"."""
    listed = list(rows)
    counts = tally(listed)
    _, quotations = counts.pop("quoted")
    parts = [
        f"{count if held == count else f'{held} of {count}'} {_NAMES[kind][count != 1]}"
        for kind, (held, count) in counts.items()
        if count
    ]
    checked = " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))
    alone = len(parts) == 1 and checked.startswith("1 ")
    text = f"{checked} {'holds' if alone else 'hold'}" if checked else "nothing checked"
    if quotations:
        text += f"; {quotations} quoted"
    others = sum(row.stand_in and row.checked for row in listed)
    if others:
        text += f"; {others} of the checks on stand-in data"
    return text


def checks_made(rows: Iterable[Row]) -> str:
    """The kinds of its checks: "printed, trends", and whether data that replace the source's are
    in all ("; stand-in data") or some of them."""
    checked = [row for row in rows if row.checked]
    kinds = {row.basis for row in checked}
    text = ", ".join(plural for kind, (_, plural) in _NAMES.items() if kind in kinds)
    replaced = sum(row.stand_in for row in checked)
    if not replaced:
        return text
    return f"{text}; {'some ' if replaced < len(checked) else ''}stand-in data"


_NAMES: Final[dict[Basis, tuple[str, str]]] = {
    "printed": ("printed", "printed"),
    "recomputed": ("recomputed", "recomputed"),
    "trend": ("trend", "trends"),
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
