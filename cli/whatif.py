"""`tacit whatif`: choose who colludes, and see the remaining guarantee and the error of the result.

It needs no service and no data: the noise of a query is public.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any

import typer

from cli.context import Answer, TextTable, console, printed, read_table, say
from cli.formatting import error_lines, guarantee
from tacit.accounting.guarantees import verified_line, what_if
from tacit.accounting.scenarios import Scenario
from tacit.query.query import Query
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
        for line in (*error_lines({"error": error}), *year):
            say(line)

    return Answer(document, human)


def _curators(query: Query, n: int) -> list[int]:
    return sorted({0, query.collusion.curators, n // 10, n // 2, n - 1})


def _line(query: Query, curators: int, aggregators: int, n: int) -> dict[str, Any]:
    found = what_if(query, curators, aggregators, n)
    return {
        "curators": curators,
        "aggregators": aggregators,
        "model": found.model,
        "epsilon": epsilon_amount(found.epsilon),
        "delta": delta_amount(found.delta),
        "rho": None if found.rho is None else exact_amount(found.rho),
        "reason": found.reason,
    }
