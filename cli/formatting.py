"""Reports and results in words and tables, for people at a terminal."""

from __future__ import annotations

import json
import math
import textwrap
from fractions import Fraction
from typing import Any

from cli.context import Answer, console, say
from tacit.answers import base as api
from tacit.answers.rounds import REFUSED_BECAUSE
from tacit.query.terms import PRESENCE
from tacit.report.figures import of_a_hundred, short

Json = dict[str, Any]

MAX_SHOWN = 12
MAX_LENGTH = 240
_TYPED = str.maketrans({"\N{NARROW NO-BREAK SPACE}": None, "\N{MINUS SIGN}": "-"})
"""From the typography of pages to plain text."""


def amount(value: object, digits: int = 3) -> str:
    """A decimal string (or number) to a few significant digits, a large one (below 10^9) to a
    tenth."""
    if value is None:
        return "-"
    if value == "inf":
        return "infinite"
    number = float(Fraction(str(value)))
    if number == 0 or not 0.001 <= abs(number) < 1e9:
        return f"{number:.{digits}g}"
    places = max(1, digits - 1 - math.floor(math.log10(abs(number))))
    text = f"{number:.{places}f}"
    return text.rstrip("0").rstrip(".")


def verified(response: api.Answer) -> Answer:
    """The result of a check of every row of a ledger; exit code 1 if it is broken."""
    if response["verified"]:
        text = f"verified: {response['rows']} rows, head {response['head']}"
        return Answer(response, lambda: say(text))
    broken = response["broken"]
    return Answer(response, lambda: say(f"broken at row {broken['row']}: {broken['reason']}"), 1)


def result_lines(answer: api.Answer) -> list[str]:
    """The released figures of a result."""
    unit = answer["unit"]
    lines = [
        f"round {answer['round']}, {answer['window']['start']} to {answer['window']['end']}",
        f"  {answer['participants']} curators answered (one without readings answers with zeros)",
    ]
    for name, value in answer["result"].items():
        if name == "table":
            lines += [f"  {line}" for line in _table_lines(answer)]
        elif isinstance(value, list):
            shown = ", ".join(amount(item) for item in value[:MAX_SHOWN])
            lines.append(f"  {name}: {shown}{' ...' if len(value) > MAX_SHOWN else ''}")
        elif name == PRESENCE:
            lines.append(f"  curators with readings: {value} (a noisy count)")
        elif name in ("count", "reason"):
            lines.append(f"  {name}: {value}")
        else:
            symbol = unit if name != "variance" else f"{unit}^2"
            text = _with_noise(value, _half_width(answer, name), symbol)
            lines.append(f"  {name}: {text}{_between(answer, name)}")
    return lines


def _table_lines(round_answer: api.Answer) -> list[str]:
    """The cells and margins of a table."""
    # Loaded only here: few results are tables.
    from tacit.query.tables import TableColumn
    from tacit.report.tables import cell_figures, grid, text_lines

    columns = [
        TableColumn.model_validate_json(json.dumps(column)) for column in round_answer["columns"]
    ]
    figures = cell_figures(
        columns, round_answer["result"]["table"], round_answer["report"].get("error")
    )
    return text_lines(grid(columns, figures))


def _between(response: api.Answer, name: str) -> str:
    """The interval of a percentile."""
    listed = (response["report"].get("error") or {}).get("percentiles") or ()
    row = next((item for item in listed if item["part"] == name), None)
    if row is None or row["low"] is None:
        return ""
    return f", between {row['low']} and {row['high']} in 95 of 100 cases"


def _with_noise(value: str | None, half_width: str | None, unit: str) -> str:
    """A value, rounded to the digits that its noise leaves meaningful."""
    if value is None or half_width is None:
        return f"{amount(value)} {unit}"
    # Loaded only here: it knows the rows of a report, and with them all mechanisms.
    from common.web.console.formatting import with_error

    shown, error = with_error(value, half_width)
    if error is None:
        return f"{shown} {unit} (without noise)".translate(_TYPED)
    return f"{shown} {unit} ± {error} {unit} (noise, in 95 of 100 cases)".translate(_TYPED)


def _half_width(response: api.Answer, name: str) -> str | None:
    """The most by which noise moves a released sum or average in 95 of 100 cases."""
    error = response["report"].get("error") or {}
    for part in (*error.get("averages", ()), *error.get("parts", ())):
        if part["part"] == name:
            width: str = part["interval"]["half_width"]
            return width
    return None


def summary_lines(summary: Json) -> list[str]:
    """The summary of a job, a line for each field. The result's file has all digits."""
    return [
        textwrap.shorten(f"{name}: {_plain(value)}", MAX_LENGTH, placeholder=" ...")
        for name, value in summary.items()
    ]


def _plain(value: object) -> str:
    """A value of a JSON document in words."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_inside(item)}" for name, item in value.items()) or "none"
    if isinstance(value, list):
        shown = [_inside(item) for item in value[:MAX_SHOWN]]
        separator = "; " if any(isinstance(item, str) and " " in item for item in value) else ", "
        more = [f"{len(value) - MAX_SHOWN:,} more"] if len(value) > MAX_SHOWN else []
        return separator.join(shown + more) or "none"
    if value is None or isinstance(value, bool):
        return {True: "yes", False: "no", None: "none"}[value]
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _inside(value: object) -> str:
    return f"({_plain(value)})" if value and isinstance(value, list | dict) else _plain(value)


def refusal_lines(refusals: api.Answer) -> list[str]:
    """How many curators refuse a round, by reason."""
    return [
        f"{count} refuse: {REFUSED_BECAUSE.get(ground, ground)}"
        for ground, count in refusals["grounds"].items()
        if count
    ]


def refused_lines(refusals: api.Answer) -> list[str]:
    """Which curators had invalid proofs, and contradictions among aggregators."""
    named = [
        f"{item['curator'] or item['number']}: {', '.join(item['reasons'])}"
        for item in refusals["refused"]
    ]
    rest = refusals["count"] - len(named)
    return [
        f"{refusals['count']} refused by their proof",
        *named,
        *([f"and {rest} more"] if rest else []),
        *refusals["statements"],
    ]


def guarantee(line: Json) -> str:
    """One verified line: epsilon and delta, or `none`."""
    if line.get("epsilon") == "inf" or line.get("model") == "none":
        return "none"
    if line.get("epsilon") is None:
        return "no statement"
    if line.get("delta") in (None, "0"):
        return f"epsilon {amount(line['epsilon'])}"
    return f"epsilon {amount(line['epsilon'])}, delta {amount(line['delta'])}"


def error_lines(report: Json | api.Answer) -> list[str]:
    """The expected error of each figure of the result, by its noise, and further sentences."""
    forecast = report.get("error") or {}
    return [
        *(
            f"expected error of {item['part']} with {forecast['participants']} curators, of noise: "
            f"{short(item['mean_absolute'])}{_unit(item['unit'])} on average{_at_most(item)}"
            for item in (*forecast.get("averages", ()), *forecast.get("parts", ()))
        ),
        *forecast.get("sentences", ()),
    ]


def _at_most(part: Json) -> str:
    interval = part.get("interval")
    if interval is None:
        return ""
    level = of_a_hundred(interval["level"])
    half_width = f"{short(interval['half_width'])}{_unit(part['unit'])}"
    return f", at most {half_width} in {level} of 100 cases"


def _unit(symbol: str) -> str:
    """The unit after a number; a plain number has none."""
    return "" if symbol == "1" else f" {symbol}"


def print_report(report: Json | api.Answer, *, full: bool = False) -> None:
    """The privacy report: the expected error, who would have to collude to learn more, and what
    is not protected, public and assumed; `full`: every whole statement, and the source's claim."""
    # Loaded only here: few commands print a report.
    from tacit.report.text import brief, brief_text, forecast_of_a_job, price_in_rho

    for line in (*error_lines(report), *forecast_of_a_job(report.get("error"))):
        say(line)
    if (in_rho := price_in_rho(dict(report))) is not None:
        say(in_rho)
    width = min(console.width, 100)
    say(brief_text(brief(dict(report)), full=full, width=width), markup=False)
    if full:
        say("\n".join(_claimed(report)), markup=False)
    else:
        say("For every statement in full, run the same command with --full.")


def _claimed(report: Json | api.Answer) -> list[str]:
    mechanism = report["mechanism"]
    name = mechanism["name"] if isinstance(mechanism, dict) else mechanism
    lines = [
        f"Mechanism {name}, stance {report['stance']}; two data sets: {report['neighbouring']}."
    ]
    claim = report.get("claimed")
    if claim:
        theorem = f" ({claim['theorem']})" if claim.get("theorem") else ""
        lines.append(f"The source claims {guarantee({'model': '', **claim})}{theorem}.")
    return lines + [f"  - {text}" for text in report.get("source_defects") or ()]
