"""N-gram release as the catalogue knows it: run, preview, check, and what a result holds.

Spec: sequential-ngram, section 2; jobs, "Catalogue" and "Result".
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, Final

import numpy as np

from algorithms.contract import Algorithm, Context, Outcome, ResultFile, Stance
from algorithms.counts.keeper import adder
from algorithms.counts.released_files import ErrorOfCounts, Named, errors_of_counts, multiset_files
from algorithms.sequential_ngram.counts import grow
from algorithms.sequential_ngram.evaluation import Text, evaluate, released_patterns
from algorithms.sequential_ngram.parameters import (
    Parameters,
    first_state,
    resolved_universe,
)
from algorithms.sequential_ngram.pictures import pictures
from algorithms.sequential_ngram.publication import Grams, Release, released
from algorithms.sequential_ngram.report import NAME, ngram_report
from tacit.records.items import Sequences
from tacit.records.text_files import line_of, listed
from tacit.report.model import PrivacyReport

_BEAT_ROWS: Final = 16_384
_MEASURED: Final = "released"
_ESTIMATED: Final = "estimated"
_EXTENDED: Final = "extended"

RESULT: Final = {
    "l_max": "items of a sequence that counted",
    "sequences": "how many synthetic sequences there are",
    "rows": "how many distinct ones",
    "grams": "how many grams of up to n_max items are released",
    "extended_grams": "how many longer ones",
    "patterns": "the ten most frequent grams of two or more items, and their counts",
    "synthetic.csv": "one line for each synthetic sequence: how often it is there, its length, its "
    "items",
    "synthetic.ndjson": "the same as JSON; in the CSV items are between blanks, and in "
    "quotes where one has a blank",
    "grams.csv": "one line for each gram: its count, its length, whether it was measured "
    "(released), filled in (estimated) or made longer by the Markov assumption (extended), its "
    "items",
    "patterns.csv": "the top_k most frequent grams of two or more items",
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
    patterns = released_patterns(release.grams, params.top_k)
    named = [([universe[item] for item in gram], count) for gram, count in patterns]
    known = release.grams.bounds[release.grams.extended - 1]
    context.progress(0.85, "writing")
    return Outcome(
        result={
            "l_max": release.transcript.settings.l_max,
            "sequences": int(release.copies.sum()),
            "rows": int(np.count_nonzero(release.copies)),
            "grams": known,
            "extended_grams": release.grams.size - known,
            "patterns": [{"items": items, "count": count} for items, count in named[:10]],
        },
        report=ngram_report(params, stance, release.transcript, file_errors(release)),
        files=(
            *multiset_files(
                "synthetic",
                "synthetic sequences with their multiplicities",
                _synthetic(release, universe, context),
            ),
            _grams_file(release.grams, universe, context),
            _patterns_file(named),
        ),
        plots=pictures(release, partial(context.progress, 0.95, "plotting")),
    )


def file_errors(release: Release) -> tuple[ErrorOfCounts, ...]:
    """Of how often the synthetic sequences have each single item."""
    settings = release.transcript.settings
    noise = settings.l_max / float(settings.root_budget), float(settings.draws)
    return errors_of_counts(release.root, release.items.astype(np.float64), *noise)


def preview(params: Parameters, stance: Stance) -> PrivacyReport:
    """The report of a run, before any data. Raises what `check_parameters` raises."""
    return ngram_report(params, stance)


def _evaluated(
    outcome: Outcome,
    data: Sequences,
    params: Parameters,
    release: Release,
    context: Context,
) -> Outcome:
    """With the comparison that was asked for; nothing of it where none was."""
    context.progress(0.97, "releasing")
    if params.metrics is None:
        return outcome
    settings = release.transcript.settings
    compared = evaluate(
        data,
        Text.of_copies(release.grams, release.copies, settings.items),
        release.grams,
        settings.l_max,
        settings.n_max,
        params.metrics,
        partial(context.progress, 0.98, "evaluating"),
    )
    return replace(outcome, evaluation=compared)


# ----------------------------------------------------------------------------------------- files


def _synthetic(release: Release, universe: tuple[str, ...], context: Context) -> Iterable[Named]:
    grams, copies = release.grams, release.copies
    for first, last in _spans(grams.bounds, context):
        chosen = first + np.flatnonzero(copies[first:last])
        yield from _named(grams, chosen, copies[chosen].tolist(), universe)


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
    return ResultFile(
        "grams.csv", "text/csv", text.getvalue().encode(), "grams and their noisy counts"
    )


def _spans(bounds: tuple[int, ...], context: Context) -> Iterable[tuple[int, int]]:
    """Runs of grams of one length."""
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


def _patterns_file(patterns: list[Named]) -> ResultFile:
    text = io.StringIO()
    text.write(line_of(("rank", "count", "length", "items")))
    for rank, (items, count) in enumerate(patterns, start=1):
        text.write(line_of((rank, count, len(items), listed(items))))
    return ResultFile(
        "patterns.csv", "text/csv", text.getvalue().encode(), "the most frequent patterns"
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
)
