"""From a dataset to what is published: code, mine, suppress, check; and the catalogue's entry.

What leaves a job is the table without record ids, its rows shuffled.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from algorithms.contract import Algorithm, Context, Drawing, Outcome, Plot, ResultFile, Stance
from algorithms.datasets.trajectories import ABSENT, Attribute, Ints, Trajectories
from algorithms.drawing import BLUE
from algorithms.trajectory_kcl.checker import Verdict, check
from algorithms.trajectory_kcl.mining import Frequent, check_size, maximal_frequent, mine
from algorithms.trajectory_kcl.paper import LiteralRun
from algorithms.trajectory_kcl.parameters import (
    Method,
    Metrics,
    Model,
    PairTable,
    Parameters,
    Utility,
    check_values,
    code,
)
from algorithms.trajectory_kcl.report import NAME, privacy_report, verification
from algorithms.trajectory_kcl.suppression import Greedy, Operation, alive, build
from tacit.randomness import NoiseSource
from tacit.report.model import PrivacyReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_BATCH: Final = 8192


def shuffled(records: int, source: NoiseSource) -> Ints:
    """A secret order of the records: by one random word each."""
    order: Ints = np.argsort(source.words(records), kind="stable")
    return order


def trajectories_file(
    table: PairTable,
    attributes: tuple[Attribute, ...],
    order: Ints,
    beat: Callable[[], None] = lambda: None,
) -> ResultFile:
    """trajectories.ndjson: one record a line, as the kind `trajectories` reads it."""
    points = [
        json.dumps([location, _plain(time)], separators=(",", ":"))
        for location, time in zip(table.locations, table.times, strict=True)
    ]
    texts = [
        {
            code: f"{json.dumps(attribute.name)}:{json.dumps(value)}"
            for code, value in enumerate(attribute.values)
        }
        for attribute in attributes
    ]
    codes = [attribute.codes for attribute in attributes]
    items, offsets = table.items.tolist(), table.offsets.tolist()
    parts: list[bytes] = []
    for start in range(0, len(order), _BATCH):
        beat()
        lines = []
        for row in order[start : start + _BATCH].tolist():
            path = ",".join([points[item] for item in items[offsets[row] : offsets[row + 1]]])
            values = ",".join(
                [
                    text[codes_of[row]]
                    for text, codes_of in zip(texts, codes, strict=True)
                    if codes_of[row] != ABSENT
                ]
            )
            lines.append(f'{{"path":[{path}],"sensitive":{{{values}}}}}\n')
        parts.append("".join(lines).encode())
    return ResultFile(
        "trajectories.ndjson",
        "application/x-ndjson",
        b"".join(parts),
        "the records with some pairs suppressed, without ids, in random order",
    )


def _plain(time: float) -> int | float:
    return int(time) if time.is_integer() else time


# Spec: trajectory-kcl, sections 2 and 3.5.

MINED: Final = 0.35
SUPPRESSED: Final = 0.8
CHECKED: Final = 0.9


@dataclass(frozen=True, eq=False)
class Anonymised:
    """A table after suppression, what was done, and the result of the check."""

    table: PairTable
    operations: tuple[Operation, ...]
    verdict: Verdict
    frequent: Frequent | None


def anonymise(
    table: PairTable,
    model: Model,
    context: Context,
    *,
    stance: Stance = "sound",
    method: Method = "local",
    utility: Utility = "instances",
    least_frequent: int | None = None,
) -> Anonymised:
    """Suppress until the model holds, and check. `least_frequent` is K', for utility mfs.

    The sound form starts over if the check finds anything, which is not known to happen.
    Raises TooManySequences.
    """
    check_size(table, model)
    frequent = None
    if utility == "mfs":
        assert least_frequent is not None
        frequent = maximal_frequent(table, least_frequent, _beat(context, 0.0, "frequent"))
    checking = _beat(context, SUPPRESSED, "checking")
    if stance == "paper":
        run = LiteralRun(
            table, model, utility, method, frequent, _beat(context, 0.1, "suppressing")
        )
        done = run.run()
        remaining = table.kept(run.alive())
        return Anonymised(remaining, tuple(done), check(remaining, model, checking), frequent)
    remaining, operations = table, []
    tracked = frequent
    while True:
        remaining, done = _suppressed(remaining, model, context, method, utility, tracked)
        operations += done
        verdict = check(remaining, model, checking)
        if verdict.holds:
            return Anonymised(remaining, tuple(operations), verdict, frequent)
        if not done:
            raise RuntimeError("the check finds a violating sequence that mining does not")
        if least_frequent is not None:
            tracked = maximal_frequent(remaining, least_frequent, checking)


def _suppressed(
    table: PairTable,
    model: Model,
    context: Context,
    method: Method,
    utility: Utility,
    frequent: Frequent | None,
) -> tuple[PairTable, list[Operation]]:
    """One round of mining and suppression."""
    mined = mine(table, model, context, MINED)
    incidence = build(table, model, mined, frequent, _beat(context, MINED, "indexing"))

    def beat(share: float) -> None:
        context.progress(MINED + (SUPPRESSED - MINED) * share, "suppressing")

    done = Greedy(incidence, utility, method, beat).run()
    return table.kept(alive(table, incidence.state)), done


def _beat(context: Context, share: float, stage: str) -> Callable[[], None]:
    return lambda: context.progress(share, stage)


def run(dataset: Trajectories, params: Parameters, stance: Stance, context: Context) -> Outcome:
    """The job. Raises MissingSensitive, BadGrid, TooManySequences."""
    coded = code(dataset, params.sensitive_values, params.grid)
    before = coded.table
    check_values(before)
    anonymised = anonymise(
        before,
        params.model,
        context,
        stance=stance,
        method=params.method,
        utility=params.utility,
        least_frequent=params.Kprime,
    )
    after = anonymised.table
    order = shuffled(after.records, context.noise("rows"))
    empty = int((after.lengths == 0).sum())
    if params.empty_paths == "drop":
        order = order[after.lengths[order] > 0]
    counts, loss = suppressed_counts(anonymised.operations, empty), instance_loss(before, after)
    file = trajectories_file(after, dataset.attributes, order, _beat(context, CHECKED, "writing"))
    result: dict[str, Any] = {
        "records": len(order),
        "instances": len(after.items),
        "suppressed": counts,
        "instance_loss": loss,
        "verification": verification(anonymised.verdict, params),
        "violations": [
            {
                "sequence": [[after.locations[pair], after.times[pair]] for pair in example.pairs],
                "records": example.records,
            }
            for example in anonymised.verdict.examples
        ],
    }
    compared = None
    if params.metrics is not None:
        beat = _beat(context, CHECKED, "evaluating")
        compared = evaluate(before, after, params.metrics, params.Kprime, coded.merged, beat)
    context.progress(1.0, "releasing")
    return Outcome(
        result=result,
        report=privacy_report(params, stance, anonymised.verdict, counts, loss),
        files=(file,),
        plots=plots_of(after, np.sort(order)),
        evaluation=compared,
    )


def suppressed_counts(operations: tuple[Operation, ...], empty: int) -> dict[str, int]:
    """Instances suppressed, in total and by kind of operation; operations; empty paths."""
    instances: Counter[str] = Counter()
    for each in operations:
        instances[each.kind] += each.instances
    kinds = Counter(operation.kind for operation in operations)
    return {
        "instances": instances["local"] + instances["global"],
        "instances_local": instances["local"],
        "instances_global": instances["global"],
        "local_ops": kinds["local"],
        "global_ops": kinds["global"],
        "empty_paths": empty,
    }


# The catalogue's entry.


def preview(params: Parameters, stance: Stance) -> PrivacyReport:
    """The report of a run, before any data."""
    return privacy_report(params, stance)


def check_dataset(dataset: Trajectories, params: Parameters, stance: Stance) -> None:  # noqa: ARG001
    """Refuse records that lack a named attribute, values that none has, a bad grid, and more
    sequences than can be enumerated."""
    table = code(dataset, params.sensitive_values, params.grid).table
    check_values(table)
    check_size(table, params.model)


# --- plots of the published table ----------------------------------------------------------------


MOST_PLACES: Final = 25
MOST_TIMES: Final = 48
"""of distinct times; of more, equal spans are drawn."""
_INCHES: Final = (5.4, 3.6)


def plots_of(table: PairTable, rows: Ints) -> tuple[Plot, ...]:
    """Pairs by place and time, and lengths of the paths. rows: of the published records; the
    other records have no pairs."""
    lengths = Plot.of("lengths", records=np.bincount(table.lengths[rows]))
    if not len(table.items):
        return (lengths,)
    places, times, counts = pairs_by_place_and_time(table)
    total = len({table.locations[item] for item in np.unique(table.items).tolist()})
    pairs = Plot.of("pairs", places=places, times=times, counts=counts, all_places=total)
    return pairs, lengths


def pairs_by_place_and_time(table: PairTable) -> tuple[list[str], list[str], Ints]:
    """The places with the most pairs (at most 25, the first on top), labels of the times or of
    their spans (at most 48), and how many pairs are published of each (places, times)."""
    count = np.bincount(table.items, minlength=len(table.times))
    here = np.flatnonzero(count)
    names, place = np.unique(np.array(table.locations)[here], return_inverse=True)
    times = np.array(table.times)[here]
    distinct, column = np.unique(times, return_inverse=True)
    labels = [f"{time:g}" for time in distinct]
    if len(distinct) > MOST_TIMES:
        edges = np.linspace(distinct[0], distinct[-1], MOST_TIMES + 1)
        column = np.clip(np.searchsorted(edges, times, side="right") - 1, 0, MOST_TIMES - 1)
        labels = [f"{edge:g}" for edge in edges[:-1]]
    counts = np.zeros((len(names), len(labels)), np.int64)
    np.add.at(counts, (place, column), count[here])
    most = np.argsort(-counts.sum(axis=1), kind="stable")[:MOST_PLACES]
    return [str(name) for name in names[most]], labels, counts[most]


def _pairs(axes: Axes, values: Mapping[str, Any]) -> None:
    places, times, counts = values["places"], values["times"], values["counts"]
    shown = axes.imshow(counts, cmap="Blues", aspect="auto", vmin=0, interpolation="nearest")
    axes.figure.colorbar(shown, ax=axes, label="published pairs")
    axes.set_yticks(range(len(places)), places, fontsize=7 if len(places) > 12 else 9)
    for label in axes.get_yticklabels():
        label.set_parse_math(False)  # a place may have a dollar sign
    step = -(-len(times) // 12)
    axes.set_xticks(range(0, len(times), step), times[::step])
    total = values["all_places"]
    first = "" if total == len(places) else f": the {len(places)} fullest of {total} places"
    axes.set(title=f"What is published{first}", xlabel="time", ylabel="place")


def _lengths(axes: Axes, values: Mapping[str, Any]) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.bar(range(len(values["records"])), values["records"], color=BLUE)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(title="Published paths", xlabel="pairs in a path", ylabel="records")


# --- evaluation: visible only to the operator ----------------------------------------------------


def instance_loss(before: PairTable, after: PairTable) -> float:
    """Share of instances that were suppressed; 0 of an empty table."""
    total = len(before.items)
    return (total - len(after.items)) / total if total else 0.0


def frequent_losses(before: Frequent, after: Frequent) -> dict[str, Any]:
    """How many maximal frequent sequences there are, and were lost.

    `mfs_loss`: 1 - share of U(T) that is in U(T'); `mfs_loss_count`: the printed ratio, which
    mixes in sequences that became maximal and may be negative. Null where U(T) is empty.
    """
    had, has = before.sequences, after.sequences
    return {
        "mfs_before": len(had),
        "mfs_after": len(has),
        "mfs_loss": 1 - len(had & has) / len(had) if had else None,
        "mfs_loss_count": (len(had) - len(has)) / len(had) if had else None,
    }


def evaluate(
    before: PairTable,
    after: PairTable,
    metrics: Metrics,
    least: int | None,
    merged: int,
    beat: Callable[[], None],
) -> dict[str, Any]:
    """The metrics; `least` is K', without which there are no frequent sequences; `merged`:
    points whose slot was already taken."""
    result: dict[str, Any] = {"merged_points": merged}
    if metrics.mfs and least is not None:
        had = maximal_frequent(before, least, beat)
        result |= frequent_losses(had, maximal_frequent(after, least, beat))
    if metrics.suppressed_pairs:
        had_each = np.bincount(before.items, minlength=before.pairs)
        lost = had_each - np.bincount(after.items, minlength=before.pairs)
        result["suppressed_pairs"] = [
            {
                "location": before.locations[pair],
                "time": before.times[pair],
                "instances": int(had_each[pair]),
                "suppressed": int(lost[pair]),
            }
            for pair in np.flatnonzero(lost).tolist()
        ]
    return result


ALGORITHM: Final = Algorithm(
    name=NAME,
    title="Trajectories under (K,C)_L-privacy",
    source="Chen's thesis, chapter 5, Algorithms 5.1 to 5.3; Chen, Fung, Mohammed, Desai, Wang, "
    "Privacy-preserving trajectory data publishing by local suppression",
    purpose="Publish truthful trajectories with some pairs removed, so that every sequence of at "
    "most L pairs fits K records or none, and tells no listed value with confidence above C. A "
    "syntactic property: not differentially private.",
    dataset_kind="trajectories",
    params=Parameters,
    stances=("sound", "paper"),
    run=run,
    preview=preview,
    result={
        "records": "published records",
        "instances": "published pairs of all records",
        "suppressed": "instances, by kind of operation; operations; empty paths",
        "instance_loss": "share of instances that were suppressed",
        "verification": "what the independent check of the published table found",
        "violations": "up to 100 sequences that still break the model (paper)",
    },
    complexity="mining and checking: the sum over records of C(length, <= L); an operation: "
    "the records of its sequence times length^(L - 1)",
    check=check_dataset,
    drawings={"pairs": Drawing(_pairs, _INCHES), "lengths": Drawing(_lengths, _INCHES)},
)
