"""N-gram release as the catalogue knows it: run, preview, check, and what a result holds.

Spec: sequential-ngram, section 2; jobs, "Catalogue" and "Result".
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from hashlib import sha256
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from algorithms.contract import (
    Algorithm,
    Context,
    Drawing,
    Outcome,
    Plot,
    ResultFile,
    SequentialContext,
    Stance,
)
from algorithms.counts.keeper import adder
from algorithms.counts.released_files import FileErrors, Named, errors_of_counts, multiset_files
from algorithms.counts.rounds import Counting, PlannedQuestion, counting_rounds, with_cell_limit
from algorithms.drawing import BLUE, COLOURS
from algorithms.sequential_ngram.counts import COUNTING, State, grow, truncated
from algorithms.sequential_ngram.evaluation import Text, commonest, evaluate, patterns_at
from algorithms.sequential_ngram.grams import Grams
from algorithms.sequential_ngram.joining import Multiset
from algorithms.sequential_ngram.parameters import (
    Parameters,
    first_state,
    resolved_universe,
    settings_of,
)
from algorithms.sequential_ngram.publication import Release, released
from algorithms.sequential_ngram.report import NAME, ngram_report
from algorithms.sequential_ngram.settings import ONE_DRAW, least_budget
from tacit.encoders.sequential_ngram_counts import COUNTER, LengthsByRange
from tacit.records.items import Sequences
from tacit.records.text_files import line_of, listed
from tacit.report.model import PrivacyReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_BEAT_ROWS: Final = 16_384
_MEASURED: Final = "released"
_ESTIMATED: Final = "estimated"
_EXTENDED: Final = "extended"
_BEYOND_NOISE: Final = "beyond noise"
_MAY_BE_NOISE: Final = "may be noise"

RESULT: Final = {
    "l_max": "items of a sequence that counted",
    "sequences": "how many synthetic sequences there are",
    "rows": "how many distinct ones",
    "grams": "how many grams of up to n_max items are released",
    "extended_grams": "how many longer ones",
    "patterns": "the ten most frequent grams of two or more items, their counts, and in "
    "sound what these rest on",
    "synthetic.csv": "one line for each synthetic sequence: how often it is there, its length, its "
    "items",
    "synthetic.ndjson": "the same as JSON; in the CSV items are between blanks, and in "
    "quotes where one has a blank",
    "grams.csv": "one line for each gram: its count, its length, whether it was measured "
    "(released), filled in (estimated) or made longer by the Markov assumption (extended), its "
    "items",
    "patterns.csv": "the top_k most frequent grams of two or more items. In sound with evidence: "
    "beyond noise (noise alone makes such a gram in at most one of 20 releases), may be noise, or "
    "estimated (not measured)",
}


def check(dataset: Sequences, params: Parameters, stance: Stance) -> None:
    """Refuse sequences with an item outside the universe. Raises UnknownItem and what parameters
    raise."""
    dataset.over(resolved_universe(params, stance))


def run(dataset: Sequences, params: Parameters, stance: Stance, context: Context) -> Outcome:
    """A release. Raises what `check` raises, TreeTooLarge, Cancelled."""
    universe = resolved_universe(params, stance)
    data = dataset.over(universe)
    context.progress(0.0, "starting")
    state = first_state(params, stance, len(universe))
    release = released(grow(data, state, adder(stance), context), context)
    outcome = published(release, params, stance, universe, context)
    return _evaluated(outcome, data, params, release, context)


def published(
    release: Release,
    params: Parameters,
    stance: Stance,
    universe: tuple[str, ...],
    context: Context,
) -> Outcome:
    """Everything that leaves a run: a function of noisy counts and public choices."""
    patterns = _patterns(release.grams, params.top_k, stance, universe)
    known = release.grams.bounds[release.grams.extended - 1]
    context.progress(0.85, "writing")
    return Outcome(
        result={
            "l_max": release.transcript.settings.l_max,
            "sequences": release.synthetic.sequences,
            "rows": int(release.synthetic.counts.size),
            "grams": known,
            "extended_grams": release.grams.size - known,
            "patterns": patterns[:10],
        },
        report=ngram_report(
            params,
            stance,
            release.transcript,
            file_errors(release),
            release.transcript.settings.draws,
        ),
        files=(
            *multiset_files(
                "synthetic",
                "synthetic sequences with their multiplicities",
                _synthetic(release.synthetic, universe, context),
            ),
            _grams_file(release.grams, universe, context),
            _patterns_file(patterns, stance),
        ),
        plots=plots_of(release),
    )


def file_errors(release: Release) -> FileErrors:
    """Of how often the synthetic sequences have each single item."""
    settings = release.transcript.settings
    stretch = settings.lengths.stretch(settings.l_max) if settings.lengths else 1.0
    noise = stretch * settings.l_max / float(settings.root_budget), float(settings.draws)
    released = release.items.astype(np.float64)
    return FileErrors(errors_of_counts(release.root, released, *noise), released)


def preview(params: Parameters, stance: Stance, draws: Fraction = ONE_DRAW) -> PrivacyReport:
    """The report of a run, before any data; draws: whole noises that a count holds. Raises what
    `check_parameters` raises."""
    return ngram_report(params, stance, draws=draws)


def _evaluated(
    outcome: Outcome,
    data: Sequences,
    params: Parameters,
    release: Release,
    context: Context,
) -> Outcome:
    """With the requested comparison, if any."""
    context.progress(0.97, "releasing")
    if params.metrics is None:
        return outcome
    settings = release.transcript.settings
    compared = evaluate(
        data,
        Text.of_multiset(release.synthetic, settings.items),
        release.grams,
        settings.l_max,
        settings.n_max,
        params.metrics,
        partial(context.progress, 0.98, "evaluating"),
        settings.lengths.stretch(settings.l_max) if settings.lengths else 1.0,
    )
    return replace(outcome, evaluation=compared)


# ----------------------------------------------------------------------------------------- files


def _synthetic(synthetic: Multiset, universe: tuple[str, ...], context: Context) -> Iterable[Named]:
    for row, count in enumerate(synthetic.counts.tolist()):
        if row % _BEAT_ROWS == 0:
            context.progress(0.9, "writing")
        first, last = synthetic.starts[row : row + 2]
        yield [universe[item] for item in synthetic.items[first:last].tolist()], count


def _grams_file(grams: Grams, universe: tuple[str, ...], context: Context) -> ResultFile:
    text = io.StringIO()
    text.write(line_of(("count", "length", "kind", "items")))
    for first, last in _spans(grams.bounds, context):
        chosen = np.arange(first, last)
        longer = first >= grams.bounds[grams.extended - 1]
        measured = grams.measured[first:last].tolist()
        rows = _named(grams, chosen, grams.counts[first:last].tolist(), universe)
        for (items, count), passed in zip(rows, measured, strict=True):
            kind = _EXTENDED if longer else _MEASURED if passed else _ESTIMATED
            text.write(line_of((count, len(items), kind, listed(items))))
    return ResultFile.csv("grams.csv", text.getvalue(), "grams and their noisy counts")


def _spans(bounds: tuple[int, ...], context: Context) -> Iterable[tuple[int, int]]:
    """Runs of grams of one length, in batches."""
    for begin, end in pairwise(bounds):
        for first in range(begin, end, _BEAT_ROWS):
            context.progress(0.9, "writing")
            yield first, min(first + _BEAT_ROWS, end)


def _named(
    grams: Grams, chosen: np.ndarray[Any, Any], counts: list[int], universe: tuple[str, ...]
) -> Iterable[Named]:
    if not chosen.size:
        return
    length = int(np.searchsorted(grams.bounds, chosen[0], side="right"))
    for items, count in zip(grams.listed(chosen, length).tolist(), counts, strict=True):
        yield [universe[item] for item in items], count


def _patterns(
    grams: Grams, count: int, stance: Stance, universe: tuple[str, ...]
) -> list[dict[str, Any]]:
    """The most frequent grams of two or more items; in `sound` with what each count rests on."""
    places = commonest(grams, count)
    patterns = [
        {"items": [universe[item] for item in gram], "count": number}
        for gram, number in patterns_at(grams, places)
    ]
    if stance == "paper":
        return patterns
    measured = np.where(grams.beyond_noise, _BEYOND_NOISE, _MAY_BE_NOISE)
    evidence = np.where(grams.measured, measured, _ESTIMATED)[places].tolist()
    return [row | {"evidence": rests_on} for row, rests_on in zip(patterns, evidence, strict=True)]


def _patterns_file(patterns: list[dict[str, Any]], stance: Stance) -> ResultFile:
    columns = ("evidence",) if stance == "sound" else ()
    text = io.StringIO()
    text.write(line_of(("rank", "count", "length", *columns, "items")))
    for rank, row in enumerate(patterns, start=1):
        cells = (row[column] for column in columns)
        text.write(line_of((rank, row["count"], len(row["items"]), *cells, listed(row["items"]))))
    return ResultFile.csv("patterns.csv", text.getvalue(), "the most frequent patterns")


# --- plots of the release ------------------------------------------------------------------------


_LINES: Final = len(COLOURS)
_POINTS: Final = 500


def plots_of(release: Release) -> tuple[Plot, ...]:
    """Both plots; none without sequences."""
    if not release.synthetic.sequences:
        return ()
    grams, by_length = release.grams, []
    for length in range(1, min(grams.longest, _LINES) + 1):
        counts = np.sort(grams.counts[grams.bounds[length - 1] : grams.bounds[length]])[::-1]
        shown = np.unique(np.geomspace(1, counts.size, _POINTS).astype(int))
        by_length.append({"ranks": shown, "counts": counts[shown - 1]})
    sequences = np.bincount(release.synthetic.lengths, release.synthetic.counts)[1:]
    return Plot.of("grams", by_length=by_length), Plot.of("lengths", sequences=sequences)


def _grams(axes: Axes, values: Mapping[str, Any]) -> None:
    axes.set_title("Released counts of grams by rank")
    for length, points in enumerate(values["by_length"], start=1):
        label = f"{length} item{'s' if length > 1 else ''}"
        axes.loglog(
            points["ranks"],
            points["counts"],
            ".-",
            color=COLOURS[length - 1],
            markersize=3,
            linewidth=0.8,
            label=label,
        )
    axes.set_xlabel("rank of the gram")
    axes.set_ylabel("noisy count (occurrences)")
    axes.legend(frameon=False)


def _lengths(axes: Axes, values: Mapping[str, Any]) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_title("Synthetic sequences by length")
    sequences = values["sequences"]
    axes.bar(np.arange(1, len(sequences) + 1), sequences, 0.7, color=BLUE)
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("items in the sequence")
    axes.set_ylabel("synthetic sequences")


# --- over curators --------------------------------------------------------------------------------


MOST_CELLS: Final = 4_096


def first(params: Parameters, draws: Fraction) -> State:
    """Before any question; draws: whole noises that a sum holds."""
    params = with_cell_limit(params, MOST_CELLS)
    universe = resolved_universe(params, "sound")
    return first_state(params, "sound", len(universe), draws)


def planned(params: Parameters) -> int:
    """The largest number of rounds."""
    return params.levels + bool(params.length_budget("sound"))


def planned_questions(params: Parameters, draws: Fraction) -> tuple[PlannedQuestion, ...]:
    """The lengths where they are requested, then level by level, with the least part of epsilon
    that a gram's successors may get and the longest sequences."""
    params = with_cell_limit(params, MOST_CELLS)
    items, l_max = len(resolved_universe(params, "sound")), params.longest("sound")
    settings = settings_of(params, "sound", items, l_max, draws)
    share = params.most_root_share("sound")
    least = least_budget(settings.epsilon, settings.n_max, params.budget, share)
    questions = []
    if lengths := params.length_budget("sound"):
        cells = int(LengthsByRange(items, params.length_cap).sizes[0])
        questions.append(PlannedQuestion("lengths", lengths, 1, None, None, cells, cells))
    for level in range(1, settings.n_max + 1):
        rate, group = (settings.root_budget, items) if level == 1 else (least, settings.symbols)
        most = group * items ** (level - 1)
        if level > 1 and params.max_cells is not None:
            most = min(most, params.max_cells)
        passed, chance = round(settings.threshold(rate)), 1 / max(settings.symbols, 4)
        questions.append(
            PlannedQuestion(f"level {level}", rate, l_max, passed, chance, group, most)
        )
    return tuple(questions)


def release(params: Parameters, state: State) -> Outcome:
    """What is published. The coins that round single items below the threshold are a function of
    the opened counts, so that a restart gives the same."""
    assert state.tree is not None
    public = SequentialContext(sha256(state.tree.noisy.tobytes()).digest())
    release_made = released(state.tree, public)
    return published(release_made, params, "sound", resolved_universe(params, "sound"), public)


ROUNDS: Final = counting_rounds(
    Counting(
        counter=COUNTER,
        questions=lambda _params, _draws: COUNTING,
        first=first,
        truncated=truncated,
        planned=planned,
        release=release,
        preview=lambda params, draws: preview(with_cell_limit(params, MOST_CELLS), "sound", draws),
        universe=lambda params: resolved_universe(params, "sound"),
        forecast=planned_questions,
    ),
    when="stance sound",
)


ALGORITHM: Final = Algorithm(
    name=NAME,
    title="Sequential data through variable-length n-grams",
    source="Chen's thesis, chapter 6, Algorithm 6.3",
    purpose="frequent runs of items, and a synthetic file of sequences, so that no sequence can be "
    "inferred; for long sequences over few items",
    dataset_kind="sequences",
    params=Parameters,
    stances=("sound", "paper"),
    run=run,
    preview=preview,
    result=RESULT,
    complexity="time O(n_max x items kept) for counting, O(expanded grams x universe) for noise, "
    "O(sum over released grams of length squared) for the synthetic file; memory about 30 bytes "
    "for each item kept",
    check=check,
    drawings={"grams": Drawing(_grams), "lengths": Drawing(_lengths)},
    rounds=ROUNDS,
)
