"""The privacy report of a run: claimed and verified guarantees, for both stances.

Spec: sequential-prefix-tree, sections 4 and 9; jobs, "Privacy report". Made of public parameters
alone.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Final

from algorithms.contract import NEEDS_LIST, Stance, Work, by_size, without_verdict
from algorithms.counts.released_files import FileErrors
from algorithms.sequential_prefix_tree.parameters import (
    ONE_DRAW,
    Parameters,
    Settings,
    check_parameters,
    known_layout,
    settings_of,
)
from tacit.noise import sampler_delta
from tacit.records.items import MAX_TOTAL_ITEMS
from tacit.report.builder import (
    FOR_SUBMITTER,
    NOISE_SOURCE,
    RUN_TIME_UNSEEN,
    ReportBuilder,
    pure_dp,
    voided_by,
)
from tacit.report.figures import amount
from tacit.report.model import Claim, PrivacyReport, SensitivityStatement
from tacit.wire import format_exact

NAME: Final = "sequential-prefix-tree"
THEOREM: Final = "Chen's thesis, chapter 6, Theorem 6.4"

WORK: Final = Work(item_bytes=2_500, item_us=6, entry_bytes=40, entry_us=2.2)
_SPLIT: Final = (
    "The printed split gives groups 2/f of a level's budget, all of it at f = 2, the source's own "
    "illustration: the items would get noise without bound. Sound gives groups half at most; paper "
    "refuses."
)
_SUPERCRITICAL: Final = (
    "With the printed threshold of the simple form an empty node has 0.02955 L empty children in "
    "expectation: from 34 items on they multiply without end (944 items: 27.9 a level), and the "
    "printed figures cannot come from it. Sound asks for ln L at least; paper refuses."
)
_CONSTRAINTS: Final = (
    "The printed consistency can leave a child above its parent and counts below 0 (a parent of 4 "
    "with children 12, 3, 3, 3, 3, 3, 3: 4.9388 and -0.0612). Sound projects instead. No loss of "
    "privacy."
)
_AVERAGE: Final = (
    "The fitted values of a node over its paths are no independent observations, as is said: they "
    "share their ancestors' noise. Their mean is a heuristic; no loss of privacy."
)
_HEIGHT: Final = "The height chosen by looking at errors on the data is not covered by epsilon."


def prefix_tree_report(
    params: Parameters,
    stance: Stance,
    errors: FileErrors | None = None,
    draws: Fraction = ONE_DRAW,
) -> PrivacyReport:
    """The report of a run, planned or done (then with the errors of its file); draws: whole noises
    that a count holds. Raises what `check_parameters` raises."""
    check_parameters(params, stance)
    layout = known_layout(params)
    settings = None if layout is None else settings_of(params, stance, layout, draws)
    builder = ReportBuilder(NAME, "tacit algorithms.sequential_prefix_tree", stance, "sequence")
    return builder.report(
        "noisy prefix tree",
        {
            "form": "hybrid" if params.hybrid else "simple",
            "height": params.height,
            "time_bins": params.bins,
        },
        sensitivity=tuple(
            SensitivityStatement(value="1", source="declared", part=part) for part in _parts(params)
        ),
        claimed=Claim(
            **pure_dp(params.epsilon),
            theorem=THEOREM,
            text="epsilon-differential privacy (Theorem 6.4)",
        ),
        verified=builder.neighbour_lines(
            params.epsilon,
            "one sequence of any length more or less",
            "one sequence replaced by another",
            "a removal and an addition: two paths",
        ),
        charged=builder.charge(params.epsilon),
        noise=tuple(builder.noise(*scale) for scale in _scales(params, settings)),
        sampler=_sampler_delta(params),
        method="a sequence is in at most one group and one item of each level, whatever its "
        "length: the budgets of the two counts, over all levels, add up to epsilon exactly as "
        "fractions; which nodes are asked follows from noisy counts alone (adaptive composition of "
        "pure DP)",
        public_parameters=(
            "universe and its order" + (", taxonomy" if params.hybrid else ""),
            "epsilon, height, thresholds, max_nodes, time_bins, timestamps"
            + (", split" if params.hybrid else ""),
        ),
        post_processing=(
            "consistency: isotonic paths, their mean at each node, then top down "
            + ("as printed" if builder.paper else "a projection on the children's constraints"),
            "how many sequences end at a node: rounded half up, at least 0",
        ),
        not_protected=(
            "The unit is one sequence. Someone with m sequences is protected with m epsilon, not "
            "as one.",
            "What many sequences have in common is what the release is there to show; it is not "
            "hidden. Families and groups that travel together count as many.",
            "Items beyond the height do not count at all.",
            FOR_SUBMITTER,
        ),
        source_defects=_defects(params),
        voided_by=voided_by(
            "the universe or the taxonomy derived from the data", "parameters tuned on the raw data"
        ),
        assumptions=(
            "The coordinator keeps the sequences and is trusted with them.",
            "Universe, taxonomy, height, thresholds, split and every other parameter were chosen "
            "without looking at the data.",
            "One sequence for each person; sequences of different people are independent.",
            RUN_TIME_UNSEEN,
            NOISE_SOURCE,
        ),
        caveats=builder.caveats(evaluated=params.metrics is not None),
        evaluation_attached=params.metrics is not None,
        error=_error(params, stance, settings, errors),
        details=_details(params, settings),
    )


def _parts(params: Parameters) -> tuple[str, ...]:
    items = "counts of the items of a level"
    return ("counts of the groups of a level", items) if params.hybrid else (items,)


def _scales(
    params: Parameters, settings: Settings | None
) -> tuple[tuple[str, Fraction | None], ...]:
    """The parts that are counted, and the scale of their noise, if known."""
    parts = _parts(params)
    if settings is None:
        return tuple((part, None) for part in parts)
    tests = [test for test in (settings.group_test, settings.item_test) if test is not None]
    return tuple((part, 1 / test.rate) for part, test in zip(parts, tests, strict=True))


def _sampler_delta(params: Parameters) -> Fraction:
    """Occupied candidates number two for each item of the data at most. Of empty ones max_nodes
    are expected to pass a test at most; a coin that is thrown shows heads at most 4 times too
    often, or once in 20 million, and costs two draws."""
    empty = 24 * params.height * (params.max_nodes + (1 << 24))
    return sampler_delta(2 * MAX_TOTAL_ITEMS + empty, params.epsilon)


def _defects(params: Parameters) -> tuple[str, ...]:
    form = _SPLIT if params.hybrid else _SUPERCRITICAL
    return (form, _CONSTRAINTS, _AVERAGE, _HEIGHT)


def _error(
    params: Parameters, stance: Stance, settings: Settings | None, errors: FileErrors | None
) -> dict[str, Any] | None:
    """From public values only."""
    if settings is None:
        return None if stance == "paper" else without_verdict({}, NEEDS_LIST)
    layout, groups = settings.layout, settings.group_test
    deviation = math.sqrt(2 * settings.draws) / float(settings.item_test.rate)
    result: dict[str, Any] = {
        "candidates_of_the_first_level": layout.items if groups is None else layout.count,
        "items_below_a_node_at_most": layout.items,
        "nodes_expected_without_data": f"{sum(settings.false_nodes):.6g}",
        "basis": "a prefix that fewer sequences share than a threshold is not explored; its "
        "sequences end where it is cut",
        "threshold_of_items": amount(Fraction(settings.item_test.threshold)),
        "noise_standard_deviation_of_items": amount(Fraction(deviation)),
    }
    if groups is not None:
        result["threshold_of_groups"] = amount(Fraction(groups.threshold))
    if params.height == 1:
        result["basis"] += "; only first items are counted"
    if errors is not None:
        result["basis_of_first_items"] = (
            "file less truth, of how many sequences begin with an item, by what the run made of "
            "its noisy counts: thresholds, consistent counts, whole copies. Later items are lost "
            "where a prefix is cut, which the noisy counts do not show"
        )
        result["first_items"] = errors.json()
    if stance == "paper":
        return result
    result["work"] = WORK.json(settings.layout.items)
    if errors is None:
        return by_size(result, deviation, "how many sequences share a beginning")
    return errors.with_verdict(result, "first items")


def _details(params: Parameters, settings: Settings | None) -> dict[str, Any]:
    details: dict[str, Any] = {
        "per_person": "epsilon * sequences per person",
        "evaluation_is_private": True,
        "height": params.height,
    }
    if settings is None:
        return details
    layout, groups = settings.layout, settings.group_test
    of_groups = Fraction(0) if groups is None else groups.rate
    budget = [format_exact(of_groups), format_exact(settings.item_test.rate)]
    details |= {
        "budget_table": {str(level): budget for level in range(1, params.height + 1)},
        "universe_size": layout.items,
        "thresholds": {"items": settings.item_test.threshold},
        "branching_factor": f"{settings.factor:.6g}",
    }
    if groups is not None:
        details |= {
            "groups": layout.count,
            "mean_group_size": format_exact(layout.mean_size),
            "split": format_exact(of_groups / params.level_budget),
        }
        details["thresholds"]["groups"] = groups.threshold
    return details
