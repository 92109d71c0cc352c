"""`python -m reproduction`: run the sources' tables and figures again, and say what comes out.

Each id writes its result.json, CSV and plots. Exit code 1 if a row is not what was expected, else 3
if an id could check nothing.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from algorithms.drawing import can_draw
from cli.context import TextTable, console, fail, plain_errors, progress
from common.runtime.process import extra_needed
from reproduction.experiment import FULL, QUICK, Effort, Experiment, Outcome, Row, Run
from reproduction.experiment import Value as RowValue
from reproduction.registry import checks_of, experiments
from reproduction.results import said, tally, write

ALL = "all"
FAILED, NOT_REPRODUCED = 1, 3


def reproduce(
    name: Annotated[
        str | None, typer.Argument(metavar="ID", help="An id of --list, or `all`.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Directory for the files; with `all`, one below it for each id."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Directory of the real data sets. Without it generated ones stand in, where there "
            "are such; rows and summary say so.",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A tenth of the repetitions, wider stated tolerances.")
    ] = False,
    show_list: Annotated[
        bool,
        typer.Option("--list", help="What there is to reproduce, what each checks, and its time."),
    ] = False,
) -> None:
    """Reproduce a table or figure of the sources, or all of them."""
    with plain_errors():
        known = experiments()
        if show_list:
            console.print(_listing(known))
            _say(
                "Checks, with --data: figures printed in the source; figures recomputed by the "
                "specification; trends (directions, orders, bounds). An id without `printed` "
                "compares no figure with the source's own on its own data."
            )
            return
        chosen = [each for each in known if name in (each.id, ALL)]
        if name is None:
            fail("name an id, or `all`; `python -m reproduction --list` shows them")
        if not chosen:
            fail(f"nothing is called {name}; `python -m reproduction --list` shows what there is")
        if out is None:
            fail("--out says where the files go")
        if data is not None and not data.is_dir():
            fail(f"--data: {data} is no directory")
        if not can_draw():
            fail(extra_needed("drawing", "plots"))
        places = {each.id: out / each.id if name == ALL else out for each in chosen}
        effort = QUICK if quick else FULL
        found = [_perform(each, effort, data, places[each.id]) for each in chosen]
    for experiment, outcome, _ in found:
        if name != ALL or not outcome.ok:
            console.print(_rows_table(experiment, outcome, all_rows=name != ALL))
            for note in outcome.notes:
                _say(f"  {note}")
        if not outcome.checked:
            _say(f"{experiment.id}: not reproduced here: needs {experiment.needs}")
    console.print(_summary(found))
    _say(said(row for _, outcome, _ in found for row in outcome.rows))
    _say(f"files are in {out}")
    if not all(row.ok for _, outcome, _ in found for row in outcome.rows):
        raise typer.Exit(FAILED)
    if not all(outcome.checked for _, outcome, _ in found):
        raise typer.Exit(NOT_REPRODUCED)


def _say(text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def _perform(
    experiment: Experiment, effort: Effort, data: Path | None, directory: Path
) -> tuple[Experiment, Outcome, float]:
    """Run one and write its files; what it found and the seconds it took."""
    started = time.monotonic()
    with progress() as bar:
        task = bar.add_task(experiment.id, total=1)
        outcome = experiment.run(
            Run(effort, data, progress=lambda share: bar.update(task, completed=share))
        )
        write(experiment, outcome, effort, directory)
    return experiment, outcome, time.monotonic() - started


def _listing(known: tuple[Experiment, ...]) -> object:
    rows = [
        [each.id, each.source, f"{each.shows} (checks: {checks_of(each.id)})", f"{each.seconds} s"]
        for each in known
    ]
    return TextTable("", ["id", "source", "what it shows", "takes"], rows)


def _summary(found: list[tuple[Experiment, Outcome, float]]) -> object:
    rows = []
    for experiment, outcome, seconds in found:
        counts = tally(outcome.rows)
        _, quotations = counts.pop("quoted")
        shown = [_held(*count) for count in counts.values()]
        rows.append(
            [experiment.id, *shown, str(quotations or ""), _verdict(outcome), f"{seconds:.1f} s"]
        )
    return TextTable("", ["id", "printed", "recomputed", "trend", "quoted", "", "took"], rows)


def _held(held: int, count: int) -> str:
    if not count:
        return ""
    return str(count) if held == count else f"{held} of {count}"


def _verdict(outcome: Outcome) -> str:
    if not outcome.checked:
        return "not reproduced"
    if not outcome.ok:
        return "NOT OK"
    return "ok, on stand-in data" if any(row.stand_in for row in outcome.rows) else "ok"


def _rows_table(experiment: Experiment, outcome: Outcome, *, all_rows: bool) -> object:
    rows = [_texts(row) for row in outcome.rows if all_rows or not row.ok]
    columns = ["", "expected", "check", "measured", "tolerance", ""]
    return TextTable(experiment.source, columns, rows)


def _texts(row: Row) -> list[str]:
    return [
        row.name,
        _text(row.expected),
        row.basis + (", stand-in data" if row.stand_in else ""),
        _text(row.measured),
        (f"{row.tolerance:.2g}: {row.rule}" if row.tolerance else row.rule) if row.checked else "",
        ("ok" if row.ok else "NOT OK") if row.checked else "not checked",
    ]


def _text(value: RowValue) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case float() | int():
            return f"{value:.6g}"
        case _:
            return value


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command()(reproduce)


if __name__ == "__main__":
    app(prog_name="python -m reproduction")
