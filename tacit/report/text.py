"""A privacy report as text: in a few lines (who would have to collude to learn more, and what is
not protected), and as a page for people; the whole report has every condition.

A brief is made of the report as JSON, so that a client reads that of a newer service too.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tacit.report.figures import of_a_hundred, short
from tacit.report.model import Charge, PrivacyReport, VerifiedStatement

Json = Mapping[str, Any]
WIDTH: Final = 80
HEADS: Final = ("", "epsilon", "delta", "right guesses", "unit", "who works together")
"""Of the rows' cells; `right guesses`: how often the guessing game is won at most."""
ONE_UNIT: Final = {
    "record": "record",
    "path-edge": "edge of a path",
    "vertex-pair": "pair of vertices",
    "cell-entry": "entry of a cell",
}
_WHY: Final = 5
_STOP: Final = re.compile(r"[.:;](?=\s|$)")
_OPEN_BRACKET: Final = re.compile(r"\s*\([^()]*$")


@dataclass(frozen=True)
class Row:
    """The guarantee against one group of people. `epsilon`, `delta`: None if not stated;
    `guess`: the most right guesses of 100; `unit`: what is protected; `why`: the reason for this
    row."""

    key: str
    epsilon: str | None
    delta: str | None
    guess: int | None
    unit: str | None
    who: str
    why: str | None

    @property
    def cells(self) -> tuple[str, ...]:
        """The row for people, in the order of HEADS; figures rounded against us."""
        if self.epsilon is None:
            cells_of_line: tuple[str, ...] = ("no figure", "", "")
        elif self.epsilon == "inf":
            cells_of_line = ("none", "", "no limit")
        else:
            cells_of_line = (_short(self.epsilon), _short(self.delta), f"{self.guess} of 100")
        return (self.key, *cells_of_line, ONE_UNIT.get(self.unit or "", self.unit or ""), self.who)


@dataclass(frozen=True)
class Brief:
    """The rows of a report, and its statements on what is not protected, public and assumed."""

    stance: str
    rows: tuple[Row, ...]
    not_protected: tuple[str, ...]
    public: tuple[str, ...]
    assumed: tuple[str, ...]

    @property
    def lists(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The three lists with their titles; without those that are empty."""
        titled = (
            ("Not protected", self.not_protected),
            ("Public", self.public),
            ("Assumed", self.assumed),
        )
        return tuple((title, lines) for title, lines in titled if lines)


def brief(report: Json) -> Brief:
    """The brief of a privacy report in JSON."""
    validity = report.get("validity") or {}
    return Brief(
        stance=str(report["stance"]),
        rows=tuple(
            _row(line, number, report) for number, line in enumerate(report.get("verified") or ())
        ),
        not_protected=_unique(validity, "sentences") + _unique(report, "not_protected", "caveats"),
        public=_unique(report, "public_parameters", "post_processing"),
        assumed=_unique(report, "assumptions"),
    )


def brief_text(brief: Brief, *, full: bool = False, width: int = WIDTH) -> str:
    """A brief as text: a table, and under each title the first clause of every statement;
    `full`: the whole statements."""
    table = [HEADS, *(row.cells for row in brief.rows)]
    widths = [max(len(cells[place]) for cells in table) for place in range(len(HEADS) - 1)]
    indent = sum(widths) + 2 * len(widths)
    lines = [] if brief.rows else ["Nothing is verified."]
    reasons = (None, *(row.why for row in brief.rows))
    for cells, why in zip(table, reasons, strict=True) if brief.rows else ():
        start = "".join(f"{cell:<{size}}  " for cell, size in zip(cells, widths, strict=False))
        lines += _wrapped(cells[-1], start, indent, width)
        if why is not None:
            lines += _wrapped(f"because {why}", " " * _WHY, _WHY, width)
    for title, statements in brief.lists:
        if full:
            lines += [
                f"{title}:",
                *(line for statement in statements for line in _item(statement, width)),
            ]
        else:
            told_briefly = "; ".join(
                _unique_of(_first_clause(statement) for statement in statements)
            )
            lines += textwrap.wrap(f"{title}: {told_briefly}.", width, subsequent_indent="  ")
    return "\n".join(lines)


def _row(line: Json, number: int, report: Json) -> Row:
    epsilon = "inf" if line.get("model") == "none" and line.get("epsilon") else line.get("epsilon")
    return Row(
        key=str(line.get("key") or chr(ord("a") + number)),
        epsilon=epsilon,
        delta=None if epsilon is None else line.get("delta"),
        guess=None if epsilon is None else of_a_hundred(line.get("guess")),
        unit=line.get("privacy_unit") or report.get("privacy_unit"),
        who=str(line.get("description") or line["scenario"]),
        why=line.get("reason"),
    )


def _short(figure: str | None) -> str:
    return "" if figure is None else short(figure)


def _unique(report: Json, *names: str) -> tuple[str, ...]:
    return _unique_of(str(entry) for name in names for entry in report.get(name) or ())


def _first_clause(statement: str) -> str:
    """The text up to the first stop, without a bracket that is open there."""
    return _OPEN_BRACKET.sub("", _STOP.split(statement)[0])


def _unique_of(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


def _wrapped(text: str, start: str, indent: int, width: int) -> list[str]:
    room = max(width - indent, 24)
    first, *rest = textwrap.wrap(text, room) or [""]
    return [f"{start}{first}".rstrip(), *(" " * indent + line for line in rest)]


def _item(text: str, width: int) -> list[str]:
    return textwrap.wrap(f"- {text}", width, initial_indent="  ", subsequent_indent="    ")


_UNITS: Final = {
    "record": "one reading, more or less",
    "curator": "all readings of one curator (its data replaced by none; that it takes part is "
    "public)",
}
_JOB_UNITS: Final = {
    "record": "one row or record, more or less",
    "curator": "all rows of one curator",
    "reading": "one reading of one user in one round",
    "level": "the level of a user's series: a constant added to all of it",
    "user": "all readings of one user",
    "radius": "a record, against others within the declared radius",
    "sequence": "one sequence, more or less",
    "edge": "one edge, more or less",
    "path-edge": "one edge of the path",
    "vertex-pair": "whether two vertices are joined",
    "cell-entry": "one entry of the matrix",
}
_KINDS: Final = {"query": "Query", "round": "Round", "job": "Job"}


def plain_words(report: PrivacyReport) -> str:
    """The report as a page for people."""
    mechanism = report.mechanism if isinstance(report.mechanism, str) else report.mechanism.name
    page = [
        f"Privacy report: {_KINDS[report.subject.kind]} {report.subject.id}",
        f"Mechanism {mechanism}, stance {report.stance}.",
        "",
        "What is protected",
    ]
    if report.privacy_unit is None:
        page.append("  No privacy unit is named.")
    else:
        units = _JOB_UNITS if report.subject.kind == "job" else _UNITS
        unit = units.get(report.privacy_unit, report.privacy_unit)
        page.append(f"  The unit is {report.privacy_unit}: {unit}.")
    if report.not_protected:
        page += ["", "What is not protected", *(f"  - {line}" for line in report.not_protected)]
    page += ["", "What the source claims"]
    if report.claimed is None:
        page.append("  Nothing: the mechanism is not the source's.")
    else:
        claim = report.claimed
        page.append(
            f"  {claim.theorem or 'The source'}: epsilon {_figure(claim.epsilon)}, "
            f"delta {_figure(claim.delta)}"
            f"{f' ({claim.text})' if claim.text else ''}."
        )
        if report.source_defects:
            page.append("  It does not hold as claimed:")
    page.extend(f"  - {defect}" for defect in report.source_defects)
    page += ["", "What holds, and against whom"]
    for line in report.verified:
        page.extend(_words(line))
    if report.validity is not None and report.validity.sentences:
        page += ["", "What a lie can do", *(f"  - {line}" for line in report.validity.sentences)]
    if report.charged is not None and report.charged.ledger != "none":
        page += ["", "What it costs", _cost_words(report.charged)]
        in_rho = price_in_rho(report.model_dump(mode="json"))
        page += [f"  {in_rho}"] if in_rho else []
    page += ["", "How far off the result will be", *_error_words(report.error)]
    for title, lines in (
        ("Assumptions", report.assumptions),
        ("Caveats", report.caveats),
        ("What would void this", report.voided_by),
    ):
        if lines:
            page += ["", title, *(f"  - {line}" for line in lines)]
    return "\n".join(page) + "\n"


def forecast_of_a_job(error: Json | None) -> list[str]:
    """Whether the result of a job will be useful, weak or noise, and the resources of the run.
    `error`: of its report; empty if the algorithm has no forecast."""
    error = error or {}
    other, work = error.get("of_the_other_method") or {}, error.get("work")
    sentences = [f"The result {_worth(error['verdict'])}."] if "verdict" in error else []
    if "verdict" in other:
        sentences.append(f"That of method {other['method']} {_worth(other['verdict'])}.")
    if work is not None:
        sentences.append(
            f"The run takes about {work['cpu_s']} s of one core and {work['memory_mb']} MB, and "
            f"{work['cpu_s_of_a_million']} s and {work['memory_mb_of_a_million']} MB more for each "
            "million items of all records together."
        )
    return sentences


def _worth(verdict: str) -> str:
    word, _, figure = verdict.partition(": ")
    expected = {"unknown": "may be of use or noise", "noise": "is expected to be noise"}
    return f"{expected.get(word, f'is expected to be {word}')}: {figure}"


def price_in_rho(report: Json) -> str | None:
    """What a round costs under the query's own assumption, in rho and in epsilon at its delta;
    None if its noise is not Gaussian."""
    line = next((line for line in report["verified"] if line.get("key") == "e"), None)
    if line is None or not line.get("rho"):
        return None
    return (
        f"A round costs each {report['privacy_unit']} rho {_short(line['rho'])}, which is epsilon "
        f"{_short(line['epsilon'])} at delta {line['delta']}."
    )


def _cost_words(charged: Charge) -> str:
    whose = "The dataset's ledger" if charged.ledger == "dataset" else "The ledger of curators"
    if charged.outside_budget:
        return f"  {whose} is charged no figure: this is a release outside the budget."
    unit = f" per {charged.privacy_unit}" if charged.ledger == "dataset" else ""
    epsilon, delta = _figure(charged.epsilon), _figure(charged.delta)
    return f"  {whose} is charged epsilon {epsilon}, delta {delta}{unit}."


def _words(line: VerifiedStatement) -> list[str]:
    opponent = (
        f"  ({line.key}) Against {line.description}" if line.description else f"  {line.scenario}"
    )
    if line.trust_model:
        opponent += f" [{line.trust_model}]"
    if line.epsilon is None:
        return [f"{opponent}: no statement.", *([f"      {line.reason}."] if line.reason else [])]
    if line.model == "none":
        words = [f"{opponent}: nothing holds."]
    elif line.delta == "0":
        words = [f"{opponent}: epsilon {_figure(line.epsilon)}, delta 0."]
    else:
        words = [
            f"{opponent}: epsilon {_figure(line.epsilon)} with delta {_figure(line.delta)}. "
            "(Delta is the chance that the bound "
            "epsilon says nothing; near 1 that is no protection.)"
        ]
    if line.reason:
        words.append(f"      Why: {line.reason}.")
    words.extend(f"      If: {condition}." for condition in line.conditions)
    return words


def _figure(value: object) -> str:
    """An amount in few digits, rounded up; any other value unchanged."""
    if isinstance(value, int) or not isinstance(value, str | float):
        return str(value)
    try:
        return short(str(value))
    except ValueError:
        return str(value)


def _quantity(part: dict[str, Any], figure: str) -> str:
    unit = "" if part["unit"] == "1" else f" {part['unit']}"
    return f"{short(part[figure])}{unit}"


def _error_words(error: dict[str, Any] | None) -> list[str]:
    if error and "parts" not in error:  # an algorithm's own figures, under its own names
        plain = {name: value for name, value in error.items() if not isinstance(value, dict | list)}
        lines = [
            f"  {name.replace('_', ' ')}: {_figure(figures_of)}"
            for name, figures_of in plain.items()
        ]
        return lines or ["  The report has the figures."]
    if not error:
        return ["  No forecast."]
    words = [
        f"  {part['part']}: {_quantity(part, 'mean_absolute')} on average (standard deviation "
        f"{_quantity(part, 'standard_deviation')}) per coordinate by the noise, "
        f"over {error['participants']} curators."
        for part in (*error.get("averages", ()), *error["parts"])
    ]
    words += [f"  {sentence}" for sentence in error.get("sentences", ())]
    useful = error.get("smallest_useful_group")
    if useful is not None:
        count = useful["curators"]
        share = useful["relative_error"]
        words.append(
            f"  Groups of {count} curators and more have a relative error below {share}, "
            f"if {useful['basis']}."
            if count is not None
            else f"  No group of up to 10^7 curators has a relative error below {share}."
        )
    return words
