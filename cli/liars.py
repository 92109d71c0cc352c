"""`tacit simulate --liars`: a declared and a proved sum over the same liars, side by side."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

from cli.context import Answer, console, fail, say, table
from cli.soak import counted
from cli.words import amount
from simulation.liars import Comparison, Lie, LiedRound, compare, comparison, plot
from simulation.plots import can_draw, draw
from simulation.populations import Population
from tacit.query.query import Query

LARGEST_WRITTEN_OUT = 1e9


def share_of(text: str) -> Fraction:
    """A share as 5% or 0.05; exit code 2 for anything else, and outside of (0, 1]."""
    number, percent, rest = text.partition("%")
    try:
        share = Fraction(number) / (100 if percent else 1)
    except (ValueError, ZeroDivisionError):
        share = Fraction(0)
    if rest or not 0 < share <= 1:
        fail(f"--liars {text}: give a share of the curators, such as 5%")
    return share


def compared(
    query: Query,
    people: Population,
    share: Fraction,
    rounds: int,
    seed: int,
    out: Path | None,
) -> Answer:
    """Run both rounds as often; JSON and a picture into `out`."""
    rows: list[LiedRound] = []
    with counted("rounds") as bar:
        task = bar.add_task("round", total=rounds)
        for row in compare(query, people, share, rounds, seed):
            rows.append(row)
            bar.update(task, advance=1, description=f"{row.named} named")
    found = comparison(query, people, share, seed, tuple(rows))
    if out is not None:
        _write(found, out)
    return Answer(found.document(), lambda: _print(found))


def _write(found: Comparison, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(found.document(), indent=2) + "\n"
    (out / "liars.json").write_text(text, encoding="utf-8")
    if can_draw():
        draw(plot(found), out)


def _print(found: Comparison) -> None:
    curators = found.population["curators"]
    columns = ("round", "true", "declared", "proved", "lied", "named")
    rows = [
        (
            str(row.round),
            _figure(row.true),
            _figure(row.declared),
            _figure(row.proved),
            str(row.told),
            str(row.named),
        )
        for row in found.rows
    ]
    title = f"{found.liars} of {curators} curators lie, amounts in {found.unit}"
    console.print(table(title, columns, rows))
    for lie in Lie:
        told = sum(each.told for row in found.rows for each in row.lies if each.lie is lie)
        named = sum(each.named for row in found.rows for each in row.lies if each.lie is lie)
        say(f"{lie.value}: says {found.claims[lie.value]}, {named} of {told} named")
    figures = found.figures()
    declared = amount(figures["mean_absolute_declared_error"])
    proved = amount(figures["mean_absolute_proved_error"])
    say(f"mean absolute error: declared {declared}, proved {proved}")
    say(
        f"lies within the range that passed: {figures['passed']}; each moves the sum by at most "
        f"{amount(found.reach)}"
    )
    if figures["honest_named"]:
        say(f"{figures['honest_named']} honest contributions were refused")
    if any(row.proved is None for row in found.rows):
        say("a proved round of too few honest contributions releases nothing")


def _figure(value: str | None) -> str:
    """A total for a column: to a tenth, so that near ones differ, unless it is enormous."""
    if value is None:
        return "-"
    number = float(Fraction(value))
    return f"{number:.1f}" if abs(number) < LARGEST_WRITTEN_OUT else f"{number:.3g}"
