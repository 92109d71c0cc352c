"""Counting over curators: what is left of patterns, and how many bytes, beside one keeper.

    python -m bench.counting [--curators 10] [--draws 3] [--epsilon 1] [--runs 1] [--quick]
    python -m bench.counting --dropouts [--epsilon 0.1] [--runs 1] [--quick]
    python -m bench.counting --stations [--epsilon 1] [--quick]

One process. The records are split at random over the curators; each answers every question by its
own vector, which has passed its spend filter; the sums get R whole draws of noise, from a fixed
seed. Beside it in the same run, with noise of the same kind: one keeper of all records (one draw,
no limit of cells). Figures are means of the runs, each with noise of its own seed. `--dropouts`:
n-grams of 100 curators with one draw, of which each round misses a random share. `--stations`:
DiffPart on a stand-in with 1,012 items, whose questions have parts. MSNBC where it is
beside the repository, else a stand-in; `--quick`: a tenth.
Spec: federated-counting, sections 8 and 13, checks 6 and 13.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms import sequential_ngram, sequential_prefix_tree, set_valued
from algorithms.contract import SequentialContext
from algorithms.counts.contract import Answer, Question, drive
from algorithms.counts.rounds import Opened, sum_of
from algorithms.sequential_ngram import evaluation as ngram_evaluation
from algorithms.sequential_ngram import federated as ngrams
from algorithms.sequential_ngram.counts import COUNTING as NGRAMS
from algorithms.sequential_ngram.patterns import Text
from algorithms.sequential_ngram.publication import released as ngram_release
from algorithms.sequential_prefix_tree import counts as tree_counts
from algorithms.sequential_prefix_tree import evaluation as tree_evaluation
from algorithms.sequential_prefix_tree import federated as trees
from algorithms.sequential_prefix_tree.publication import released as tree_release
from algorithms.set_valued import evaluation as set_evaluation
from algorithms.set_valued import federated as sets
from algorithms.set_valued.parameters import Metrics as SetMetrics
from algorithms.set_valued.partitioning import released_rows
from algorithms.set_valued.records import itemsets
from algorithms.set_valued.supports import deduplicated
from simulation.experiments.sequential_ngram_data import msnbc
from simulation.populations import shared_data
from simulation.set_valued_data import stm_like_concentrated
from tacit.accounting.spend_filter import Spent
from tacit.encoders import sequential_ngram_counts, sequential_prefix_tree_counts, set_valued_counts
from tacit.encoders.count_paths import PathSpends
from tacit.encoders.counts import Counter, Lists
from tacit.noise import DiscreteLaplace
from tacit.protocol.declared_pieces import SHORT
from tacit.randomness import SeededRandom
from tacit.records.sequences import Sequences
from tacit.records.transactions import Transactions

AGGREGATORS: Final = 3
QUERIES: Final = 2_000
TOPS: Final = (20, 60, 100)


@dataclass
class Curators:
    """A source of sums. spent: S of each curator's records; paths: what questions spend along
    each; words of each round; phases: how often rounds are opened, the parts of a question at
    once; dropped: records that a filter left out; missing: share of the curators in each round,
    drawn by `away`; rates: the largest of each round, which ordinary debits would charge."""

    counter: Counter
    parts: list[Lists]
    draws: int
    epsilon: Fraction
    source: SeededRandom = field(default_factory=lambda: SeededRandom(7))
    spent: list[Spent] = field(default_factory=list)
    paths: PathSpends = field(default_factory=PathSpends)
    words: list[int] = field(default_factory=list)
    phases: int = 0
    dropped: int = 0
    rates: Fraction = Fraction(0)
    missing: float = 0.0
    away: np.random.Generator = field(default_factory=lambda: np.random.default_rng(3))

    def answer(self, question: Question) -> Answer:
        """All parts of a question: counted, filtered, summed, with noise."""
        whole = sum_of(self.counter, question)
        self.rates += max(whole.rates)
        self.paths = whole.after(self.paths)
        first_alone = not self.phases and len(whole.parts) > 1
        self.phases += 1 + first_alone
        opened, decided = [], dict[int, NDArray[np.bool_]]()
        for asked in whole.parts:
            costs = [block.share * asked.epsilon / block.bound for block in asked.blocks]
            self.words.append(sum(block.dimension for block in asked.blocks))
            total = np.zeros(self.words[-1], np.int64)
            self.spent = self.spent or [Spent.nothing(part.count) for part in self.parts]
            here = self.away.random(len(self.parts)) >= self.missing
            for place in np.flatnonzero(here).tolist():
                part = self.parts[place]
                if place not in decided:  # for all parts
                    self.spent[place], decided[place] = self.spent[place].admit(
                        asked.moved(part), asked.costs, self.epsilon
                    )
                    self.dropped += int((~decided[place]).sum())
                counted = decided[place]
                total += asked.total(part if counted.all() else part.only(counted))
            end = 0
            for block, cost in zip(asked.blocks, costs, strict=True):
                begin, end = end, end + block.dimension
                for _ in range(self.draws):
                    law = DiscreteLaplace(1 / cost)
                    total[begin:end] += law.draw(self.source, block.dimension)
            opened.append(asked.restored(total))
        return Opened(question, whole.whole(opened))

    def figures(self) -> str:
        """What the rounds took, and what records spent."""
        most = max(each.most for each in self.spent)
        sent = sum(
            8 * words + 32 * (AGGREGATORS - 1) if words > SHORT else 8 * AGGREGATORS * words
            for words in self.words
        )
        return (
            f"rounds {len(self.words)} in {self.phases} phases, "
            f"words {sum(self.words):,} (longest {max(self.words):,}), "
            f"{sent / 1e3:,.0f} kB a curator, {sent * len(self.parts) / 1e6:,.1f} MB in total; "
            f"debit {self.epsilon}, largest spend {most}, of a path "
            f"{self.paths.most}, ordinary debits {float(self.rates):.3g}, "
            f"dropped {self.dropped}"
        )


def split(lists: Lists, curators: int) -> list[Lists]:
    """At random."""
    owner = np.random.default_rng(1).integers(0, curators, lists.count)
    lengths = np.diff(lists.starts)
    found = []
    for place in range(curators):
        own = owner == place
        inside = np.repeat(own, lengths)
        found.append(Lists(lists.items[inside], np.concatenate(([0], np.cumsum(lengths[own])))))
    return found


Quality = dict[str, list[float]]
"""Figures by name."""
DIGITS: Final = {"TP %": 1, "error of size 4 %": 1, "frequent itemsets": 2}


def shown(runs: Sequence[Quality]) -> str:
    """The means of some runs."""
    means = {name: np.mean([each[name] for each in runs], axis=0) for name in runs[0]}
    return ", ".join(
        f"{name} {' '.join(f'{figure:.{DIGITS.get(name, 3)}f}' for figure in figures)}"
        for name, figures in means.items()
    )


def of_ngrams(data: Sequences, epsilon: str, budget: str, source: Curators, **more: Any) -> Quality:
    """Quality of one run."""
    params = sequential_ngram.Parameters.model_validate(
        {"universe": data.universe, "epsilon": epsilon, "budget": budget, **more}
    )
    tree = drive(NGRAMS, ngrams.first(params, Fraction(source.draws)), source).tree
    assert tree is not None
    release = ngram_release(tree, SequentialContext())
    compared = ngram_evaluation.evaluate(
        data,
        Text.of_copies(release.grams, release.copies, len(data.universe)),
        release.grams,
        20,
        5,
        sequential_ngram.parameters.Metrics(queries=QUERIES, top=TOPS),
        lambda: None,
    )
    patterns, errors = compared["patterns_cut"], compared["relative_error"]
    return {
        "TP %": [100 * (each["true_positives"] or 0.0) for each in patterns],
        "loss": [patterns[-1]["utility_loss"]],
        "error of size 4 %": [100 * errors[3]],
    }


def of_trees(data: Sequences, epsilon: str, source: Curators, **more: Any) -> Quality:
    """Quality of one run."""
    height = 12 if Fraction(epsilon) >= 1 else 8
    params = sequential_prefix_tree.Parameters.model_validate(
        {"universe": data.universe, "epsilon": epsilon, "height": height, **more}
    )
    state = trees.first(params, Fraction(source.draws))
    tree = drive(tree_counts.COUNTING, state, source).tree
    context = SequentialContext()
    release = tree_release(tree, "sound", context, (0,) * len(tree.levels))
    compared = tree_evaluation.evaluate(
        data,
        release,
        height,
        sequential_prefix_tree.parameters.Metrics(queries=QUERIES, top=TOPS),
        context,
    )
    errors = compared["relative_error"]
    shares = [each["true_positives"] / each["k"] for each in compared["frequent_patterns"]]
    return {
        "TP %": [100 * share for share in shares],
        "error of size 4 %": [100 * errors[3]],
    }


def of_sets(data: Transactions, epsilon: str, source: Curators, **more: Any) -> Quality:
    """Quality of one run."""
    params = set_valued.Parameters.model_validate(
        {"universe": data.items, "epsilon": epsilon, **more}
    )
    draws = Fraction(source.draws)
    state = drive(sets.questions(params, draws), sets.parts(params, draws).first(), source)
    raw = deduplicated(itemsets(data, data.items, SequentialContext()), len(data.items))
    compared = set_evaluation.evaluate(
        raw,
        released_rows(state),
        len(data.items),
        SetMetrics(queries=QUERIES, top=TOPS),
        lambda: None,
    )
    errors = [compared["relative_error"][place] for place in (0, 2, 4)]
    mined = compared["frequent_itemsets"][-1]["utility"]
    return {"errors": errors, "frequent itemsets": [mined]}


def both(
    name: str,
    counter: Counter,
    lists: Lists,
    asked: argparse.Namespace,
    run: Callable[..., Quality],
    *more: str,
    unlimited: bool = True,
) -> None:
    """One line for the curators, one for a keeper."""
    epsilon, parts = Fraction(asked.epsilon), split(lists, asked.curators)
    for who, own, draws in (("curators", parts, asked.draws), ("one keeper", [lists], 1)):
        limit = {"max_cells": 100_000_000} if unlimited and who == "one keeper" else {}
        found = []
        for seed in range(asked.runs):
            source = Curators(counter, own, draws, epsilon, SeededRandom(7 + seed))
            found.append(run(asked.epsilon, *more, source, **limit))
        print(f"{name:<22} {who:<10} R = {draws}: {shown(found)}", flush=True)
        if who == "curators":
            print(f"{'':<22} {source.figures()}")


def dropouts(data: Sequences, asked: argparse.Namespace) -> None:
    """N-grams, budget uniform, one draw, where each round misses some of 100 curators."""
    epsilon, parts = Fraction(asked.epsilon), split(data.lists, 100)
    print(f"{data.count:,} sequences over 100 curators, epsilon {asked.epsilon}")
    for missing in (0.0, 0.02, 0.05, 0.2):
        found = []
        for seed in range(asked.runs):
            source = Curators(
                sequential_ngram_counts.COUNTER,
                parts,
                1,
                epsilon,
                SeededRandom(7 + seed),
                missing=missing,
                away=np.random.default_rng(seed),
            )
            found.append(of_ngrams(data, asked.epsilon, "uniform", source))
        print(f"each round misses {100 * missing:>2.0f} %: {shown(found)}", flush=True)


def stations(asked: argparse.Namespace) -> None:
    """DiffPart on a stand-in with 1,012 items: questions that one round cannot carry."""
    data = stm_like_concentrated(20_000 if asked.quick else 200_000)
    lists = Lists(data.dataset.values, data.dataset.offsets)
    epsilon, parts = Fraction(asked.epsilon), split(lists, asked.curators)
    source = Curators(set_valued_counts.COUNTER, parts, asked.draws, epsilon)
    params = set_valued.Parameters.model_validate(
        {"universe": data.dataset.items, "epsilon": asked.epsilon, "method": "diffpart"}
    )
    draws = Fraction(asked.draws)
    drive(sets.questions(params, draws), sets.parts(params, draws).first(), source)
    print(f"{data.name}, R = {asked.draws}: {source.figures()}")


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--curators", type=int, default=10)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--epsilon")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--dropouts", action="store_true")
    parser.add_argument("--stations", action="store_true")
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    asked.epsilon = asked.epsilon or ("0.1" if asked.dropouts else "1")
    if asked.stations:
        stations(asked)
        return
    population = msnbc(shared_data())
    data = population.dataset
    if asked.quick:
        data = Sequences(data.universe, *_tenth(data.lists))
    if asked.dropouts:
        dropouts(data, asked)
        return
    print(f"{population.name}: {data.count:,} sequences over {asked.curators} curators, "
          f"epsilon {asked.epsilon}")  # fmt: skip
    grams, tree = sequential_ngram_counts.COUNTER, sequential_prefix_tree_counts.COUNTER

    def ngrams_of(epsilon: str, budget: str, source: Curators, **more: Any) -> Quality:
        return of_ngrams(data, epsilon, budget, source, **more)

    for budget in ("uniform", "adaptive"):
        both(f"n-grams, {budget}", grams, data.lists, asked, ngrams_of, budget)
    both("prefix tree, simple", tree, data.lists, asked, lambda *a, **m: of_trees(data, *a, **m))
    transactions = Transactions(data.universe, data.items, data.starts)
    both(
        "DiffPart",
        set_valued_counts.COUNTER,
        data.lists,
        asked,
        lambda *a, **m: of_sets(transactions, *a, **m),
        unlimited=False,
    )


def _tenth(lists: Lists) -> tuple[Any, Any]:
    end = lists.count // 10
    return lists.items[: lists.starts[end]], lists.starts[: end + 1]


if __name__ == "__main__":
    main()
