"""Seeded central results of the three counting algorithms do not change, byte for byte.

Spec: federated-counting, section 13, check 1. The digests were made before the algorithms asked
sources of counts. A change that is meant to alter results has to write them again:

    .venv/bin/python -m tests.algorithms.counts.test_golden
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from algorithms import catalogue
from algorithms.contract import Context, Outcome, SequentialContext, Stance
from reproduction.stand_in_data import bus
from simulation.stand_in_data import metro, msnbc_like
from tests.algorithms.sequential_ngram.examples import TABLE_6_2
from tests.algorithms.sequential_prefix_tree.examples import TABLE_6_1
from tests.algorithms.set_valued.examples import TABLE_4_1

DIGESTS = Path(__file__).with_name("golden.json")
SOUND: Stance = "sound"
PAPER: Stance = "paper"


@cache
def data(name: str) -> Any:
    """Samples by name; all are made from fixed seeds."""
    samples: dict[str, Callable[[], Any]] = {
        "metro": lambda: metro(3_000).dataset,
        "bus": lambda: bus(1_500).dataset,
        "empty sequences": lambda: type(TABLE_6_1).of(TABLE_6_1.universe, []),
        "table 6.1": lambda: TABLE_6_1,
        "table 6.2": lambda: TABLE_6_2,
        "baskets": lambda: msnbc_like(4_000, 17, 1).dataset,
        "wide baskets": lambda: msnbc_like(3_000, 60, 2).dataset,
        "few baskets": lambda: msnbc_like(3_000, 9, 3).dataset,
        "no baskets": lambda: type(TABLE_4_1).of([], TABLE_4_1.items),
        "table 4.1": lambda: TABLE_4_1,
    }
    return samples[name]()


def items_of(sample: Any) -> tuple[str, ...]:
    """The universe of either kind."""
    found: tuple[str, ...] = getattr(sample, "universe", None) or sample.items
    return found


NGRAMS = "sequential-ngram"
TREES = "sequential-prefix-tree"
SETS = "set-valued"
CASES: list[tuple[str, str, Stance, dict[str, Any]]] = [
    (NGRAMS, "metro", SOUND, {"epsilon": "1"}),
    (NGRAMS, "metro", SOUND, {"epsilon": "20", "root": "all", "fill": "ratio", "l_max": 6}),
    (NGRAMS, "metro", SOUND, {"epsilon": "10", "budget": "uniform", "n_max": 1, "fill": "none"}),
    (NGRAMS, "metro", SOUND, {"epsilon": "15/2", "l_max": "auto", "length_cap": 5, "n_max": 3}),
    (NGRAMS, "bus", SOUND, {"epsilon": "100", "l_max": 8, "n_max": 3, "root": "threshold"}),
    (NGRAMS, "table 6.2", SOUND, {"epsilon": "100", "l_max": 5, "generation": "skip"}),
    (NGRAMS, "empty sequences", SOUND, {"epsilon": "1", "root": "threshold"}),
    (NGRAMS, "metro", PAPER, {"epsilon": "20", "budget": "uniform", "l_max": "auto", "n_max": 3}),
    (NGRAMS, "table 6.2", PAPER, {"epsilon": "100", "l_max": 5, "fill": "leftover"}),
    (TREES, "metro", SOUND, {"epsilon": "8", "form": "simple", "height": 5, "expanded": True}),
    (TREES, "metro", SOUND, {"epsilon": "10", "fan_out": 5, "split": "1/3", "height": 4}),
    (TREES, "metro", SOUND, {"epsilon": "10", "fan_out": 4, "theta_group": "3", "theta_item": "2"}),
    (TREES, "table 6.1", SOUND, {"epsilon": "100", "form": "simple", "height": 4, "time_bins": 1}),
    (TREES, "table 6.1 rising", SOUND, {"epsilon": "90", "height": 3, "time_bins": 2}),
    (TREES, "table 6.1 rising", SOUND, {"epsilon": "90", "fan_out": 2, "time_bins": 2}),
    (TREES, "empty sequences", SOUND, {"epsilon": "1", "form": "simple"}),
    (TREES, "metro", PAPER, {"epsilon": "30", "form": "simple", "theta_item": "6", "height": 4}),
    (TREES, "table 6.1", PAPER, {"epsilon": "100", "form": "simple", "height": 4}),
    (SETS, "baskets", SOUND, {"epsilon": "2", "fanout": 16, "eta": "0.25", "method": "diffpart"}),
    (SETS, "baskets", SOUND, {"epsilon": "1", "method": "diffpart+rest", "evaluate": True}),
    (SETS, "wide baskets", SOUND, {"epsilon": "5", "fanout": 7, "method": "diffpart"}),
    (SETS, "few baskets", SOUND, {"epsilon": "1", "method": "basic"}),
    (SETS, "table 4.1", SOUND, {"epsilon": "20", "fanout": 2, "method": "diffpart"}),
    (SETS, "no baskets", SOUND, {"epsilon": "1", "fanout": 2, "method": "diffpart"}),
    (SETS, "few baskets", PAPER, {"epsilon": "1", "fanout": 2}),
    (SETS, "few baskets", PAPER, {"epsilon": "1", "C1": 3, "C2": 5, "leaf_mode": "pseudocode"}),
    (SETS, "few baskets", PAPER, {"epsilon": "1", "method": "basic"}),
]


def sample_of(name: str) -> Any:
    """A dataset; `rising`: its sequences sorted, as time bins ask."""
    plain = name.removesuffix(" rising")
    if plain == name:
        return data(name)
    found = data(plain)
    pairs = zip(found.starts[:-1], found.starts[1:], strict=True)
    lists = [sorted(found.items[low:high].tolist()) for low, high in pairs]
    return type(found).of(found.universe, [[found.universe[i] for i in each] for each in lists])


def digest(outcome: Outcome) -> str:
    """Of all files, the released JSON, the report's own figures and what the operator sees."""
    whole = hashlib.sha256()
    for file in outcome.files:
        whole.update(f"{file.name} {len(file.content)}\n".encode() + file.content)
    parts = (outcome.result, outcome.report.details, outcome.evaluation, outcome.public_seeds)
    whole.update(json.dumps(parts, sort_keys=True).encode())
    return whole.hexdigest()


def found(case: tuple[str, str, Stance, dict[str, Any]], context: Context) -> Outcome:
    name, sample, stance, changes = case
    entry, dataset = catalogue.find(name), sample_of(sample)
    params = entry.params(**({"universe": items_of(dataset)} | changes))
    return entry.run(dataset, params, stance, context)


def contexts() -> dict[str, Context]:
    """A secret stream, and a seed of tests."""
    return {
        "secret": SequentialContext(bytes(range(32))),
        "seed 1": SequentialContext(test_seed=1),
    }


def title(case: tuple[str, str, Stance, dict[str, Any]]) -> str:
    name, sample, stance, changes = case
    return f"{name}, {sample}, {stance}, {json.dumps(changes)}"


@pytest.mark.parametrize("case", CASES, ids=title)
def test_a_seeded_central_result_is_byte_identical(
    case: tuple[str, str, Stance, dict[str, Any]],
) -> None:
    expected = json.loads(DIGESTS.read_text())[title(case)]
    assert {name: digest(found(case, context)) for name, context in contexts().items()} == expected


def test_every_digest_belongs_to_a_case_and_seeds_matter() -> None:
    stored = json.loads(DIGESTS.read_text())
    assert set(stored) == {title(case) for case in CASES}
    differing = sum(len(set(each.values())) == 2 for each in stored.values())
    assert differing > len(stored) * 3 // 4


if __name__ == "__main__":
    made = {
        title(case): {name: digest(found(case, each)) for name, each in contexts().items()}
        for case in CASES
    }
    DIGESTS.write_text(json.dumps(made, indent=1) + "\n")
