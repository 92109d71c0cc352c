"""Set-valued release as the catalogue knows it: run, preview, check, a result, and its evaluation.

An evaluation compares with the true data; it is visible only to the operator and never published.
Spec: set-valued, sections 2 and 5; jobs, "Catalogue" and "Result".
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Algorithm, Context, Drawing, Outcome, Plot, ResultFile, Stance
from algorithms.counts.released_files import FileErrors, Named, multiset_files
from algorithms.datasets.declaration import DatasetReference
from algorithms.drawing import BLUE, RED
from algorithms.set_valued.counts import publish
from algorithms.set_valued.margins import (
    Margins,
    estimated_items,
    measured_lengths,
    measured_margins,
)
from algorithms.set_valued.parameters import (
    ONE_DRAW,
    Parameters,
    least_shares,
    resolved_universe,
    settings_of,
    shares_of,
)
from algorithms.set_valued.records import (
    check_items,
    clipped,
    deduplicated,
    exact_histogram,
    itemsets,
    noisy_histogram,
    record_masks,
    rows_of,
)
from algorithms.set_valued.release_error import errors_of_items
from algorithms.set_valued.remainder import Measured, remainder, rest_rows
from algorithms.set_valued.report import NAME, errors_of_histogram, set_valued_report
from algorithms.set_valued.settings import Row, RowCap, Transcript
from tacit.encoders.set_valued_counts import Taxonomy
from tacit.records.items import Transactions
from tacit.records.text_files import line_of, listed
from tacit.report.model import PrivacyReport
from tacit.wire import format_exact

if TYPE_CHECKING:
    from matplotlib.axes import Axes

from dataclasses import dataclass

from algorithms.set_valued.parameters import Metrics
from algorithms.set_valued.records import (
    Beat,
    Supports,
    Weighted,
    most_frequent,
    superset_sums,
)
from tacit.randomness import PublicRandom
from tacit.records.items import Ints

GROUPS: Final = 5
SANITY: Final = 0.001
"""The sanity bound of a relative error, as a share of the records."""
DENSE_ITEMS: Final = 20
"""Up to this number all supports are computed together."""

Queries = tuple[tuple[int, ...], ...]
Floats = NDArray[np.float64]


def workload(items: int, longest: int, count: int, seed: int) -> tuple[Queries, ...]:
    """Five groups of random itemsets; group i has lengths uniform up to i fifths of the longest
    record, at most all items."""
    generator = PublicRandom(seed).generator
    groups = []
    for group in range(1, GROUPS + 1):
        top = max(1, min(group * longest // GROUPS, items))
        lengths = generator.integers(1, top + 1, count)
        drawn = (generator.choice(items, length, replace=False) for length in lengths.tolist())
        groups.append(tuple(tuple(sorted(itemset.tolist())) for itemset in drawn))
    return tuple(groups)


def query_counts(
    weighted: Weighted, items: int, queries: Sequence[Queries], beat: Beat = lambda: None
) -> list[Ints]:
    """The answers of each group, exact."""
    if items <= DENSE_ITEMS:
        cells = exact_histogram(weighted.sets, items, weighted.weights)
        return dense_counts(superset_sums(cells), queries)
    supports = Supports.of(weighted, items, beat)
    answers = []
    for group in queries:
        counts_of_query = np.zeros(len(group), np.int64)
        for place, query in enumerate(group):
            if place % 512 == 0:
                beat()
            counts_of_query[place] = supports.support(query)
        answers.append(counts_of_query)
    return answers


def dense_counts(sums: NDArray[Any], queries: Sequence[Queries]) -> list[NDArray[Any]]:
    """The answers, looked up in the sums over supersets."""
    return [
        sums[np.array([sum(1 << item for item in query) for query in group], np.int64)]
        for group in queries
    ]


@dataclass(frozen=True)
class Errors:
    """Mean relative errors by group; `large`: over queries whose true answer reaches the sanity
    bound, and `share`, how many do."""

    mean: Floats
    large: Floats
    share: Floats


def relative_errors(true: Sequence[Ints], answered: Sequence[NDArray[Any]], records: int) -> Errors:
    """|found - true| / max(true, bound); NaN where a group has no such query."""
    bound = max(SANITY * records, 1e-9)
    means, large, shares = [], [], []
    for exact, answer in zip(true, answered, strict=True):
        error = np.abs(answer - exact) / np.maximum(exact, bound)
        reached = exact >= bound
        means.append(error.mean() if error.size else np.nan)
        large.append(error[reached].mean() if reached.any() else np.nan)
        shares.append(reached.mean() if error.size else np.nan)
    return Errors(np.array(means), np.array(large), np.array(shares))


def mining_utility(true: Sequence[Row], released: Sequence[Row]) -> float | None:
    """1 - the mean relative loss of support over the true top; an itemset outside the release's top
    has lost all of it. None without a true top."""
    if not true:
        return None
    support_of = dict(released)
    losses = [abs(support - support_of.get(chosen, 0)) / support for chosen, support in true]
    return 1 - sum(losses) / len(losses)


def precision(true: Sequence[Row], released: Sequence[Row]) -> float | None:
    """The share of the true top that the release's top has. None without a true top."""
    if not true:
        return None
    return len({chosen for chosen, _ in true} & {chosen for chosen, _ in released}) / len(true)


def evaluate(
    raw: Weighted,
    rows: Sequence[Row],
    items: int,
    metrics: Metrics,
    beat: Beat,
    histogram: NDArray[Any] | None = None,
) -> dict[str, Any]:
    """All metrics of a release on the true data; null where nothing can be measured.

    histogram: noisy counts of all itemsets, also negative ones, measured in addition.
    """
    records = int(raw.weights.sum())
    longest = int(np.diff(raw.sets.offsets).max(initial=1))
    released = Weighted.of_rows(rows)
    queries = workload(items, longest, metrics.queries, metrics.query_seed)
    true = query_counts(raw, items, queries, beat)
    counted = query_counts(released, items, queries, beat)
    errors = relative_errors(true, counted, records)
    most = max(metrics.top, default=0)
    tops = [
        most_frequent(Supports.of(itemsets, items, beat), most, beat) if most else []
        for itemsets in (raw, released)
    ]
    compared: dict[str, Any] = {}
    if histogram is not None:
        answers = dense_counts(superset_sums(histogram), queries)
        raw_errors = relative_errors(true, answers, records)
        compared["relative_error_of_histogram"] = _plain(raw_errors.mean)
    return {
        **compared,
        "records": records,
        "longest_record": longest,
        "query_seed": metrics.query_seed,
        "relative_error": _plain(errors.mean),
        "relative_error_of_large": _plain(errors.large),
        "share_of_large": _plain(errors.share),
        "frequent_itemsets": [
            {
                "k": k,
                "utility": mining_utility(tops[0][:k], tops[1][:k]),
                "precision": precision(tops[0][:k], tops[1][:k]),
            }
            for k in metrics.top
        ],
    }


def _plain(values: Floats) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]


_BEAT_ROWS: Final = 65_536

RESULT: Final = {
    "rows": "how many itemsets are released",
    "records": "the sum of their counts",
    "partitions_split": "how many partitions were split, with or without records (diffpart)",
    "method": "diffpart, diffpart+rest, rest or basic",
    "lengths": "numbers of records with 1 to 64 items, the last with 64 and more, as estimated "
    "from noisy counts of lengths and of items (diffpart+rest, rest)",
    "items_kept": "items of a record that were counted, at most (diffpart+rest, rest)",
    "rest_rows": "itemsets of kind rest among the rows (diffpart+rest, rest)",
    "rest_records": "the sum of their counts (diffpart+rest, rest)",
    "release.csv": "one line for each itemset: its count, its length, its items; with rest: "
    "before them its kind, measured (by DiffPart) or rest (outside the basis items are "
    "independent)",
    "release.ndjson": "the same as JSON; in the CSV items are between blanks, and in "
    "quotes where one has a blank",
    "items.csv": "a line for each item: how many records kept it, noisy, and how many have it, as "
    "estimated by the law of all counts; over all items it errs less than the synthetic records "
    "where most are rare (diffpart+rest, rest)",
    "splits.csv": "cost, threshold and chance of an empty sub-partition of each kind of test, and "
    "how many splits had it (diffpart)",
    "histogram.npy": "noisy counts of all itemsets, negative ones too, by bit mask (basic)",
}


def check(dataset: Transactions, params: Parameters, stance: Stance) -> None:
    """Refuse records with an item outside the universe. Raises UnknownItem and what parameters
    raise."""
    check_items(dataset, resolved_universe(params, stance, dataset))


def run(dataset: Transactions, params: Parameters, stance: Stance, context: Context) -> Outcome:
    """A release. Raises what `check` raises, PartitionCap, RowCap, Cancelled."""
    universe = resolved_universe(params, stance, dataset)
    check_items(dataset, universe)
    method = params.method_of(stance)
    if method == "basic":
        return _run_basic(dataset, params, universe, stance, context)
    margins = None
    if method != "diffpart":
        sets = itemsets(dataset, universe, context)
        share = least_shares(params, method).lengths
        lengths = measured_lengths(sets, len(universe), params.epsilon, context, share)
        shares = shares_of(params, method, lengths.counts, len(universe))
        margins = measured_margins(sets, len(universe), params.epsilon, context, lengths, shares)
        if not shares.diffpart:
            outcome, released = published_with_rest(
                (), Transcript(), margins, params, stance, universe, context
            )
            return _evaluated(outcome, dataset, params, universe, released, {}, context)
    taxonomy = Taxonomy(len(universe), params.fanout)
    masks = record_masks(dataset, universe, taxonomy, context)
    run_made = publish(masks, taxonomy, settings_of(params, stance, taxonomy), context)
    if margins is not None:
        outcome, released = published_with_rest(
            run_made.rows, run_made.transcript, margins, params, stance, universe, context
        )
    else:
        released = run_made.rows
        outcome = published(released, run_made.transcript, params, stance, universe, context)
    truth = run_made.truth
    private = {
        "empty_records": masks.empty,
        "merged_duplicates": masks.merged,
        "real_splits": truth.real_splits,
        "false_splits": run_made.transcript.splits - truth.real_splits,
        "real_rows": truth.real_rows,
        "false_rows": len(run_made.rows) - truth.real_rows,
        "records_covered": truth.records_covered,
    }
    return _evaluated(outcome, dataset, params, universe, released, private, context)


def published(
    rows: tuple[Row, ...],
    transcript: Transcript,
    params: Parameters,
    stance: Stance,
    universe: tuple[str, ...],
    context: Context,
) -> Outcome:
    """Everything that leaves a run of `diffpart`: a function of noisy counts."""
    return Outcome(
        result=_summary("diffpart", rows, transcript),
        report=_report(params, stance, universe, rows, transcript, None),
        files=(*_release_files(rows, universe, context), _splits_file(transcript)),
        plots=plots_of(rows),
    )


def published_with_rest(
    measured: tuple[Row, ...],
    transcript: Transcript,
    margins: Margins,
    params: Parameters,
    stance: Stance,
    universe: tuple[str, ...],
    context: Context,
    draws: Fraction = ONE_DRAW,
) -> tuple[Outcome, tuple[Row, ...]]:
    """Everything that leaves a run of `diffpart+rest` or `rest`, and its rows: those of DiffPart,
    then what they lack, drawn from the context's stream. A function of noisy counts; draws: whole
    noises that each holds. Raises RowCap."""
    method = "diffpart+rest" if margins.shares.diffpart else "rest"
    rows = Measured.of(measured, len(universe))
    left = remainder(margins, rows)
    beat = partial(context.progress, 0.85, "drawing the rest")
    rest = rest_rows(left, params.max_rows - len(measured), context.noise("rest"), beat)
    released = (*measured, *rest)
    beat = partial(context.progress, 0.9, "simulating the error")
    errors = errors_of_items(margins, rows, params.epsilon, beat, draws)
    summary = {
        "lengths": margins.lengths.tolist(),
        "items_kept": margins.kept,
        "rest_rows": len(rest),
        "rest_records": sum(count for _, count in rest),
    }
    outcome = Outcome(
        result={**_summary(method, released, transcript), **summary},
        report=_report(params, stance, universe, measured, transcript, margins, errors, draws),
        files=(
            *_files_by_kind(measured, rest, universe, context),
            _items_file(margins, universe, draws),
            _splits_file(transcript),
        ),
        plots=plots_of(released),
    )
    return outcome, released


def _summary(method: str, rows: Sequence[Row], transcript: Transcript) -> dict[str, Any]:
    return {
        "method": method,
        "rows": len(rows),
        "records": sum(count for _, count in rows),
        "partitions_split": transcript.splits,
    }


def _report(
    params: Parameters,
    stance: Stance,
    universe: tuple[str, ...],
    rows: Sequence[Row],
    transcript: Transcript,
    margins: Margins | None,
    errors: FileErrors | None = None,
    draws: Fraction = ONE_DRAW,
) -> PrivacyReport:
    return set_valued_report(
        params,
        stance,
        len(universe),
        splits=transcript.splits,
        rows=len(rows),
        derived=params.universe is None,
        margins=margins,
        errors=errors,
        draws=draws,
    )


def _run_basic(
    dataset: Transactions,
    params: Parameters,
    universe: tuple[str, ...],
    stance: Stance,
    context: Context,
) -> Outcome:
    sets = itemsets(dataset, universe, context)
    exact = exact_histogram(sets, len(universe))
    noisy = noisy_histogram(exact, params.epsilon, stance, context)
    outcome, rows = histogram_outcome(noisy, params, stance, universe, context)
    return _evaluated(outcome, dataset, params, universe, rows, {}, context, noisy)


def histogram_outcome(
    noisy: NDArray[Any],
    params: Parameters,
    stance: Stance,
    universe: tuple[str, ...],
    context: Context,
    draws: Fraction = ONE_DRAW,
) -> tuple[Outcome, tuple[Row, ...]]:
    """What is published of a noisy histogram (2^items,), and its rows; draws: whole noises that a
    cell holds. Raises RowCap."""
    cells = clipped(noisy)
    if np.count_nonzero(cells) > params.max_rows:
        raise RowCap(params.max_rows, "A histogram has about half of its empty cells above 0.")
    rows = rows_of(cells, lambda: context.progress(0.85, "sorting"))
    buffer = io.BytesIO()
    np.save(buffer, noisy)
    outcome = Outcome(
        result={
            "method": "basic",
            "rows": len(rows),
            "records": int(cells.sum()),
        },
        report=set_valued_report(
            params,
            stance,
            len(universe),
            derived=params.universe is None,
            errors=errors_of_histogram(noisy, params, len(universe), draws),
            draws=draws,
        ),
        files=(
            *_release_files(rows, universe, context),
            ResultFile.binary(
                "histogram.npy",
                buffer.getvalue(),
                "noisy count of each itemset by bit mask (bit i: item i of the universe)",
            ),
        ),
        plots=plots_of(rows),
    )
    return outcome, rows


def preview(params: Parameters, stance: Stance, draws: Fraction = ONE_DRAW) -> PrivacyReport:
    """The report of a run, before any data; draws: whole noises that a count holds. Raises what
    `check_parameters` raises."""
    known = params.universe is not None and not isinstance(params.universe, DatasetReference)
    items = len(params.universe) if known else None  # type: ignore[arg-type]
    derived = params.universe is None
    return set_valued_report(params, stance, items, derived=derived, draws=draws)


# ------------------------------------------------------------------------------------ evaluation


def _evaluated(
    outcome: Outcome,
    dataset: Transactions,
    params: Parameters,
    universe: tuple[str, ...],
    rows: Sequence[Row],
    private: dict[str, Any],
    context: Context,
    histogram: NDArray[Any] | None = None,
) -> Outcome:
    """With the requested comparison, if any."""
    context.progress(0.97, "releasing")
    if params.metrics is None:
        return outcome
    raw = deduplicated(itemsets(dataset, universe, context), len(universe))
    compared = evaluate(
        raw,
        rows,
        len(universe),
        params.metrics,
        lambda: context.progress(0.98, "evaluating"),
        histogram,
    )
    return replace(outcome, evaluation={**private, **compared})


# ----------------------------------------------------------------------------------------- files


def _release_files(
    rows: Sequence[Row], universe: tuple[str, ...], context: Context
) -> tuple[ResultFile, ...]:
    about = "synthetic records: how many hold exactly these items"
    return multiset_files("release", about, _named(rows, universe, context))


def _files_by_kind(
    measured: Sequence[Row], rest: Sequence[Row], universe: tuple[str, ...], context: Context
) -> tuple[ResultFile, ...]:
    """The same with a column that says where a row comes from."""
    table, lines = io.StringIO(), io.StringIO()
    table.write(line_of(("kind", "count", "length", "items")))
    for kind, rows in (("measured", measured), ("rest", rest)):
        for items, count in _named(rows, universe, context):
            table.write(line_of((kind, count, len(items), listed(items))))
            row = {"kind": kind, "items": items, "count": count}
            lines.write(json.dumps(row, ensure_ascii=False) + "\n")
    about = "synthetic records; items are independent inside the kind rest, outside its basis"
    return (
        ResultFile.csv("release.csv", table.getvalue(), about),
        ResultFile("release.ndjson", "application/x-ndjson", lines.getvalue().encode(), about),
    )


def _named(rows: Sequence[Row], universe: tuple[str, ...], context: Context) -> Iterator[Named]:
    for number, (items, count) in enumerate(rows):
        if number % _BEAT_ROWS == 0:
            context.progress(0.95, "writing")
        yield [universe[item] for item in items], count


def _items_file(margins: Margins, universe: tuple[str, ...], draws: Fraction) -> ResultFile:
    """A line for each item in the order of the universe."""
    text = io.StringIO()
    text.write(line_of(("item", "noisy", "records")))
    estimates = estimated_items(margins, draws).tolist()
    for item, noisy, estimate in zip(universe, margins.items.tolist(), estimates, strict=True):
        text.write(line_of((item, noisy, f"{estimate:.6g}")))
    about = "records with each item: the noisy count of those that kept it, and an estimate of all"
    return ResultFile.csv("items.csv", text.getvalue(), about)


def _splits_file(transcript: Transcript) -> ResultFile:
    """Every kind of test, cheapest first: exact cost, threshold, chance of an empty one."""
    text = io.StringIO()
    text.write(line_of(("epsilon", "cells", "threshold", "chance_of_empty", "splits")))
    kinds: Counter[tuple[Fraction, int, float, Fraction]] = Counter()
    for (cells, test), splits in transcript.tests.items():
        kinds[test.rate, cells, test.threshold, test.chance] += splits
    for (rate, cells, threshold, chance), splits in sorted(kinds.items()):
        text.write(line_of((format_exact(rate), cells, threshold, f"{float(chance):.12g}", splits)))
    return ResultFile.csv("splits.csv", text.getvalue(), "the tests of the run, by kind")


# --- plots of the release ------------------------------------------------------------------------


_POINTS: Final = 2_000


def plots_of(rows: Sequence[Row]) -> tuple[Plot, ...]:
    """Both plots; none without rows."""
    if not rows:
        return ()
    counts = np.array([count for _, count in rows])
    lengths = np.array([len(items) for items, _ in rows])
    ordered = np.sort(counts)[::-1]
    shown = np.unique(np.geomspace(1, counts.size, _POINTS).astype(int))
    return (
        Plot.of("counts", ranks=shown, counts=ordered[shown - 1]),
        Plot.of("lengths", records=np.bincount(lengths, counts)[1:], sets=np.bincount(lengths)[1:]),
    )


def _counts(axes: Axes, values: Mapping[str, Any]) -> None:
    axes.set_title("Released counts by rank")
    line = {"color": BLUE, "markersize": 3, "linewidth": 0.8}
    axes.loglog(values["ranks"], values["counts"], ".-", **line)
    axes.set_xlabel("rank of the itemset")
    axes.set_ylabel("noisy count (records)")


def _lengths(axes: Axes, values: Mapping[str, Any]) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_title("Released itemsets and records by length")
    places = np.arange(1, len(values["sets"]) + 1)
    axes.bar(places - 0.2, values["records"], 0.4, color=BLUE, label="records")
    axes.bar(places + 0.2, values["sets"], 0.4, color=RED, label="distinct itemsets")
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("items in the set")
    axes.set_ylabel("released")
    axes.legend(frameon=False)


ALGORITHM: Final = Algorithm(
    name=NAME,
    title="Set-valued data release (DiffPart)",
    source="Chen's thesis, chapter 4, Algorithms 4.1 and 4.2",
    purpose="a synthetic multiset of itemsets for counting queries and frequent itemsets, so that "
    "no record can be inferred",
    dataset_kind="transactions",
    params=Parameters,
    stances=("sound", "paper"),
    run=run,
    preview=preview,
    result=RESULT,
    complexity="time O(records x touched nodes) and at most eta / (1 - eta) times as many false "
    "partitions as real ones in expectation; memory about 2 bytes for each touched node",
    check=check,
    drawings={"counts": Drawing(_counts), "lengths": Drawing(_lengths)},
)
