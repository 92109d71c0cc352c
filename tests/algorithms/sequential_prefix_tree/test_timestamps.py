"""Nodes that are places in intervals of time. Spec: sequential-prefix-tree, section 10."""

from __future__ import annotations

import io
import itertools
import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.contract import BadUniverse, Invalid, SequentialContext
from algorithms.sequential_prefix_tree import ALGORITHM
from algorithms.sequential_prefix_tree import algorithm as entry
from algorithms.sequential_prefix_tree.algorithm import check, planned_questions, preview, run
from algorithms.sequential_prefix_tree.counts import grow
from algorithms.sequential_prefix_tree.parameters import (
    BadTaxonomy,
    BadThreshold,
    Parameters,
    TreeTooLarge,
    resolved,
)
from algorithms.sequential_prefix_tree.report import prefix_tree_report
from tacit.encoders.counts import Level
from tacit.encoders.sequential_prefix_tree_counts import COUNTER, Below, Layout
from tacit.records.item_files import read_text_sequences
from tacit.records.items import Sequences
from tacit.records.text_files import MalformedRow, UnknownItem
from tests.algorithms.outcomes import names_drawn
from tests.algorithms.sequential_prefix_tree.examples import NoNoise, by_prefix, released, settings
from tests.property_examples import examples

TRIPS = b"""A@100 B@3700
A@200 B@4000
A@3000 B@3599
A@100 B@7300
B@3700 A@7200
B@3600 A@7199.5
A@50 B@3601 A@7200
B@5000
"""
"""The worked example: two places, three hours."""
HOURS = {"grain_s": 3600, "universe": 3}
TIMES = {"grain_s": 60, "universe": 1_000}
A0, B0, A1, B1, A2, B2 = range(1, 7)
ROWS = ((A0, A1, A2), (B0, B1, B2))


def read(text: bytes) -> Sequences:
    return read_text_sequences(io.BytesIO(text))


def params(**changes: Any) -> Parameters:
    values = {"universe": ["A", "B"], "timestamps": HOURS, "epsilon": "1", "height": 3}
    return Parameters.model_validate_json(json.dumps(values | changes))


def over_hours(text: bytes = TRIPS) -> Sequences:
    return read(text).over(resolved(params(), "sound")[0])


def test_the_worked_example() -> None:
    """Section 10: the tree and the release by hand."""
    assert resolved(params(), "sound")[0] == (
        *("A@0+3600", "B@0+3600", "A@3600+3600", "B@3600+3600", "A@7200+3600", "B@7200+3600"),
    )
    layout = Layout(6, None, 3)
    release = released(over_hours(), settings(layout=layout, height=3))
    assert by_prefix(release.tree) == {
        (A0,): 5,
        (B1,): 3,
        (A0, B0): 1,
        (A0, B1): 3,
        (A0, B2): 1,
        (B1, A1): 1,
        (B1, A2): 1,
        (A0, B1, A2): 1,
    }
    above_two = settings(layout=layout, height=3, item_test=NoNoise(3))
    release = released(over_hours(), above_two)
    assert by_prefix(release.tree, release.copies) == {(A0,): 2, (B1,): 3, (A0, B1): 3}
    candidates = [cells_of(layout, path) for path in ((), (A0,), (B1,), (A0, B1), (A0, B2))]
    assert [len(cells) for cells in candidates] == [6, 6, 4, 4, 2]


def below(layout: Layout, path: tuple[int, ...], pairs: np.ndarray[Any, Any] | None) -> Below:
    """The question below one prefix (items from 1) of a tree that has no other."""
    zero = np.zeros(1, np.int64)
    levels = tuple(Level(zero, np.array([item - 1])) for item in path)
    return Below(layout, levels, zero, pairs)


def cells_of(layout: Layout, path: tuple[int, ...]) -> list[int]:
    """The items that are asked below a prefix, over all groups."""
    asked = below(layout, path, np.arange(layout.count))
    prefixes, items = asked.named(np.arange(int(asked.sizes.sum())))
    assert not prefixes.any()
    return sorted(items.tolist())


LAYOUTS = st.tuples(st.integers(1, 4), st.integers(1, 4), st.sampled_from([None, 1, 2, 3]))


@given(LAYOUTS, st.data())
@examples(60)
def test_candidates_are_all_places_in_the_same_interval_and_later_ones(
    shape: tuple[int, int, int | None], data: st.DataObject
) -> None:
    """By enumeration: each once, groups before items, and none of an earlier interval."""
    places, times, fan_out = shape
    given_ = {"universe": places, "timestamps": {"grain_s": 5, "universe": times}}
    layout = resolved(params(**given_, fan_out=fan_out, split="1/2"), "sound")[1].layout
    item = data.draw(st.integers(0, places * times - 1))
    expected = [other for other in range(places * times) if other // places >= item // places]
    assert cells_of(layout, (item + 1,)) == expected
    assert cells_of(layout, ()) == list(range(places * times))
    if fan_out is not None:
        groups = below(layout, (item + 1,), None)
        pairs = groups.pairs_of(np.arange(int(groups.sizes.sum())))
        width = -(-places // min(fan_out, places))
        assert layout.count == width * times
        first = item // places * width
        assert pairs.tolist() == list(range(first, layout.count))


def test_one_sequence_more_or_less_changes_one_count_of_each_question() -> None:
    """Brute force: every sequence of up to three readings, in order or not, every prefix."""
    layouts = [Layout(4, None, 2), Layout(4, np.array([0, 0, 1, 1]), 2), Layout(4, np.arange(4), 2)]
    sequences = [
        list(items) for length in range(4) for items in itertools.product(range(4), repeat=length)
    ]
    for layout in layouts:
        for path in ((), *itertools.product(range(1, 5), repeat=1)):
            both = [below(layout, path, np.arange(layout.count))]
            both += [below(layout, path, None)] * (layout.groups is not None)
            for asked in both:
                lists = Sequences(tuple("wxyz"), *flat(sequences)).lists
                records, cells = COUNTER.of(lists, asked)
                added = np.bincount(records, minlength=len(sequences))
                assert added.max() == 1
                expected = [
                    len(items) > len(path)
                    and tuple(item + 1 for item in items[: len(path)]) == path
                    and (not path or items[1] // 2 >= items[0] // 2)
                    for items in sequences
                ]
                assert added.tolist() == [int(counts) for counts in expected]
                assert (cells >= 0).all()
                assert (cells < asked.sizes.sum()).all()


def flat(lists: list[list[int]]) -> tuple[Any, Any]:
    starts = np.concatenate(([0], np.cumsum([len(items) for items in lists]))).astype(np.int64)
    return np.array([item for items in lists for item in items], np.int32), starts


def test_a_sequence_of_any_neighbour_changes_the_tree_by_one_along_its_path() -> None:
    """All neighbours of the worked example by one sequence of up to two readings, true counts."""
    chosen = settings(layout=Layout(6, None, 3), height=3)
    before = by_prefix(released(over_hours(), chosen).tree)
    for items in itertools.chain.from_iterable(
        itertools.product(range(1, 7), repeat=length) for length in (1, 2)
    ):
        if [(item - 1) // 2 for item in items] != sorted((item - 1) // 2 for item in items):
            continue
        names = resolved(params(), "sound")[0]
        line = " ".join(names[item - 1] for item in items).encode() + b"\n"
        after = by_prefix(released(over_hours(TRIPS + line), chosen).tree)
        changed = {path for path in {*before, *after} if before.get(path) != after.get(path)}
        assert changed == {items[:length] for length in range(1, len(items) + 1)}
        assert all(after[path] - before.get(path, 0) == 1 for path in changed)


@pytest.mark.parametrize(
    ("row", "column", "line"),
    [
        (9, 2, "A@7200 B@3600"),
        (9, 3, "A@0 B@3600 A@3599.999999999"),
    ],
)
def test_a_time_that_falls_is_refused(row: int, column: int, line: str) -> None:
    with pytest.raises(MalformedRow) as falls:
        check(read(TRIPS + line.encode() + b"\n"), params(), "sound")
    assert (falls.value.row, falls.value.column) == (row, column)


@pytest.mark.parametrize(
    "item",
    [
        *("A@-1", "A@-0.5", "A@10800", "A@NaN", "A@inf", "A@1e3", "A@", "A", "@5", "C@5", "A@@5"),
        *(
            "A@5s",
            "A@0+3601",
            "A@1+3600",
            "A@0x1",
            "A@99999999999999999999",
            "A@٣",
            "A@5.",
        ),
    ],
)
def test_what_is_in_no_interval_is_refused_by_its_place(item: str) -> None:
    with pytest.raises(UnknownItem) as unknown:
        run(read(TRIPS + f"A@0 {item}\n".encode()), params(), "sound", SequentialContext())
    assert (unknown.value.row, unknown.value.column) == (9, 2)
    assert item not in str(unknown.value)


def test_the_ends_of_an_interval() -> None:
    """From its start, before its end; within an interval the order of readings says nothing."""
    names = resolved(params(timestamps={**HOURS, "start_s": -3600}), "sound")[0]
    ends = read(b"A@-3600 A@-1 A@-0.000000001 A@0 A@3599.9 A@3600 A@7199\n").over(names)
    assert ends.items.tolist() == [0, 0, 0, 2, 2, 4, 4]
    check(read(b"A@3599 B@0 A@1800\n\nA@5\nA@5\n"), params(), "sound")
    one = params(timestamps={"grain_s": 10**12, "universe": 1})
    assert read(TRIPS).over(resolved(one, "sound")[0]).items.max() == 1
    plain = resolved(params(timestamps=None), "sound")[1].item_test
    assert resolved(one, "sound")[1].item_test.threshold == plain.threshold


def test_places_may_have_any_name() -> None:
    odd = ("a@b", "x@1", "$+3", "@")
    names = resolved(params(universe=odd), "sound")[0]
    data = Sequences.of(("a@b@0", "x@1@3600", "$+3@7201.5", "@@9"), [["a@b@0", "x@1@3600"]])
    assert data.over(names).items.tolist() == [0, 5]
    assert len(set(names)) == 12


@pytest.mark.parametrize(
    ("changes", "problem", "pointer"),
    [
        ({"timestamps": {"grain_s": 1, "universe": 500_001}}, BadUniverse, "timestamps/universe"),
        ({"time_bins": 2}, BadUniverse, "time_bins"),
        ({"taxonomy": ["x"]}, BadTaxonomy, "taxonomy"),
        ({"taxonomy": {"A": "x"}}, BadTaxonomy, "taxonomy"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], problem: type[Invalid], pointer: str) -> None:
    for stance in ("sound", "paper"):
        with pytest.raises(problem) as wrong:
            preview(params(**changes), stance)  # type: ignore[arg-type]
        assert wrong.value.pointer == f"/params/{pointer}"


@pytest.mark.parametrize(
    "timestamps",
    [{"grain_s": 0, "universe": 1}, {"grain_s": 1, "universe": 0}, {"grain_s": 1.5, "universe": 2}],
)
def test_intervals_have_a_length_and_a_number(timestamps: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="timestamps"):
        params(timestamps=timestamps)


def test_the_forecast_is_made_before_any_noise() -> None:
    """Candidates, and the nodes that noise alone makes; too many are refused by the preview."""
    many = {"universe": 68, "timestamps": {"grain_s": 3600, "universe": 24}, "height": 12}
    error = preview(params(**many), "sound").error
    assert error is not None
    assert error["candidates_of_the_first_level"] == error["items_below_a_node_at_most"] == 1_632
    assert float(error["nodes_expected_without_data"]) < 2
    with pytest.raises(BadThreshold, match="empty children"):
        preview(params(**many), "paper")
    with pytest.raises(TreeTooLarge):
        preview(params(**many, theta_item="0"), "sound")
    with pytest.raises(TreeTooLarge):  # more than a float holds
        preview(params(universe=1_000, timestamps=TIMES, theta_item="0", height=64), "sound")
    hybrid = prefix_tree_report(params(**many, fan_out=17), "sound").error
    assert hybrid is not None
    assert hybrid["candidates_of_the_first_level"] == 4 * 24


def test_nodes_expected_without_data() -> None:
    """The mean over 400 empty databases, against the forecast: within four standard errors."""
    asked = params(
        universe=2, timestamps={"grain_s": 1, "universe": 3}, theta_item="1", split=None, height=3
    )
    chosen = resolved(asked, "sound")[1]
    nobody = Sequences(resolved(asked, "sound")[0], np.zeros(0, np.int32), np.zeros(1, np.int64))
    sizes = np.zeros((400, 3))
    for seed, row in enumerate(sizes):
        levels = grow(nobody, chosen, SequentialContext(test_seed=seed)).tree.levels
        row[: len(levels)] = [level.size for level in levels]
    error = sizes.std(axis=0) / 20
    assert (np.abs(sizes.mean(axis=0) - chosen.false_nodes) < 4 * error).all()
    assert chosen.false_nodes[2] > 3 * error[2]


def test_a_forecast_over_curators_counts_paths_that_do_not_go_back() -> None:
    questions = planned_questions(params(), Fraction(1))
    assert [question.most for question in questions] == [6, 6 * 6, 6 * 4 * 6]


def test_the_picture_of_visits() -> None:
    """Of more places and intervals than are shown: none is lost but by place."""
    asked = params(universe=40, timestamps={"grain_s": 7, "universe": 200}, epsilon="100", height=1)
    lines = b"".join(b"%d@%d\n" % (place, 7 * place) for place in range(1, 41)) * 30
    outcome = run(read(lines), asked, "sound", SequentialContext(bytes(32)))
    shown = outcome.plots[2]
    assert names_drawn("sequential-prefix-tree", [shown]) == ["visits"]
    visits = np.array(shown.values["visits"])
    assert (visits.shape, visits.sum(), shown.values["seconds"]) == ((25, 67), 25 * 30, 21)


@pytest.mark.parametrize("stance", ["sound", "paper"])
@pytest.mark.parametrize("changes", [{}, {"taxonomy": {"A": "x", "B": "x"}, "split": "1/2"}])
def test_a_release_can_be_read_again(stance: Any, changes: dict[str, Any]) -> None:
    """Its items are intervals, which the same parameters take as they are."""
    asked = params(epsilon="60", evaluate=True, expanded=True, **changes)
    data = read(TRIPS * 60)
    outcome = run(data, asked, stance, SequentialContext(bytes(32)))
    assert [plot.name for plot in outcome.plots] == ["levels", "consistency", "visits"]
    files = {file.name: file.content for file in outcome.files}
    again = read(files["synthetic.txt"])
    check(again, asked, stance)
    visits = again.over(resolved(asked, stance)[0]).items
    shown = outcome.plots[2].values
    assert shown["places"] == ["A", "B"]
    assert shown["visits"] == [[int((visits == item - 1).sum()) for item in row] for row in ROWS]
    rows = set(files["synthetic.txt"].decode().splitlines())
    assert "A@0+3600 B@3600+3600" in rows
    assert again.count == outcome.result["sequences"] == pytest.approx(480, abs=12)
    assert outcome.evaluation is not None
    assert max(outcome.evaluation["relative_error"]) < 0.1
    assert outcome.report.mechanism.parameters["time_bins"] == 3  # type: ignore[union-attr]
    assert ALGORITHM.rounds is entry.ROUNDS
