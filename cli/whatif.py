"""`tacit whatif`: choose who colludes, and see the remaining guarantee and the error of the result.

It needs no service and no data: the noise of a query is public.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from pydantic import ValidationError

from cli.context import Answer, console, fail, printed, read_json, say, table
from cli.formatting import error_lines, guarantee
from tacit.accounting.guarantees import what_if
from tacit.field_errors import first_of
from tacit.query.query import Query
from tacit.report.accuracy import error_statement
from tacit.report.figures import delta_amount, epsilon_amount
from tacit.wire import canonical_json


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
    query = _query(source)
    n = participants or query.min_participants
    lines = [
        _line(query, u, s, n)
        for u in curators or _curators(query, n)
        for s in aggregators or range(query.aggregators + 1)
    ]
    error = error_statement(query, n)
    document = {"participants": n, "guarantees": lines, "error": error}

    def human() -> None:
        rows = [
            [
                str(item["curators"]),
                str(item["aggregators"]),
                guarantee(item),
                item["reason"] or "",
            ]
            for item in lines
        ]
        columns = ["colluding curators", "colluding aggregators", "guarantee", "because"]
        console.print(table(f"Among {n} curators", columns, rows))
        for line in error_lines({"error": error}):
            say(line)

    return Answer(document, human)


def _query(source: str) -> Query:
    document = read_json(source)
    try:
        return Query.model_validate_json(canonical_json(document))
    except ValidationError as error:
        fail(f"/{first_of(error)}")
    except TypeError:
        fail('amounts are decimal strings such as "0.5", not numbers')


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
        "reason": found.reason,
    }
