"""`tacit whatif`: choose who colludes, and see the remaining guarantee and the error of the result.

It needs no service and no data: the noise of a query is public.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Annotated, Any

import typer

from cli.context import Answer, TextTable, console, printed, read_table, say
from cli.formatting import error_lines, guarantee
from tacit.accounting.guarantees import verified_line, what_if
from tacit.accounting.scenarios import Scenario
from tacit.errors import FieldsRefused
from tacit.query.query import Query
from tacit.query.terms import Mechanism
from tacit.report.accuracy import error_statement
from tacit.report.figures import amount as exact_amount
from tacit.report.figures import delta_amount, epsilon_amount, short
from tacit.report.statements import year_of_schedule


@printed
def whatif(
    source: Annotated[str, typer.Argument(help="The query: a JSON file, or JSON text.")],
    participants: Annotated[
        int | None, typer.Option(min=1, help="Curators in the round (default: the minimum).")
    ] = None,
    curators: Annotated[
        list[int] | None, typer.Option(min=0, help="Colluding curators; may be repeated.")
    ] = None,
    aggregators: Annotated[
        list[int] | None, typer.Option(min=0, help="Colluding aggregators; may be repeated.")
    ] = None,
) -> Answer:
    """Verified guarantees and expected error of a query, for colluders of your choice."""
    query = Query.of(**read_table(source))
    n = participants or query.min_participants
    lines = [
        _line(query, u, s, n)
        for u in curators or _curators(query, n)
        for s in aggregators or range(query.aggregators + 1)
    ]
    error = error_statement(query, n)
    year = list(year_of_schedule(query, (verified_line(query, Scenario.ASSUMED),)))
    beside = list(_noise_or_rule(query, n))
    document = {"participants": n, "guarantees": lines, "error": error, "year": year or None}
    in_rho = any(item["rho"] for item in lines)

    def human() -> None:
        rows = [
            [
                str(item["curators"]),
                str(item["aggregators"]),
                *([short(Fraction(item["rho"])) if item["rho"] else ""] if in_rho else []),
                guarantee(item),
                item["reason"] or "",
            ]
            for item in lines
        ]
        columns = ["colluding curators", "colluding aggregators", "guarantee", "because"]
        if in_rho:
            columns.insert(2, "rho")
        console.print(TextTable(f"Among {n} curators", columns, rows))
        for line in (*error_lines({"error": error}), *year, *beside):
            say(line)

    return Answer(document, human)


def _noise_or_rule(query: Query, n: int) -> Iterator[str]:
    """A sum without noise beside the same one with noise at epsilon 1: what each protects from."""
    if query.rule is None:
        return
    fields = query.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"rule"})
    noisy = {**fields, "mechanism": Mechanism.DISTRIBUTED.value, "epsilon": "1", "validity": None}
    least = query.rule.min_participants
    yield (
        f"Exact under this rule: error 0. It protects a curator from those who know few of the "
        f"others: at {least:,} curators, anyone who knows {least - 1:,} of them knows the last one."
    )
    try:
        error = error_statement(Query.of(**noisy), n)
    except FieldsRefused:
        return  # such as a noise that does not fit the resolution
    part = error["parts"][0]
    width = short(Fraction(part["interval"]["half_width"]))
    unit = "" if part["unit"] == "1" else f" {part['unit']}"
    yield (
        f"With noise at epsilon 1 instead: {part['part']} ± {width}{unit} in "
        " 95 of 100 cases. It protects from everyone, whatever they know."
    )


def _curators(query: Query, n: int) -> list[int]:
    return sorted({0, query.collusion.curators, n // 10, n // 2, n - 1})


def _line(query: Query, curators: int, aggregators: int, n: int) -> dict[str, Any]:
    outcome = what_if(query, curators, aggregators, n)
    return {
        "curators": curators,
        "aggregators": aggregators,
        "model": outcome.model,
        "epsilon": epsilon_amount(outcome.epsilon),
        "delta": delta_amount(outcome.delta),
        "rho": None if outcome.rho is None else exact_amount(outcome.rho),
        "reason": outcome.reason,
    }
