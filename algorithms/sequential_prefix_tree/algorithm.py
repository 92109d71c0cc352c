"""Prefix-tree release as the catalogue knows it: run, preview, check, and what a result holds.

Spec: sequential-prefix-tree, section 2; jobs, "Catalogue" and "Result".
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from algorithms.contract import Algorithm, Context, Outcome, ResultFile, Stance
from algorithms.counts.released_files import (
    Cut,
    ErrorOfCounts,
    Named,
    errors_of_counts,
    multiset_files,
)
from algorithms.sequential_prefix_tree.counts import Indices
from algorithms.sequential_prefix_tree.evaluation import evaluate
from algorithms.sequential_prefix_tree.parameters import (
    Parameters,
    Settings,
    resolved,
)
from algorithms.sequential_prefix_tree.pictures import pictures
from algorithms.sequential_prefix_tree.publication import Release, publish
from algorithms.sequential_prefix_tree.report import NAME, prefix_tree_report
from tacit.records.items import Sequences
from tacit.records.text_files import MalformedRow, line_of, listed
from tacit.report.model import PrivacyReport

_BEAT_ROWS: Final = 16_384

RESULT: Final = {
    "form": "hybrid (groups first) or simple",
    "nodes": "how many prefixes the tree has",
    "nodes_by_level": "the same by length",
    "sequences": "how many synthetic sequences there are",
    "rows": "how many distinct ones",
    "synthetic.csv": "one line for each synthetic sequence: how often it is there, its length, its "
    "items",
    "synthetic.ndjson": "the same as JSON; in the CSV items are between blanks, and in "
    "quotes where one has a blank",
    "synthetic.txt": "the same with a line for each time that it is there (expanded)",
    "tree.csv": "one line for each prefix: its noisy count, that count consolidated over its paths "
    "and made consistent with its parent, its length, its items",
}


def check(dataset: Sequences, params: Parameters, stance: Stance) -> None:
    """Refuse sequences with an item outside the universe, or with a time that falls.

    Raises UnknownItem, MalformedRow, and what parameters raise.
    """
    _fitting(dataset, resolved(params, stance)[0], params.time_bins)


def _fitting(dataset: Sequences, universe: tuple[str, ...], bins: int) -> Sequences:
    data = dataset.over(universe)
    if bins > 1 and data.items.size > 1:
        falls = np.diff(data.items // (len(universe) // bins)) < 0
        borders = data.starts[1:-1]
        falls[borders[(borders > 0) & (borders < data.items.size)] - 1] = False
        if falls.any():
            entry = int(falls.argmax()) + 1
            row = int(np.searchsorted(data.starts, entry, side="right"))
            column = 1 + entry - int(data.starts[row - 1])
            raise MalformedRow(row, "times do not fall in a sequence", column)
    return data


def run(dataset: Sequences, params: Parameters, stance: Stance, context: Context) -> Outcome:
    """A release. Raises what `check` raises, TreeTooLarge, Cancelled."""
    universe, settings = resolved(params, stance)
    data = _fitting(dataset, universe, params.time_bins)
    release = publish(data, settings, context)
    outcome = published(release, params, settings, universe, context)
    context.progress(0.97, "releasing")
    if params.metrics is None:
        return outcome
    compared = evaluate(data, release, settings.height, params.metrics, context)
    return replace(outcome, evaluation=compared)


def published(
    release: Release,
    params: Parameters,
    settings: Settings,
    universe: tuple[str, ...],
    context: Context,
) -> Outcome:
    """Everything that leaves a run: a function of noisy counts and public choices."""
    return Outcome(
        result={
            "form": "hybrid" if params.hybrid else "simple",
            "nodes": release.tree.nodes,
            "nodes_by_level": [level.size for level in release.tree.levels],
            "sequences": release.sequences,
            "rows": release.rows,
        },
        report=prefix_tree_report(params, settings.stance, file_errors(release, settings)),
        files=(
            *_synthetic_files(release, universe, context, expanded=params.expanded),
            _tree_file(release, universe, context),
        ),
        plots=pictures(release, partial(context.progress, 0.95, "plotting")),
    )


def file_errors(release: Release, settings: Settings) -> tuple[ErrorOfCounts, ...]:
    """Of how many synthetic sequences begin with each item."""
    if not release.tree.levels:
        return ()
    first = release.tree.levels[0]
    held = np.zeros(first.size)
    for depth, copies in enumerate(release.copies, start=1):
        chosen = np.flatnonzero(copies)
        beginnings = release.tree.chain(depth, chosen)[-1]
        held += np.bincount(beginnings, copies[chosen], minlength=first.size)
    test = settings.item_test
    noise = 1 / float(test.rate), float(settings.draws)
    cut = Cut(float(test.threshold), settings.layout.items - first.size)
    return errors_of_counts(first.counts.astype(np.float64), held, *noise, cut)


def preview(params: Parameters, stance: Stance) -> PrivacyReport:
    """The report of a run, before any data. Raises what `check_parameters` raises."""
    return prefix_tree_report(params, stance)


# ----------------------------------------------------------------------------------------- files


def _synthetic_files(
    release: Release, universe: tuple[str, ...], context: Context, *, expanded: bool
) -> tuple[ResultFile, ...]:
    about = "synthetic sequences with their multiplicities"
    files = multiset_files("synthetic", about, _synthetic(release, universe, context))
    if not expanded:
        return files
    text = io.StringIO()
    for items, count in _synthetic(release, universe, context):
        text.write((listed(items) + "\n") * count)
    whole = ResultFile(
        "synthetic.txt", "text/plain", text.getvalue().encode(), "a line for each sequence"
    )
    return (*files, whole)


def _synthetic(release: Release, universe: tuple[str, ...], context: Context) -> Iterator[Named]:
    for depth, copies in enumerate(release.copies, start=1):
        for chosen in _spans(np.flatnonzero(copies), context):
            prefixes = release.tree.prefixes(depth, chosen).tolist()
            for items, count in zip(prefixes, copies[chosen].tolist(), strict=True):
                yield [universe[item] for item in items], count


def _tree_file(release: Release, universe: tuple[str, ...], context: Context) -> ResultFile:
    text = io.StringIO()
    text.write(line_of(("noisy", "consolidated", "consistent", "length", "items")))
    for depth, level in enumerate(release.tree.levels, start=1):
        for chosen in _spans(np.arange(level.size), context):
            prefixes = release.tree.prefixes(depth, chosen).tolist()
            rows = zip(
                level.counts[chosen].tolist(),
                release.consolidated[depth - 1][chosen].tolist(),
                release.consistent[depth - 1][chosen].tolist(),
                prefixes,
                strict=True,
            )
            for noisy, fitted, count, items in rows:
                names = listed(universe[item] for item in items)
                text.write(line_of((noisy, f"{fitted:.10g}", f"{count:.10g}", depth, names)))
    return ResultFile("tree.csv", "text/csv", text.getvalue().encode(), "prefixes and their counts")


def _spans(places: Indices, context: Context) -> Iterator[Indices]:
    """Some at a time."""
    for first in range(0, places.size, _BEAT_ROWS):
        context.progress(0.85, "writing")
        yield places[first : first + _BEAT_ROWS]


ALGORITHM: Final = Algorithm(
    name=NAME,
    title="Sequential data through a noisy prefix tree",
    source="Chen's thesis, chapter 6, Algorithms 6.1 and 6.2",
    purpose="a synthetic file of sequences for count queries and frequent patterns, so that no "
    "sequence can be inferred; for short sequences over many items, or sequences of any length of "
    "which the beginning matters",
    dataset_kind="sequences",
    params=Parameters,
    stances=("sound", "paper"),
    run=run,
    preview=preview,
    result=RESULT,
    complexity="time O(height x (sequences + nodes)) for the tree, whatever the size of the "
    "universe, O(height^2 x leaves) for consistency; memory O(items of the data + nodes)",
    check=check,
)
