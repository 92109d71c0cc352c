"""The check, model by model: what the table satisfies, where it is worst, what violates it.

Also the catalogue's entry of `privacy-check`, its privacy report (nothing is released) and a plot:
what each model required, and what the worst group has. Spec: trajectory-kcl, section 10.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np

from algorithms.contract import Algorithm, Context, Outcome, Picture, Stance, ValueUnknown
from algorithms.datasets.tables import Table, Texts
from algorithms.drawing import BLUE, picture
from algorithms.privacy_check import parameters as measures
from algorithms.privacy_check.parameters import (
    AlphaKAnonymity,
    Counts,
    DistinctDiversity,
    EmptyTable,
    EntropyDiversity,
    EqualDistance,
    Floats,
    Groups,
    Ints,
    KAnonymity,
    Model,
    Parameters,
    RecursiveDiversity,
    TCloseness,
    Template,
    UnknownColumn,
    ValueMissing,
    closeness,
    counted,
)
from algorithms.privacy_check.parameters import grouped as group_rows
from tacit.report.builder import NO_FIGURE, ReportBuilder
from tacit.report.model import Charge, PrivacyReport
from tacit.wire import format_exact

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN: Final = 100
SUPPRESSED: Final = "*"
_SLACK: Final = 1e-12
"""Entropies and distances are floats: a group that misses a threshold by less than this holds."""

Finding = dict[str, Any]


@dataclass(eq=False)
class Checked:
    """A table and the models to check. `beat` is called between steps."""

    table: Table
    params: Parameters
    beat: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        check_table(self.table, self.params)
        self._counts: dict[str, Counts] = {}
        self.groups = self._grouped(self.params.qid)

    def findings(self) -> list[Finding]:
        """The finding of each requested model; sensitive columns one after the other."""
        result: list[Finding] = []
        for model in self.params.models:
            self.beat()
            if isinstance(model, KAnonymity):
                result.append(self._k_anonymity(model))
            elif model.model == "confidence-bounding":
                result += [self._template(template) for template in self.params.templates]
            elif model.model == "utility":
                result.append(self._utility())
            else:
                result += [self._of_column(model, name) for name in self.params.sensitive]
        return result

    def _grouped(self, names: tuple[str, ...]) -> Groups:
        result = group_rows([self.table.column(name) for name in names], self.table.rows)
        self.beat()
        return result

    def _counted(self, name: str) -> Counts:
        if name not in self._counts:
            self._counts[name] = counted(self.groups, self.table.column(name))
            self.beat()
        return self._counts[name]

    # ---------------------------------------------------------------------------------- the models

    def _k_anonymity(self, model: KAnonymity) -> Finding:
        sizes = self.groups.sizes
        bad = None if model.k is None else sizes < model.k
        return self._finding(model.model, sizes, least=True, required=model.k, bad=bad)

    def _of_column(self, model: Model, name: str) -> Finding:
        counts = self._counted(name)
        if isinstance(model, DistinctDiversity):
            measured: Ints | Floats = measures.distinct(counts)
            bad = None if model.least is None else measured < model.least
            result = self._finding(model.model, measured, least=True, required=model.least, bad=bad)
        elif isinstance(model, EntropyDiversity):
            measured = measures.entropy_diversity(counts)
            bad = None if model.least is None else measured < float(model.least) - _SLACK
            required = _exact(model.least)
            result = self._finding(model.model, measured, least=True, required=required, bad=bad)
        elif isinstance(model, RecursiveDiversity):
            measured = measures.recursive_factor(counts, model.least)
            bad = None if model.factor is None else measured >= float(model.factor)
            required = _exact(model.factor)
            result = self._finding(model.model, measured, least=False, required=required, bad=bad)
            result["l"] = model.least
        elif isinstance(model, TCloseness):
            distance = self.params.ground_distance.get(name, EqualDistance())
            measured = closeness(counts, self.table.column(name), distance, self.beat)
            bad = None if model.t is None else measured > float(model.t) + _SLACK
            required = _exact(model.t)
            result = self._finding(model.model, measured, least=False, required=required, bad=bad)
            result["ground_distance"] = distance.kind
        else:
            assert isinstance(model, AlphaKAnonymity)
            result = self._alpha_k(model, counts, self.table.column(name))
        result["column"] = name
        return result

    def _alpha_k(self, model: AlphaKAnonymity, counts: Counts, column: Texts) -> Finding:
        listed = set(column.values if model.values is None else model.values)
        chosen = np.array([text in listed for text in column.values])[counts.values]
        shares, groups = counts.shares, counts.groups
        largest_shares = np.zeros(len(counts.sizes))
        np.maximum.at(largest_shares, groups[chosen], shares[chosen])
        over = np.zeros(len(largest_shares), bool)
        high = _above(counts.counts, counts.sizes[groups], model.alpha)
        over[groups[chosen & high]] = True
        result = self._finding(
            model.model,
            largest_shares,
            least=False,
            required=format_exact(model.alpha),
            bad=over | (counts.sizes < model.k),
        )
        result |= {"k_required": model.k, "k": int(counts.sizes.min())}
        return result

    def _template(self, template: Template) -> Finding:
        name = template.column or self.params.sensitive[0]
        column = self.table.column(name)
        groups = self._grouped(template.qid)
        place = column.values.index(template.value)
        has, sizes = measures.confidences(counted(groups, column), place)
        finding = self._finding(
            "confidence-bounding",
            has / sizes,
            least=False,
            required=format_exact(template.h),
            bad=_above(has, sizes, template.h),
            groups=groups,
            names=template.qid,
        )
        return finding | {"column": name, "template": template.model_dump(mode="json")}

    def _utility(self) -> Finding:
        cells = suppressed = generalised = 0
        losses: dict[str, float] = {}
        absent: dict[str, list[str]] = {}
        for name in self.params.qid:
            column = self.table.column(name)
            often = np.bincount(column.codes, minlength=len(column.values)).tolist()
            texts = column.values
            leaves = self.params.leaves.get(name)
            cells += self.table.rows
            suppressed += sum(n for n, text in zip(often, texts, strict=True) if text == SUPPRESSED)
            if leaves is None:
                continue
            under = {SUPPRESSED: leaves.domain} | leaves.under
            generalised += sum(
                n
                for n, text in zip(often, texts, strict=True)
                if text != SUPPRESSED and under.get(text, 1) > 1
            )
            total = sum(n * (under.get(text, 1) - 1) for n, text in zip(often, texts, strict=True))
            losses[name] = total / leaves.domain
            if unseen := sorted(set(leaves.under) - set(texts)):
                absent[name] = unseen
        result: Finding = {
            "model": "utility",
            "cells": cells,
            "suppressed_cells": suppressed,
            "discernibility": measures.discernibility(self.groups.sizes),
        }
        if losses:
            result |= {"generalised_cells": generalised, "iloss": losses}
        if absent:
            result["general_values_of_no_cell"] = absent
        if self.params.label is not None:
            counts = counted(self.groups, self.table.column(self.params.label))
            result["classification_metric"] = measures.outside_majority(counts)
        return result

    # ----------------------------------------------------------------------------------- one answer

    def _finding(
        self,
        model: str,
        measured: Ints | Floats,
        *,
        least: bool,
        required: int | str | None,
        bad: np.ndarray[Any, np.dtype[np.bool_]] | None,
        groups: Groups | None = None,
        names: tuple[str, ...] | None = None,
    ) -> Finding:
        """The value that the table satisfies (the least, or the largest, of its groups')."""
        groups = groups or self.groups
        names = self.params.qid if names is None else names
        worst = int(measured.argmin() if least else measured.argmax())
        result: Finding = {
            "model": model,
            "value": _number(measured[worst]),
            "worst_group": self._shown(groups, names, worst, measured),
            "groups": len(groups.sizes),
        }
        if required is not None and bad is not None:
            violating = np.flatnonzero(bad)
            result |= {
                "required": required,
                "satisfied": not len(violating),
                "violating_groups": len(violating),
                "violating": [
                    self._shown(groups, names, group, measured)
                    for group in violating[:SHOWN].tolist()
                ],
            }
        return result

    def _shown(
        self, groups: Groups, names: tuple[str, ...], group: int, measured: Ints | Floats
    ) -> Finding:
        row = int(groups.first[group])
        cells = {}
        for name in names:
            column = self.table.column(name)
            cells[name] = column.values[int(column.codes[row])]
        return {"cells": cells, "rows": int(groups.sizes[group]), "value": _number(measured[group])}


def check_table(table: Table, params: Parameters) -> None:
    """Check that every value in the parameters occurs in the table, in the same spelling. Raises
    EmptyTable, UnknownColumn, ValueUnknown, ValueMissing."""
    targets = tuple(template.column or params.sensitive[0] for template in params.templates)
    named_columns = {
        "/params/qid": params.qid,
        "/params/sensitive": params.sensitive,
        "/params/templates": (
            *targets,
            *(name for template in params.templates for name in template.qid),
        ),
        "/params/label": (params.label,) if params.label is not None else (),
    }
    for pointer, names in named_columns.items():
        if not set(names) <= set(table.columns):
            raise UnknownColumn(pointer=pointer)
    if not table.rows:
        raise EmptyTable(pointer="/dataset")
    for name in {*params.sensitive, *targets}:
        if any(not value.strip() for value in table.column(name).values):
            raise ValueMissing(
                f"the column {name} has empty cells, which are neither alike nor different: "
                "leave their rows out, or write what they mean",
                pointer="/params/sensitive",
                extra={"column": name},
            )
    _check_values(table, params, targets)


def _check_values(table: Table, params: Parameters, targets: tuple[str, ...]) -> None:
    """Raise ValueUnknown for a value that no row has: every table would satisfy a model of it."""
    sensitive = {value for name in params.sensitive for value in table.column(name).values}
    for place, model in enumerate(params.models):
        if isinstance(model, AlphaKAnonymity) and not set(model.values or ()) <= sensitive:
            _refuse_value(f"/params/models/{place}/values")
    for place, (template, name) in enumerate(zip(params.templates, targets, strict=True)):
        if template.value not in table.column(name).values:
            _refuse_value(f"/params/templates/{place}/value")


def _refuse_value(pointer: str) -> NoReturn:
    raise ValueUnknown(
        "a value that is named does not occur; cells are compared as they are written",
        pointer=pointer,
    )


def _above(has: Ints, of: Ints, limit: Fraction) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Whether has / of > limit, exactly."""
    if limit.denominator <= 1 << 32:
        return has * limit.denominator > limit.numerator * of
    result: np.ndarray[Any, np.dtype[np.bool_]] = (
        has.astype(object) * limit.denominator > limit.numerator * of.astype(object)
    ).astype(bool)
    return result


def _exact(value: Fraction | None) -> str | None:
    return None if value is None else format_exact(value)


def _number(value: Any) -> int | float | str:
    """A plain number; "inf" where it is infinite."""
    plain: int | float = value.item()
    return "inf" if plain == float("inf") else plain


NAME: Final = "privacy-check"

LIMITS: Final = (
    "Partition models bound linkage under fixed knowledge of an attacker only.",
    "Composition of several tables, minimality, deFinetti and background knowledge attacks are out "
    "of scope.",
    "Satisfaction is a property of one table, not of the method that made it.",
)


def privacy_report(params: Parameters, *, attached: bool) -> PrivacyReport:
    """The same for every table. `attached`: there is an answer for the owner."""
    builder = ReportBuilder(NAME, "tacit algorithms.privacy_check", "sound", None, None)
    return builder.report(
        "check of a table",
        {"models": [model.model for model in params.models]},
        verified=(
            builder.line(
                None,
                "anyone who reads the published part",
                NO_FIGURE,
                reason="nothing about the table is released: the answer is computed from raw or "
                "candidate rows and stays with their owner",
            ),
        ),
        charged=Charge(ledger="none"),
        method="none: nothing is released",
        public_parameters=("every parameter of the job",),
        not_protected=("The answer itself: it names groups and values of the table.",),
        voided_by=("publishing the answer",),
        caveats=LIMITS,
        evaluation_attached=attached,
    )


# Spec: jobs, section "Result". Visible only to the operator; drawn where the evaluation is read.

_INCHES: Final = (5.4, 3.2)
_FAILED: Final = "#c8553d"


def evaluation_pictures(
    evaluation: Mapping[str, Any], _summary: Mapping[str, Any]
) -> tuple[Picture, ...]:
    """One bar for each model with a required number; none without such a model."""
    findings_with_bounds = [
        finding
        for finding in evaluation.get("findings", ())
        if _plotted_number(finding.get("required"))
    ]
    if not findings_with_bounds:
        return ()
    return (
        picture("privacy-check", "findings", partial(_findings, findings_with_bounds), _INCHES),
    )


def _findings(findings: Sequence[Mapping[str, Any]], axes: Axes) -> None:
    axes.set_title("The worst group over what each model asks (private)")
    names = [f"{place + 1} {finding['model']}" for place, finding in enumerate(findings)]
    shares = [
        (_plotted_number(finding["value"]) or 0.0) / (_plotted_number(finding["required"]) or 1)
        for finding in findings
    ]
    colours = [BLUE if finding["satisfied"] else _FAILED for finding in findings]
    axes.barh(names, shares, color=colours)
    axes.axvline(1, color="#444444", linewidth=1)
    axes.invert_yaxis()
    axes.set_xlabel("value / asked; red: not satisfied")


def _plotted_number(value: object) -> float | None:
    """The number of a figure, which can be a fraction in a text; None for any other text, and
    for 0."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    return float(Fraction(value)) or None


# The catalogue's entry.


def run(dataset: Table, params: Parameters, stance: Stance, context: Context) -> Outcome:  # noqa: ARG001 - one stance
    """Check a table; the answer is the evaluation, for the owner only. Raises EmptyTable,
    UnknownColumn, ValueUnknown, BadDistance."""
    checked = Checked(dataset, params, lambda: context.progress(0.5, "checking"))
    findings = checked.findings()
    context.progress(1.0, "done")
    return Outcome(
        result={"checked": [model.model for model in params.models], "limits": list(LIMITS)},
        report=privacy_report(params, attached=True),
        evaluation={"rows": dataset.rows, "findings": findings, "limits": list(LIMITS)},
    )


def preview(params: Parameters, stance: Stance) -> PrivacyReport:  # noqa: ARG001 - one stance
    """The report of a run, before any data."""
    return privacy_report(params, attached=False)


def check(dataset: Table, params: Parameters, stance: Stance) -> None:  # noqa: ARG001
    """Refuse a table that lacks a column or has no rows."""
    check_table(dataset, params)


ALGORITHM: Final = Algorithm(
    name=NAME,
    title="Check of a table against partition models",
    source="Chen's thesis, chapter 2; Lu's thesis, chapter 2 (t-closeness)",
    purpose="Say which k-anonymity, l-diversity, confidence, (alpha,k)-anonymity and t-closeness a "
    "table satisfies, and where it is worst. It anonymises nothing, and its answer stays with the "
    "owner.",
    dataset_kind="table",
    params=Parameters,
    stances=("sound",),
    run=run,
    preview=preview,
    result={
        "checked": "the models that were requested; their findings are in the evaluation",
        "limits": "what satisfying a partition model does not mean",
    },
    complexity="linear in the rows but for sorting whole numbers; a matrix of distances: one "
    "linear programme for each group",
    check=check,
    evaluation_pictures=evaluation_pictures,
)
