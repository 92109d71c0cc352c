"""Prefix-tree release as the catalogue knows it: run, preview, check, and what a result holds.

Spec: sequential-prefix-tree, section 2; jobs, "Catalogue" and "Result".
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
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
    item_names,
)
from algorithms.counts.released_files import (
    Cut,
    FileErrors,
    Named,
    errors_of_counts,
    multiset_files,
)
from algorithms.counts.rounds import Counting, PlannedQuestion, counting_rounds, with_cell_limit
from algorithms.drawing import BLUE, COLOURS, floats
from algorithms.sequential_prefix_tree import counts
from algorithms.sequential_prefix_tree.counts import (
    COUNTING,
    Indices,
    Release,
    State,
    publish,
    released,
    truncated,
)
from algorithms.sequential_prefix_tree.evaluation import evaluate
from algorithms.sequential_prefix_tree.parameters import (
    ONE_DRAW,
    Parameters,
    Settings,
    resolved,
)
from algorithms.sequential_prefix_tree.report import NAME, prefix_tree_report
from tacit.encoders.sequential_prefix_tree_counts import COUNTER
from tacit.records.items import Sequences
from tacit.records.text_files import MalformedRow, line_of, listed
from tacit.report.model import PrivacyReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    _fitting(dataset, resolved(params, stance)[0], params.bins)


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
    data = _fitting(dataset, universe, params.bins)
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
        report=prefix_tree_report(
            params, settings.stance, file_errors(release, settings), settings.draws
        ),
        files=(
            *_synthetic_files(release, universe, context, expanded=params.expanded),
            _tree_file(release, universe, context),
        ),
        plots=(*plots_of(release), *_plot_of_visits(release, params)),
    )


def file_errors(release: Release, settings: Settings) -> FileErrors:
    """Of how many synthetic sequences begin with each item."""
    if not release.tree.levels:
        return FileErrors((), np.zeros(0))
    first = release.tree.levels[0]
    released_counts = np.zeros(first.size)
    for depth, copies in enumerate(release.copies, start=1):
        chosen = np.flatnonzero(copies)
        beginnings = release.tree.chain(depth, chosen)[-1]
        released_counts += np.bincount(beginnings, copies[chosen], minlength=first.size)
    test = settings.item_test
    noise = 1 / float(test.rate), float(settings.draws)
    cut = Cut(float(test.threshold), settings.layout.items - first.size)
    errors = errors_of_counts(first.counts.astype(np.float64), released_counts, *noise, cut)
    return FileErrors(errors, released_counts, cut)


def preview(params: Parameters, stance: Stance, draws: Fraction = ONE_DRAW) -> PrivacyReport:
    """The report of a run, before any data; draws: whole noises that a count holds. Raises what
    `check_parameters` raises."""
    return prefix_tree_report(params, stance, draws=draws)


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
    return ResultFile.csv("tree.csv", text.getvalue(), "prefixes and their counts")


def _spans(places: Indices, context: Context) -> Iterator[Indices]:
    """The places in batches."""
    for first in range(0, places.size, _BEAT_ROWS):
        context.progress(0.85, "writing")
        yield places[first : first + _BEAT_ROWS]


# --- plots of the release ------------------------------------------------------------------------


_POINTS: Final = 400
_MOST_PLACES: Final = 25
_MOST_COLUMNS: Final = 96


def plots_of(release: Release) -> tuple[Plot, ...]:
    """Both plots; none without nodes."""
    if not release.tree.nodes:
        return ()
    by_level = []
    for level, consistent in zip(release.tree.levels, release.consistent, strict=False):
        order = np.argsort(level.counts, kind="stable")
        shown = order[np.unique(np.linspace(0, order.size - 1, _POINTS).astype(int))]
        by_level.append({"noisy": level.counts[shown], "consistent": consistent[shown]})
    return (
        Plot.of(
            "levels",
            nodes=[level.size for level in release.tree.levels],
            sequences=[copies.sum() for copies in release.copies],
        ),
        Plot.of("consistency", by_level=by_level[: len(COLOURS)]),
    )


def _plot_of_visits(release: Release, params: Parameters) -> tuple[Plot, ...]:
    """With timestamps: visits of the synthetic sequences by place and interval; the places with the
    most, neighbouring intervals together where there are many."""
    times = params.timestamps
    if times is None or not release.sequences:
        return ()
    places = item_names(params.universe)
    visits = np.zeros(times.universe * len(places), np.int64)
    for depth, copies in enumerate(release.copies, start=1):
        chosen = np.flatnonzero(copies)
        for items in release.tree.prefixes(depth, chosen).T:
            np.add.at(visits, items, copies[chosen])
    together = -(-times.universe // _MOST_COLUMNS)
    by_time = visits.reshape(times.universe, len(places)).T
    columns = np.add.reduceat(by_time, np.arange(0, times.universe, together), axis=1)
    most = np.argsort(-columns.sum(axis=1), kind="stable")[:_MOST_PLACES]
    return (
        Plot.of(
            "visits",
            places=[places[place] for place in most.tolist()],
            all_places=len(places),
            start_s=times.start_s,
            seconds=times.grain_s * together,
            visits=columns[most],
        ),
    )


def _visits(axes: Axes, values: Mapping[str, Any]) -> None:
    places, visits = values["places"], floats(values["visits"])
    shown = axes.imshow(visits, cmap="Blues", aspect="auto", vmin=0, interpolation="nearest")
    axes.figure.colorbar(shown, ax=axes, label="synthetic visits")
    axes.set_yticks(range(len(places)), places, fontsize=7 if len(places) > 12 else 9)
    for label in axes.get_yticklabels():
        label.set_parse_math(False)  # a place may have a dollar sign
    step = -(-visits.shape[1] // 8)
    columns = range(0, visits.shape[1], step)
    starts = [f"{values['start_s'] + column * values['seconds']:,}" for column in columns]
    axes.set_xticks(list(columns), starts)
    total = values["all_places"]
    which = "" if total == len(places) else f", the {len(places)} fullest of {total} places"
    axes.set_title(f"Visits by place and time{which}")
    axes.set_xlabel("start (s)")


def _levels(axes: Axes, values: Mapping[str, Any]) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_title("Nodes and synthetic sequences by level")
    places = np.arange(1, len(values["nodes"]) + 1)
    label = "sequences of this length"
    axes.bar(places - 0.2, values["nodes"], 0.4, color=BLUE, label="nodes of the tree")
    axes.bar(places + 0.2, values["sequences"], 0.4, color=COLOURS[1], label=label)
    axes.set_yscale("log")
    axes.set_ylim(bottom=0.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("level (items of a prefix)")
    axes.set_ylabel("number")
    axes.legend(frameon=False)


def _consistency(axes: Axes, values: Mapping[str, Any]) -> None:
    axes.set_title("Counts before and after consistency")
    highest = 1.0
    for depth, points in enumerate(values["by_level"]):
        highest = max(highest, *points["noisy"])
        axes.plot(
            points["noisy"],
            points["consistent"],
            ".",
            color=COLOURS[depth],
            markersize=3,
            label=f"level {depth + 1}",
        )
    axes.plot([0, highest], [0, highest], color="#bbbbbb", linewidth=0.8)
    axes.set_xscale("symlog", linthresh=10)
    axes.set_yscale("symlog", linthresh=10)
    axes.set_xlabel("noisy count (sequences)")
    axes.set_ylabel("consistent count")
    axes.legend(frameon=False)


# --- over curators --------------------------------------------------------------------------------


MOST_CELLS: Final = 16_384


def first(params: Parameters, draws: Fraction) -> State:
    """Before any question; draws: whole noises that a sum holds."""
    return counts.first(resolved(with_cell_limit(params, MOST_CELLS), "sound", draws)[1])


def planned(params: Parameters) -> int:
    """The largest number of rounds."""
    return params.height * (2 if params.hybrid else 1)


def planned_questions(params: Parameters, draws: Fraction) -> tuple[PlannedQuestion, ...]:
    """Groups where they are requested, and items, level by level."""
    params = with_cell_limit(params, MOST_CELLS)
    settings = resolved(params, "sound", draws)[1]
    layout, questions = settings.layout, []
    tests = [
        (
            "items",
            settings.item_test,
            layout.items if settings.group_test is None else int(layout.sizes.max()),
        )
    ]
    if settings.group_test is not None:
        tests.insert(0, ("groups", settings.group_test, layout.count))
    for level in range(1, params.height + 1):
        for counted, test, group in tests:
            most = (layout.items if counted == "items" else group) * layout.paths(level - 1)
            if level > 1 and params.max_cells is not None:
                most = min(most, params.max_cells)
            questions.append(
                PlannedQuestion(
                    f"{counted} of level {level}",
                    test.rate,
                    1,
                    round(test.threshold),
                    float(test.chance),
                    group,
                    most,
                )
            )
    return tuple(questions)


def release(params: Parameters, state: State) -> Outcome:
    """The result; nothing in it is drawn."""
    public = SequentialContext()
    release_made = released(state.tree, "sound", public)
    universe, _ = resolved(params, "sound")
    return published(release_made, params, state.settings, universe, public)


ROUNDS: Final = counting_rounds(
    Counting(
        counter=COUNTER,
        questions=lambda _params, _draws: COUNTING,
        first=first,
        truncated=truncated,
        planned=planned,
        release=release,
        preview=lambda params, draws: preview(with_cell_limit(params, MOST_CELLS), "sound", draws),
        universe=lambda params: resolved(params, "sound")[0],
        forecast=planned_questions,
    ),
    when="stance sound",
)


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
    drawings={
        "levels": Drawing(_levels),
        "consistency": Drawing(_consistency),
        "visits": Drawing(_visits),
    },
    rounds=ROUNDS,
)
