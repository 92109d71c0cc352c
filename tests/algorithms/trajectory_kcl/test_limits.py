"""Long paths: what cannot be enumerated is counted and refused, before it is enumerated."""

from __future__ import annotations

import io
import json
from itertools import combinations
from typing import Any

import pytest

from algorithms import catalogue
from algorithms.contract import SequentialContext, Stance
from algorithms.datasets.trajectories import Trajectories, read_ndjson
from algorithms.trajectory_kcl.parameters import Model, Parameters, TooManySequences

KCL = catalogue.find("trajectory-kcl")


def lines(records: int, pairs: int) -> str:
    path = [["p", step] for step in range(pairs)]
    return (json.dumps({"path": path}, separators=(",", ":")) + "\n") * records


def same(records: int, pairs: int) -> Trajectories:
    return read_ndjson(io.BytesIO(lines(records, pairs).encode()))


def asked(**changes: Any) -> Parameters:
    return Parameters(**({"K": 2, "L": 3, "sensitive_values": ()} | changes))


@pytest.mark.parametrize(("pairs", "longest"), [(6, 3), (6, None), (40, 2), (1, None), (0, None)])
def test_how_many_sequences_a_path_has(pairs: int, longest: int | None) -> None:
    model = Model(2, asked().C, longest)
    most = pairs if longest is None else longest
    every = sum(1 for size in range(1, most + 1) for _ in combinations(range(pairs), size))
    assert model.sequences(pairs, 10**9) == every
    assert model.sequences(pairs, every) == every


def test_more_than_the_limit_is_not_counted_to_the_end() -> None:
    assert model_of_all().sequences(10**9, 2 * 10**9) > 2 * 10**9


def model_of_all() -> Model:
    return asked(L="all").model


@pytest.mark.parametrize(
    ("pairs", "longest", "stance"),
    [(40, "all", "sound"), (4_000, 3, "paper"), (80_000, 1, "sound")],
)
def test_three_long_records_are_refused_before_they_are_queued(
    pairs: int, longest: int | str, stance: Stance
) -> None:
    data = same(3, pairs)
    with pytest.raises(TooManySequences) as refused:
        KCL.check(data, asked(L=longest), stance)
    assert refused.value.pointer == "/params/L"
    with pytest.raises(TooManySequences):
        KCL.run(data, asked(L=longest), stance, SequentialContext())


@pytest.mark.parametrize(("stance", "pairs", "longest"), [("sound", 600, 3), ("paper", 600, 3)])
@pytest.mark.slow
def test_what_memory_does_not_hold_is_refused_in_the_run(
    stance: Stance, pairs: int, longest: int | str
) -> None:
    """Few enough to be counted, too many to be kept; nothing violates, so none is pruned."""
    data = same(3, pairs)
    KCL.check(data, asked(L=longest), stance)
    with pytest.raises(TooManySequences):
        KCL.run(data, asked(L=longest), stance, SequentialContext())


def test_long_paths_with_few_sequences_are_published() -> None:
    """The control: the same length, within the limits."""
    found = KCL.run(same(3, 1_000), asked(L=1), "sound", SequentialContext())
    assert found.result["instances"] == 3_000
