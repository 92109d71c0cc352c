"""Partition models: Tables 2.1 to 2.4 of Chen's thesis, Tables 2.2 to 2.4 of Lu's.

Spec: trajectory-kcl, section 10.2. The sources print few numbers; all others are recomputed, and
a row says where the printed one is a slip.
"""

from __future__ import annotations

import json
from typing import Any, Final

from algorithms.contract import SequentialContext
from algorithms.datasets.tables import Table
from algorithms.privacy_check.algorithm import Checked
from algorithms.privacy_check.algorithm import run as run_check
from algorithms.privacy_check.parameters import (
    Parameters,
    closeness,
    counted,
    entropy_diversity,
    grouped,
)
from reproduction.experiment import Experiment, Outcome, Row, Run, Value
from reproduction.privacy_check_data import (
    FAMILIES,
    TABLE_21,
    TABLE_22,
    TABLE_23,
    TABLE_24,
    four_anonymous,
    similar,
    three_diverse,
)

_CLOSE: Final = 5e-5
_JOB: Final = ("Job", "Sex", "Age")
_NAMES: Final = (
    ("k", "k-anonymity"),
    ("distinct l", "distinct-l-diversity"),
    ("entropy l", "entropy-l-diversity"),
    ("recursive l = 2 needs c above", "recursive-cl-diversity"),
    ("max confidence of HIV", "confidence-bounding"),
    ("t (equal)", "t-closeness"),
    ("discernibility", "utility"),
)
_EXPECTED: Final[dict[str, tuple[Value, ...]]] = {
    "2.1": (1, 1, 1.0, "inf", 1.0, 0.7143, 11),
    "2.2": (3, 2, 1.7548, 3.0, 0.75, 0.3810, 25),
    "2.3": (2, 1, 1.0, "inf", 1.0, 0.4286, 17),
    "2.4": (3, 2, 1.7548, 3.0, 0.75, 0.3810, 25),
}
_PRINTED: Final = {("2.2", 0), ("2.3", 0), ("2.1", 0), ("2.2", 4), ("2.1", 4)}
_WITHIN: Final[dict[str, tuple[float, tuple[float, ...], tuple[float, ...]]]] = {
    "1/4": (1 / 4, (0.4444, 0.2778, 0.2778), (0.2222, 0.2778, 0.1667)),
    "1/3": (1 / 3, (0.4444, 0.2963, 0.2963), (0.2593, 0.2963, 0.1852)),
    "1/2": (1 / 2, (0.4444, 0.3333, 0.3333), (0.3333, 0.3333, 0.2222)),
    "1": (1.0, (0.4444, 0.4444, 0.4444), (0.5556, 0.4444, 0.3333)),
}


def _findings(table: Table, qid: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    asked = {
        "qid": qid,
        "sensitive": ["Disease"],
        "models": [{"model": name} for _, name in _NAMES],
        "templates": [{"qid": qid, "value": "HIV", "h": "0.1"}],
    }
    params = Parameters.model_validate_json(json.dumps(asked))
    outcome = run_check(table, params, "sound", SequentialContext())
    assert outcome.evaluation is not None
    return {each["model"]: each for each in outcome.evaluation["findings"]}


def _rows(label: str, expected: Value, measured: Value, printed: bool) -> Row:
    """A row that holds within 5e-5, absolutely: expected figures have four decimals."""
    tolerance = _CLOSE
    if isinstance(expected, float) and expected:
        tolerance /= abs(expected)
    return Row(label, expected, "printed" if printed else "recomputed", measured, tolerance)


def chen_tables(run: Run) -> Outcome:  # noqa: ARG001 - nothing is drawn
    """What the raw table and its three releases satisfy."""
    rows = []
    for name, table in (("2.1", TABLE_21), ("2.2", TABLE_22), ("2.3", TABLE_23), ("2.4", TABLE_24)):
        qid = ("BID",) if name == "2.4" else _JOB
        found = _findings(table, qid)
        for place, ((label, model), expected) in enumerate(
            zip(_NAMES, _EXPECTED[name], strict=True)
        ):
            value = found[model].get("value", found[model].get("discernibility"))
            row = _rows(f"Table {name}: {label}", expected, value, (name, place) in _PRINTED)
            rows.append(row)
        if name == "2.2":
            broken = not found["confidence-bounding"]["satisfied"]
            rows.append(Row("<QID -> HIV, 10 %> on Table 2.2 is violated", True, "trend", broken))
    params = Parameters(qid=_JOB, sensitive=("Disease",))
    groups = Checked(TABLE_22, params).groups
    each = entropy_diversity(counted(groups, TABLE_22.column("Disease"))).tolist()
    rows += [
        _rows("Table 2.2: entropy l of the first group (printed 1.9)", 1.8899, max(each), False),
        _rows("of the second (printed 1.8, rounded up)", 1.7548, min(each), False),
    ]
    notes = ("Entropy 1.8-diversity, as printed, does not hold: 1.7548 rounds up to 1.8.",)
    return Outcome(tuple(rows), (), (), notes)


def lu_tables(run: Run) -> Outcome:  # noqa: ARG001 - nothing is drawn
    """4-anonymity, 3-diversity and the closeness that depends on the ground distance."""
    rows = []
    for name, table, expected in (
        ("2.2b", four_anonymous(), (4, 1, 1.0, 0.5)),
        ("2.3b", three_diverse(), (4, 3, 2.8284, 0.0)),
    ):
        found = _findings(table, ("block",))
        models = ("k-anonymity", "distinct-l-diversity", "entropy-l-diversity", "t-closeness")
        for model, value in zip(models, expected, strict=True):
            printed = (name, model) in {
                ("2.2b", "k-anonymity"),
                ("2.3b", "k-anonymity"),
                ("2.3b", "distinct-l-diversity"),
            }
            rows.append(_rows(f"Table {name}: {model}", value, found[model]["value"], printed))
    for label, (within, *expected_each) in _WITHIN.items():
        for form, values in zip("ab", expected_each, strict=True):
            table = similar(form)
            column = table.column("Disease")
            counts = counted(grouped([table.column("block")], table.rows), column)
            found_each = closeness(counts, column, FAMILIES["tree"](within)).tolist()
            rows += [
                _rows(f"Table 2.4{form}, within {label}: block {place + 1}", value, own, False)
                for place, (value, own) in enumerate(zip(values, found_each, strict=True))
            ]
            if form == "b" and label == "1/4":
                claim = "Table 2.4b is 0.278-close, within 1/4"
                rows.append(Row(claim, 5 / 18, "printed", max(found_each), 1e-9))
    notes = ("0.278 holds only where diseases of one family are 1/4 apart, which is not said.",)
    return Outcome(tuple(rows), (), (), notes)


EXPERIMENTS: Final = (
    Experiment(
        "chen-table-2.1",
        "Chen, chapter 2, Tables 2.1 to 2.4",
        "what the tables satisfy",
        1,
        chen_tables,
    ),
    Experiment(
        "table-2.2",
        "Lu, chapter 2, Tables 2.2 to 2.4",
        "anonymity, diversity, closeness",
        1,
        lu_tables,
    ),
)
