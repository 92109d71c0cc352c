"""A privacy report as a page for people."""

from __future__ import annotations

from typing import Any, Final

from tacit.report.figures import short
from tacit.report.model import Charge, PrivacyReport, VerifiedStatement

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
    page += ["", "How far off the result will be", *_error_words(report.error)]
    for title, lines in (
        ("Assumptions", report.assumptions),
        ("Caveats", report.caveats),
        ("What would void this", report.voided_by),
    ):
        if lines:
            page += ["", title, *(f"  - {line}" for line in lines)]
    return "\n".join(page) + "\n"


def _cost_words(charged: Charge) -> str:
    whose = "The dataset's ledger" if charged.ledger == "dataset" else "The ledger of curators"
    if charged.outside_budget:
        return f"  {whose} is charged no figure: this is a release outside the budget."
    unit = f" per {charged.privacy_unit}" if charged.ledger == "dataset" else ""
    epsilon, delta = _figure(charged.epsilon), _figure(charged.delta)
    return f"  {whose} is charged epsilon {epsilon}, delta {delta}{unit}."


def _words(line: VerifiedStatement) -> list[str]:
    who = f"  ({line.key}) Against {line.description}" if line.description else f"  {line.scenario}"
    if line.trust_model:
        who += f" [{line.trust_model}]"
    if line.epsilon is None:
        return [f"{who}: no statement.", *([f"      {line.reason}."] if line.reason else [])]
    if line.model == "none":
        words = [f"{who}: nothing holds."]
    elif line.delta == "0":
        words = [f"{who}: epsilon {_figure(line.epsilon)}, delta 0."]
    else:
        words = [
            f"{who}: epsilon {_figure(line.epsilon)} with delta {_figure(line.delta)}. (Delta is "
            "the chance that the bound epsilon says nothing; near 1 that is no protection.)"
        ]
    if line.reason:
        words.append(f"      Why: {line.reason}.")
    words.extend(f"      If: {condition}." for condition in line.conditions)
    return words


def _figure(value: object) -> str:
    """An amount in few digits, rounded up; whatever is none as it is."""
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
        told = [f"  {name.replace('_', ' ')}: {_figure(each)}" for name, each in plain.items()]
        return told or ["  The report has the figures."]
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
