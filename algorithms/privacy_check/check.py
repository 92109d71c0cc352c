"""One model after the other: what the table satisfies, where it is worst, what violates it.

Spec: trajectory-kcl, section 10.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, NoReturn

import numpy as np

from algorithms.datasets.table import Table
from algorithms.datasets.texts import Texts
from algorithms.privacy_check import measures
from algorithms.privacy_check.closeness import closeness
from algorithms.privacy_check.groups import Counts, Floats, Groups, Ints, counted
from algorithms.privacy_check.groups import grouped as group_rows
from algorithms.privacy_check.parameters import (
    AlphaKAnonymity,
    DistinctDiversity,
    EntropyDiversity,
    EqualDistance,
    KAnonymity,
    Model,
    Parameters,
    RecursiveDiversity,
    TCloseness,
    Template,
)
from algorithms.privacy_check.problems import EmptyTable, UnknownColumn, ValueMissing
from algorithms.problems import ValueUnknown
from tacit.wire import format_exact

SHOWN: Final = 100
SUPPRESSED: Final = "*"
_SLACK: Final = 1e-12
"""Entropies and distances are floats: a group that misses a threshold by less than this holds."""

Finding = dict[str, Any]


@dataclass(eq=False)
class Checked:
    """A table and what is asked of it. `beat` is called between steps."""

    table: Table
    params: Parameters
    beat: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        check_table(self.table, self.params)
        self._counts: dict[str, Counts] = {}
        self.groups = self._grouped(self.params.qid)

    def findings(self) -> list[Finding]:
        """What each model asked for says; sensitive columns one after the other."""
        found: list[Finding] = []
        for model in self.params.models:
            self.beat()
            if isinstance(model, KAnonymity):
                found.append(self._k_anonymity(model))
            elif model.model == "confidence-bounding":
                found += [self._template(each) for each in self.params.templates]
            elif model.model == "utility":
                found.append(self._utility())
            else:
                found += [self._of_column(model, name) for name in self.params.sensitive]
        return found

    def _grouped(self, names: tuple[str, ...]) -> Groups:
        found = group_rows([self.table.column(name) for name in names], self.table.rows)
        self.beat()
        return found

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
            each: Ints | Floats = measures.distinct(counts)
            bad = None if model.least is None else each < model.least
            found = self._finding(model.model, each, least=True, required=model.least, bad=bad)
        elif isinstance(model, EntropyDiversity):
            each = measures.entropy_diversity(counts)
            bad = None if model.least is None else each < float(model.least) - _SLACK
            required = _exact(model.least)
            found = self._finding(model.model, each, least=True, required=required, bad=bad)
        elif isinstance(model, RecursiveDiversity):
            each = measures.recursive_factor(counts, model.least)
            bad = None if model.factor is None else each >= float(model.factor)
            required = _exact(model.factor)
            found = self._finding(model.model, each, least=False, required=required, bad=bad)
            found["l"] = model.least
        elif isinstance(model, TCloseness):
            distance = self.params.ground_distance.get(name, EqualDistance())
            each = closeness(counts, self.table.column(name), distance, self.beat)
            bad = None if model.t is None else each > float(model.t) + _SLACK
            required = _exact(model.t)
            found = self._finding(model.model, each, least=False, required=required, bad=bad)
            found["ground_distance"] = distance.kind
        else:
            assert isinstance(model, AlphaKAnonymity)
            found = self._alpha_k(model, counts, self.table.column(name))
        found["column"] = name
        return found

    def _alpha_k(self, model: AlphaKAnonymity, counts: Counts, column: Texts) -> Finding:
        listed = set(column.values if model.values is None else model.values)
        chosen = np.array([text in listed for text in column.values])[counts.values]
        shares, groups = counts.shares, counts.groups
        each = np.zeros(len(counts.sizes))
        np.maximum.at(each, groups[chosen], shares[chosen])
        over = np.zeros(len(each), bool)
        high = _above(counts.counts, counts.sizes[groups], model.alpha)
        over[groups[chosen & high]] = True
        found = self._finding(
            model.model,
            each,
            least=False,
            required=format_exact(model.alpha),
            bad=over | (counts.sizes < model.k),
        )
        found |= {"k_required": model.k, "k": int(counts.sizes.min())}
        return found

    def _template(self, template: Template) -> Finding:
        name = template.column or self.params.sensitive[0]
        column = self.table.column(name)
        groups = self._grouped(template.qid)
        place = column.values.index(template.value)
        has, sizes = measures.confidences(counted(groups, column), place)
        found = self._finding(
            "confidence-bounding",
            has / sizes,
            least=False,
            required=format_exact(template.h),
            bad=_above(has, sizes, template.h),
            groups=groups,
            names=template.qid,
        )
        return found | {"column": name, "template": template.model_dump(mode="json")}

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
        found: Finding = {
            "model": "utility",
            "cells": cells,
            "suppressed_cells": suppressed,
            "discernibility": measures.discernibility(self.groups.sizes),
        }
        if losses:
            found |= {"generalised_cells": generalised, "iloss": losses}
        if absent:
            found["general_values_of_no_cell"] = absent
        if self.params.label is not None:
            counts = counted(self.groups, self.table.column(self.params.label))
            found["classification_metric"] = measures.outside_majority(counts)
        return found

    # ----------------------------------------------------------------------------------- one answer

    def _finding(
        self,
        model: str,
        each: Ints | Floats,
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
        worst = int(each.argmin() if least else each.argmax())
        found: Finding = {
            "model": model,
            "value": _number(each[worst]),
            "worst_group": self._shown(groups, names, worst, each),
            "groups": len(groups.sizes),
        }
        if required is not None and bad is not None:
            violating = np.flatnonzero(bad)
            found |= {
                "required": required,
                "satisfied": not len(violating),
                "violating_groups": len(violating),
                "violating": [
                    self._shown(groups, names, group, each) for group in violating[:SHOWN].tolist()
                ],
            }
        return found

    def _shown(
        self, groups: Groups, names: tuple[str, ...], group: int, each: Ints | Floats
    ) -> Finding:
        row = int(groups.first[group])
        cells = {}
        for name in names:
            column = self.table.column(name)
            cells[name] = column.values[int(column.codes[row])]
        return {"cells": cells, "rows": int(groups.sizes[group]), "value": _number(each[group])}


def check_table(table: Table, params: Parameters) -> None:
    """Raises EmptyTable, UnknownColumn, ValueUnknown, ValueMissing: whatever the parameters name
    occurs in the table, as it is written there."""
    targets = tuple(each.column or params.sensitive[0] for each in params.templates)
    wanted = {
        "/params/qid": params.qid,
        "/params/sensitive": params.sensitive,
        "/params/templates": (*targets, *(name for each in params.templates for name in each.qid)),
        "/params/label": (params.label,) if params.label is not None else (),
    }
    for pointer, names in wanted.items():
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
    """Raises ValueUnknown: a value that no row has would be found nowhere, and satisfy anything."""
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
    found: np.ndarray[Any, np.dtype[np.bool_]] = (
        has.astype(object) * limit.denominator > limit.numerator * of.astype(object)
    ).astype(bool)
    return found


def _exact(value: Fraction | None) -> str | None:
    return None if value is None else format_exact(value)


def _number(value: Any) -> int | float | str:
    """A plain number; "inf" where it is infinite."""
    plain: int | float = value.item()
    return "inf" if plain == float("inf") else plain
