"""Reports and results in words and tables, for people at a terminal."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from rich.table import Table

from cli.context import Answer, console, say
from tacit.query.functions import PRESENCE

Json = dict[str, Any]

MAX_SHOWN = 12


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
            lines.append(f"  {name}: {amount(value)} {unit if name != 'variance' else unit + '^2'}")
    return lines


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


def guarantees_table(report: Json, title: str = "What is verified") -> Table:
    """Who colludes, and what still holds."""
    shown = Table(title=title, title_justify="left", header_style="bold")
    shown.add_column("who pools what they see", overflow="fold")
    shown.add_column("guarantee")
    lines = report["verified"]
    for line in lines:
        shown.add_row(line.get("description") or line["scenario"], guarantee(line))
    reasons = list(dict.fromkeys(line["reason"] for line in lines if line.get("reason")))
    if reasons:
        shown.caption = "\n".join(reasons)
        shown.caption_justify = "left"
    return shown


def error_lines(report: Json) -> list[str]:
    """The error to expect of each part of the result."""
    found = report.get("error") or {}
    return [
        f"expected error of {item['part']} with {found['participants']} curators: "
        f"{amount(item['mean_absolute'])}{_unit(item['unit'])} (mean absolute)"
        for item in found.get("parts", ())
    ]


def _unit(symbol: str) -> str:
    """As it follows a number; a plain number has none."""
    return "" if symbol == "1" else f" {symbol}"


def print_report(report: Json) -> None:
    """The privacy report: claimed, verified, expected error, and what is not protected."""
    claimed = report.get("claimed")
    say(
        f"stance {report['stance']}, mechanism {_mechanism(report)}, unit of privacy "
        f"{report['privacy_unit']} ({report['neighbouring']})"
    )
    if claimed:
        say(f"the source claims: {guarantee({'model': '', **claimed})} ({claimed.get('theorem')})")
    console.print(guarantees_table(report))
    for line in error_lines(report):
        say(line)
    for text in (report.get("validity") or {}).get("sentences", ()):
        say(f"  - {text}")
    for name in ("caveats", "not_protected", "source_defects"):
        for text in report.get(name) or ():
            say(f"  - {text}")


def _mechanism(report: Json) -> str:
    mechanism = report["mechanism"]
    return str(mechanism["name"] if isinstance(mechanism, dict) else mechanism)
