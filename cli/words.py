"""Reports and results in words and tables, for people at a terminal."""

from __future__ import annotations

import textwrap
from fractions import Fraction
from typing import Any

from cli.context import Answer, console, say
from tacit.query.functions import PRESENCE
from tacit.report.brief import brief, brief_text
from tacit.report.guessing import of_a_hundred

Json = dict[str, Any]

MAX_SHOWN = 12
MAX_LENGTH = 240


def amount(value: object, digits: int = 3) -> str:
    """A decimal string (or number) with a few significant digits."""
    if value is None:
        return "-"
    if value == "inf":
        return "infinite"
    number = float(Fraction(str(value)))
    if number == 0 or 0.001 <= abs(number) < 1e6:
        text = f"{number:.{digits}f}".rstrip("0").rstrip(".")
        return text if float(text or 0) or number == 0 else f"{number:.2g}"
    return f"{number:.{digits}g}"


def verified(found: Json) -> Answer:
    """What a look at every row of a ledger found; exit code 1 where it is broken."""
    if found["verified"]:
        return Answer(found, lambda: say(f"verified: {found['rows']} rows, head {found['head']}"))
    broken = found["broken"]
    return Answer(found, lambda: say(f"broken at row {broken['row']}: {broken['reason']}"), 1)


def result_lines(found: Json) -> list[str]:
    """The released figures of a result."""
    unit = found["unit"]
    lines = [
        f"round {found['round']}, {found['window']['start']} to {found['window']['end']}",
        f"  {found['participants']} curators answered (one without readings answers with zeros)",
    ]
    for name, value in found["result"].items():
        if isinstance(value, list):
            shown = ", ".join(amount(item) for item in value[:MAX_SHOWN])
            lines.append(f"  {name}: {shown}{' ...' if len(value) > MAX_SHOWN else ''}")
        elif name == PRESENCE:
            lines.append(f"  curators with readings: {value} (a noisy count)")
        elif name in ("count", "reason"):
            lines.append(f"  {name}: {value}")
        else:
            symbol = unit if name != "variance" else f"{unit}^2"
            lines.append(f"  {name}: {amount(value)} {symbol}{_interval(found, name)}")
    return lines


def _interval(found: Json, name: str) -> str:
    """How far off a released sum may be: the one figure whose error is that of its noise."""
    parts = (found["report"].get("error") or {}).get("parts") or ()
    of_sum = [part for part in parts if part["part"] == name == "sum" == found["function"]]
    if not of_sum or "interval" not in of_sum[0]:
        return ""
    interval = of_sum[0]["interval"]
    level = of_a_hundred(interval["level"])
    return f" ± {amount(interval['half_width'])} in {level} of 100 cases"


def summary_lines(summary: Json) -> list[str]:
    """What a job published, a line for each field. The result's file has it to the last digit."""
    return [
        textwrap.shorten(f"{name}: {_plain(value)}", MAX_LENGTH, placeholder=" ...")
        for name, value in summary.items()
    ]


def _plain(value: object) -> str:
    """A value of a JSON document in words."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_inside(each)}" for name, each in value.items()) or "none"
    if isinstance(value, list):
        shown = [_inside(each) for each in value[:MAX_SHOWN]]
        separator = "; " if any(isinstance(each, str) and " " in each for each in value) else ", "
        more = [f"{len(value) - MAX_SHOWN:,} more"] if len(value) > MAX_SHOWN else []
        return separator.join(shown + more) or "none"
    if value is None or isinstance(value, bool):
        return {True: "yes", False: "no", None: "none"}[value]
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _inside(value: object) -> str:
    return f"({_plain(value)})" if value and isinstance(value, list | dict) else _plain(value)


_GROUNDS = {
    "policy": "their policies forbid it",
    "descriptor": "the descriptor is not what was agreed",
    "own": "their own ledgers or histories",
}


def refusal_lines(found: Json) -> list[str]:
    """How many curators refuse a round, by ground."""
    return [
        f"{count} refuse: {_GROUNDS.get(ground, ground)}"
        for ground, count in found["grounds"].items()
        if count
    ]


def refused_lines(found: Json) -> list[str]:
    """Which curators were refused by their proof, and what aggregators contradict."""
    named = [
        f"{item['curator'] or item['number']}: {', '.join(item['reasons'])}"
        for item in found["refused"]
    ]
    rest = found["count"] - len(named)
    return [
        f"{found['count']} refused by their proof",
        *named,
        *([f"and {rest} more"] if rest else []),
        *found["statements"],
    ]


def guarantee(line: Json) -> str:
    """One verified line: (epsilon, delta), or that there is none."""
    if line.get("epsilon") == "inf" or line.get("model") == "none":
        return "none"
    if line.get("epsilon") is None:
        return "no statement"
    if line.get("delta") in (None, "0"):
        return f"epsilon {amount(line['epsilon'])}"
    return f"epsilon {amount(line['epsilon'])}, delta {amount(line['delta'])}"


def error_lines(report: Json) -> list[str]:
    """The error to expect of each part of the result."""
    found = report.get("error") or {}
    return [
        f"expected error of {item['part']} with {found['participants']} curators: "
        f"{amount(item['mean_absolute'])}{_unit(item['unit'])} on average{_at_most(item)}"
        for item in found.get("parts", ())
    ]


def _at_most(part: Json) -> str:
    interval = part.get("interval")
    if interval is None:
        return ""
    level = of_a_hundred(interval["level"])
    return f", at most {amount(interval['half_width'])} in {level} of 100 cases"


def _unit(symbol: str) -> str:
    """As it follows a number; a plain number has none."""
    return "" if symbol == "1" else f" {symbol}"


def print_report(report: Json, *, full: bool = False) -> None:
    """The privacy report: the error to expect, who would have to work together to learn more, and
    what is not protected, public and assumed; `full`: every statement whole, and the source's
    claim."""
    for line in error_lines(report):
        say(line)
    width = min(console.width, 100)
    say(brief_text(brief(report), full=full, width=width), markup=False)
    if full:
        say("\n".join(_claimed(report)), markup=False)
    else:
        say("Every statement whole: the same command with --full.")


def _claimed(report: Json) -> list[str]:
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
