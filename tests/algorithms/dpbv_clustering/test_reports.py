"""dpbv-clustering over curators: what they send, what it costs, and what becomes of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from algorithms.contract import Collected, Outcome, SequentialContext, Stance
from algorithms.datasets.tables import NumericTable
from algorithms.dpbv_clustering.algorithm import run
from algorithms.dpbv_clustering.federated import aggregate, encoding, preview_reports
from algorithms.dpbv_clustering.parameters import BadParameter, Parameters
from tacit.encoders.dpbv_clustering import Floats, unpack
from tacit.encoders.dpbv_clustering_reports import BitReports, CellReports
from tacit.encoders.sums import Encoding, EncodingRefused, read_encoding
from tacit.noise import DiscreteLaplace
from tacit.protocol.federation import Report
from tacit.randomness import NoiseSource, SecureRandom, SeededRandom

NAME = "dpbv-clustering"
COLUMNS = ("kwh", "evening")
CENTRES = np.array([[10.0, 10.0], [40.0, 15.0], [25.0, 40.0]])
SMALL = {"s": 200, "epsilon": "8"}
FORMS: dict[str, tuple[Stance, dict[str, Any]]] = {
    "cells": ("sound", {"method": "grid-ldp", "cells_per_axis": 8}),
    "dense cells": (
        "sound",
        {"method": "grid-ldp", "clusterer": "dbscan", "cells_per_axis": 8, "min_samples": 3},
    ),
    "points": ("sound", {"method": "laplace-points"}),
    "bits": ("sound", {"method": "dpbv-exact", **SMALL}),
    "bits in a tree": ("sound", {"method": "dpbv-exact", "clusterer": "agglomerative", **SMALL}),
    "paper": ("paper", {"s": 200}),
    "plain bits": ("paper", {"s": 200, "epsilon_bit": "inf", "t": 10, "rescale_global": True}),
}
"""Stance and parameters of every form."""


class Still:
    """Words under which no coin of grids and bits turns: half of the range, less one."""

    def words(self, count: int) -> NDArray[np.uint64]:
        return np.full(count, 0x7FFFFFFF7FFFFFFF, np.uint64)

    def bytes(self, count: int) -> bytes:
        raise AssertionError("nothing here draws bytes")


@dataclass(frozen=True)
class StillContext(SequentialContext):
    """No noise."""

    def noise(self, stage: str, block: int = 0) -> NoiseSource:
        return Still()


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Discrete Laplace noise of 0."""
    monkeypatch.setattr(
        DiscreteLaplace, "draw", lambda self, source, count: np.zeros(count, np.int64)
    )


def asked(**given: Any) -> Parameters:
    values = {"bounds": [[0, 50], [0, 50]], "k": 3, "epsilon": "4", **given}
    return Parameters.model_validate_json(json.dumps(values))


def curators(count: int = 12, rows: int = 7) -> dict[str, Floats]:
    """Rows (n, 2) of curators by name, inside the bounds; not all have as many."""
    generator = SeededRandom(1).generator
    found = {}
    for number in range(count):
        own = CENTRES[np.arange(rows + number % 3) % 3]
        found[f"c-{number:02d}"] = np.clip(generator.normal(own, 2.5), 0, 50)
    return found


def made(params: Parameters, stance: Stance) -> Encoding:
    """What a curator reads in the descriptor."""
    return read_encoding(NAME, json.loads(json.dumps(encoding(params, stance))))


def together(reports: Iterable[Report]) -> Collected:
    """As the coordinator keeps them."""
    ordered = sorted(reports, key=lambda each: (each.curator, each.record))
    return Collected(list(enumerate(ordered)), 50, COLUMNS)


def federated(
    params: Parameters, stance: Stance, rows: Mapping[str, Floats], source: NoiseSource
) -> Outcome:
    """Each curator on its own, then the coordinator."""
    sent = []
    for name, values in rows.items():
        own = made(params, stance)
        sent += own.perturbed({name: values}, source)
        assert all(own.refusal(report) is None for report in sent)
    arrived = [Report.model_validate_json(report.canonical()) for report in sent]
    return aggregate(params, stance, together(arrived), SequentialContext(seed=bytes(32)))


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize("form", FORMS)
def test_without_noise_both_forms_are_the_same_to_the_last_bit(form: str) -> None:
    stance, given = FORMS[form]
    params, rows = asked(**given), curators()
    table = NumericTable(COLUMNS, np.concatenate(list(rows.values())), None)
    central = run(table, params, stance, StillContext())
    found = federated(params, stance, rows, Still())
    assert found.result == central.result
    assert found.public_seeds == central.public_seeds
    (own,), (other,) = found.files, central.files
    lines = own.content.decode().splitlines()
    if own.name == "labels.csv":
        owners = [
            f"{name},{number:05d}"
            for name, values in rows.items()
            for number in range(1, len(values) + 1)
        ]
        assert [line.rpartition(",")[0] for line in lines[1:]] == owners
        lines = [line.rpartition(",")[2] for line in lines]
    assert lines == other.content.decode().splitlines()


@pytest.mark.parametrize("form", FORMS)
def test_a_curator_works_out_what_the_report_says_it_is_charged(form: str) -> None:
    stance, given = FORMS[form]
    params = asked(**given)
    found, report = made(params, stance), preview_reports(params, stance)
    charged, cost = report.charged, found.cost
    assert charged is not None
    assert (charged.ledger, charged.privacy_unit) == ("curators", "record")
    assert {line.scenario for line in report.verified} == {"coordinator and all other curators"}
    assert "the number of rows" not in report.public_parameters
    if stance == "paper":
        assert cost is None
        assert charged.outside_budget
        return
    assert cost is not None
    assert not charged.outside_budget
    assert Fraction(charged.epsilon or "0") == cost.epsilon
    assert params.epsilon * Fraction(9999, 10_000) < cost.epsilon <= params.epsilon
    assert report.verified[0].epsilon == charged.epsilon
    assert report.verified[0].neighbouring == "any-two-values"
    assert cost.delta == (params.delta if isinstance(found, BitReports) else 0)


def test_with_noise_the_groups_are_found_and_the_report_is_that_of_the_preview() -> None:
    params = asked(method="grid-ldp", cells_per_axis=8, epsilon="8")
    found = federated(params, "sound", curators(60, 20), SeededRandom(3))
    near = np.abs(np.array(found.result["centres"])[:, None] - CENTRES).sum(axis=2).min(axis=0)
    assert near.max() < 6
    assert found.report == preview_reports(params, "sound")
    assert found.evaluation is None


def test_every_row_gets_coins_of_its_own() -> None:
    """Own bits are 1 half of the time, others with q: 6 standard deviations, 2e-9 each."""
    params = asked(method="grid-ldp", cells_per_axis=2, epsilon="2")
    own = made(params, "sound")
    assert isinstance(own, CellReports)
    row = {"a": np.tile([[10.0, 40.0]], (20_000, 1))}  # the second of four cells
    sent = own.perturbed(row, SecureRandom())
    ones = np.mean([unpack(own.words(report), 4)[0] for report in sent], axis=0)
    expected = np.full(4, float(own.flip.probability))
    expected[1] = 0.5
    assert (np.abs(ones - expected) < 6 * np.sqrt(expected * (1 - expected) / 20_000)).all()


@pytest.mark.parametrize("form", ["points", "paper"])
def test_two_encodings_of_a_row_differ_and_the_values_are_clipped(form: str) -> None:
    stance, given = FORMS[form]
    own = made(asked(**given), stance)
    rows = {"a": np.array([[10.0, 40.0], [10.0, 40.0], [1e9, -1e9]])}
    first, second, outside = own.perturbed(rows, SecureRandom())
    assert (first.values, first.bits) != (second.values, second.bits)
    assert own.refusal(outside) is None


FORGED: list[tuple[str, dict[str, Any]]] = [
    ("bits", {"flip_threshold": 2**31 - 2**28}),
    ("bits", {"epsilon": "7.99"}),
    ("bits", {"delta": "0"}),
    ("bits", {"s": 201}),
    ("bits", {"method": "dpbv"}),
    ("bits", {"half_windows": ["25.0"]}),
    ("bits", {"rescale_to": ["50.0", "0.0"]}),
    ("bits", {"r_seed": "-1"}),
    ("paper", {"method": "dpbv-exact"}),
    ("cells", {"per_axis": 65}),
    ("cells", {"epsilon": "0"}),
    ("cells", {"records": 65_537}),
    ("cells", {"lower": ["0.0", "inf"]}),
    ("cells", {"method": "grid-core"}),
    ("points", {"epsilon": "0.000000000000000001"}),
    ("points", {"lower": ["60.0", "0.0"]}),
]


@pytest.mark.parametrize(("form", "change"), FORGED)
def test_a_document_under_which_less_is_protected_than_it_states(
    form: str, change: dict[str, Any]
) -> None:
    stance, given = FORMS[form]
    document = {**encoding(asked(**given), stance), **change}
    with pytest.raises(EncodingRefused):
        _ = read_encoding(NAME, document).cost


def test_what_is_missing_or_unknown_is_refused() -> None:
    document = encoding(asked(**FORMS["bits"][1]), "sound")
    for name in document:
        with pytest.raises(EncodingRefused):
            read_encoding(NAME, {key: value for key, value in document.items() if key != name})
    with pytest.raises(EncodingRefused):
        read_encoding("kmeans", document)


@pytest.mark.parametrize(("delta", "tight"), [("0", False), ("0.000001", True)])
def test_the_stated_figure_is_proved_and_nothing_much_below_it(delta: str, tight: bool) -> None:
    params = asked(method="dpbv-exact", s=500, epsilon="6", delta=delta, tight_k=tight, t=10)
    own = made(params, "sound")
    assert isinstance(own, BitReports)
    cost = own.cost
    assert cost is not None
    assert Fraction(59_999, 10_000) < cost.epsilon <= 6
    assert cost.delta == Fraction(delta)
    less = replace(own, stated=cost._replace(epsilon=cost.epsilon * Fraction(999, 1000)))
    with pytest.raises(EncodingRefused):
        _ = less.cost


@pytest.mark.parametrize("method", ["grid-ldp", "laplace-points", "dpbv-exact"])
def test_all_rows_of_a_curator_cost_as_many_times_one(method: str) -> None:
    more = {"s": 500, "delta": "0.000001", "t": 10} if method == "dpbv-exact" else {}
    found = made(asked(method=method, epsilon="4", **more), "sound")
    assert found.cost is not None
    assert found.other_cost is not None
    assert found.other_cost.epsilon == found.most_rows * found.cost.epsilon
    assert found.other_cost.delta == min(found.most_rows * found.cost.delta, 1)


def test_near_pairs_get_the_budget_and_a_record_pays_for_all() -> None:
    params = asked(method="dpbv-exact", privacy_unit="radius", radius=[5, 5], s=500, epsilon="4")
    cost, report = made(params, "sound").cost, preview_reports(params, "sound")
    assert cost is not None
    assert cost.epsilon > 4
    by_unit = {line.privacy_unit: line.epsilon for line in report.verified if line.delta != "0"}
    assert Fraction(39_999, 10_000) < Fraction(by_unit["radius"] or "0") <= 4
    assert Fraction(by_unit["record"] or "0") == cost.epsilon


def changed(report: Report, **changes: Any) -> Report:
    return Report.model_validate(report.model_dump() | changes)


def test_reports_that_no_curator_sends() -> None:
    for form in ("cells", "points", "bits"):
        stance, given = FORMS[form]
        own = made(asked(**given), stance)
        (good,) = own.perturbed({"a": np.array([[1.0, 2.0]])}, SecureRandom())
        assert own.refusal(good) is None
        for record in ("1", "00000", "65537", "99999", "0000a", "000001", "\u0661" * 5):
            assert own.refusal(changed(good, record=record)), record
        assert own.refusal(changed(good, round=2))
        assert own.refusal(changed(good, label=1))
        if good.bits is None:
            assert own.refusal(changed(good, values=(1,)))
            assert own.refusal(changed(good, values=(1, 10**12)))
            assert own.refusal(changed(good, values=(), bits=b"12345678"))
        else:
            assert own.refusal(changed(good, bits=good.bits + bytes(8)))
            assert own.refusal(changed(good, values=(1, 2), bits=None))
    pads = made(asked(**FORMS["bits"][1]), "sound")
    assert pads.refusal(Report(curator="a", record="00001", bits=b"\xff" * 64))


BAD: list[tuple[Stance, dict[str, Any], str]] = [
    ("sound", {"method": "grid-core"}, "method"),
    ("sound", {"columns": ["a", "b"]}, "columns"),
    ("sound", {"evaluate": True}, "evaluate"),
    ("sound", {"bounds": None}, "bounds"),
    ("paper", {"bounds": None}, "bounds"),
    ("paper", {"partition": "vertical-plain", "alice_columns": 1}, "partition"),
    ("paper", {"baselines": ["kmeans"]}, "baselines"),
    ("sound", {"privacy_unit": "radius", "radius": [1, 1]}, "privacy_unit"),
    ("sound", {"method": "laplace-points", "clusterer": "dbscan"}, "clusterer"),
]


@pytest.mark.parametrize(("stance", "given", "field"), BAD)
def test_what_no_curator_could_answer(stance: Stance, given: dict[str, Any], field: str) -> None:
    for ask in (encoding, preview_reports):
        with pytest.raises(BadParameter) as found:
            ask(asked(**given), stance)
        assert found.value.field == field
