"""The privacy report of a run: claimed and verified guarantees, for both stances.

Spec: sequential-ngram, sections 4 and 9; jobs, "Privacy report". Made of public parameters and of
the released transcript alone.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Final

from algorithms.contract import NEEDS_LIST, Stance, Work, by_size, universe_size, without_verdict
from algorithms.counts.released_files import FileErrors
from algorithms.sequential_ngram.parameters import (
    Parameters,
    check_parameters,
    noise_scales,
    root_of,
)
from algorithms.sequential_ngram.publication import Transcript
from algorithms.sequential_ngram.settings import ONE_DRAW, empty_threshold
from tacit.noise import sampler_delta
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

NAME: Final = "sequential-ngram"
THEOREM: Final = "Chen's thesis, chapter 6, Theorem 6.6"

WORK: Final = Work(item_bytes=6_000, item_us=18, entry_bytes=150, entry_us=4.4)
_PARTS: Final = ("counts of grams, at most", "lengths")
"""The second only where l_max is auto."""

_OF_GRAMS: Final = (
    "consistency: successors add up to their gram's count; those below the threshold are "
    "estimated by the Markov parent (fill)",
    "whole counts, rounded down; longer grams by a Markov assumption; synthetic sequences "
    "from grams; patterns read from the grams",
)
_OF_ITEMS: Final = (
    "root threshold: counts of items below four scales of noise are estimated by the law of all "
    "counts; those below the threshold are 0 if all together are no more than noise",
    "whole counts; items are independent: synthetic sequences have them in a random order",
)

_BASIS_OF_GRAMS: Final = (
    "a gram that occurs less often than its threshold is not examined; noisy counts of single "
    "items have the most noise"
)
_BASIS_OF_ITEMS: Final = "the noise of counts of single items, which alone are asked"

DEFECTS: Final = (
    "The printed levels of a path are not rounded up. Without that no finite epsilon holds: as a "
    "count comes near the threshold they tend to 0 and the budget of its successors to infinity "
    "(Example 6.4.2's node would spend 2.516 epsilon). Both stances round up, as the example does.",
    "The printed algorithm asks for the end of a sequence among the single items too; then the "
    "guarantee is epsilon (1 + 1 / (n_max l_max)). Neither stance asks.",
    "The proof treats each of l_max paths as changed by one. What holds is an argument by start "
    "position: the grams that start at one place lie on one path, and a path spends epsilon at "
    "most.",
    "The stated sensitivity of a level, l_max - i + 1, omits the end sign. l_max is used "
    "throughout, and is needed.",
    "l_max and n_max chosen by trying them on the data are not covered by epsilon.",
    "Filling by ratio lets a poor Markov parent overrule good measurements: no loss of privacy, "
    "but of patterns.",
)


def ngram_report(
    params: Parameters,
    stance: Stance,
    transcript: Transcript | None = None,
    errors: FileErrors | None = None,
    draws: Fraction = ONE_DRAW,
) -> PrivacyReport:
    """The report of a run, with the errors of its file; without a transcript, of one that is
    planned. draws: whole noises that a count holds.

    Raises what `check_parameters` raises.
    """
    check_parameters(params, stance)
    items_alone = params.aim == "items"
    builder = ReportBuilder(NAME, "tacit algorithms.sequential_ngram", stance, "sequence")
    return builder.report(
        "variable-length n-grams",
        {
            **({"aim": params.aim} if items_alone else {}),
            "n_max": params.levels,
            "l_max": params.given_l_max(stance) or "auto",
            "budget": params.budget,
            "fill": params.fill_of(stance),
            "generation": params.generation,
            "root": root_of(params, stance),
        },
        sensitivity=_sensitivity(params, stance, transcript),
        claimed=Claim(**pure_dp(params.epsilon), theorem=THEOREM, text="epsilon-DP"),
        verified=builder.neighbour_lines(
            params.epsilon,
            "one sequence of any length more or less",
            "one sequence replaced by another",
        ),
        charged=builder.charge(params.epsilon),
        noise=tuple(map(builder.noise, _PARTS, noise_scales(params, stance))),
        sampler=_sampler_delta(params, stance),
        method="by start position: the grams of a sequence that start at one place are one path of "
        "the tree, whose budgets add up to epsilon at most, exactly as fractions; l_max places, "
        "each count with scale l_max over its budget; budgets follow from noisy counts alone "
        "(adaptive composition of pure DP)",
        public_parameters=(
            "universe and its order",
            f"epsilon, {'aim, ' * items_alone}n_max, budget, fill, generation, top_k, max_nodes",
            "epsilon_length, length_cap; the l_max and the share of single items that were found"
            if params.length_budget(stance)
            else "l_max",
            "the threshold of each group of counts",
        ),
        post_processing=(
            *(_OF_ITEMS if items_alone else _OF_GRAMS),
            *(
                ("fragments are joined until there are as many sequences as were counted",)
                if stance == "sound" and params.length_budget(stance)
                else ()
            ),
        ),
        not_protected=(
            "The unit is one sequence. Someone with m sequences is protected with m epsilon, not "
            "as one.",
            "What many sequences have in common is what the release is there to show; it is not "
            "hidden.",
            "Items beyond the first l_max of a sequence do not count at all.",
            FOR_SUBMITTER,
        ),
        source_defects=DEFECTS,
        voided_by=voided_by(
            "the universe derived from the data", "parameters tuned on the raw data"
        ),
        assumptions=(
            "The coordinator keeps the sequences and is trusted with them.",
            "Universe, l_max, n_max and every other parameter were chosen without looking at the "
            "data.",
            "One sequence for each person.",
            RUN_TIME_UNSEEN,
            NOISE_SOURCE,
        ),
        caveats=builder.caveats(evaluated=params.metrics is not None),
        evaluation_attached=params.metrics is not None,
        error=_error(params, stance, errors, draws),
        details=_details(params, stance, transcript),
    )


def _sensitivity(
    params: Parameters, stance: Stance, transcript: Transcript | None
) -> tuple[SensitivityStatement, ...]:
    l_max = params.longest(stance) if transcript is None else transcript.settings.l_max
    statement = SensitivityStatement(
        value=amount(l_max), source="declared", part="counts of the grams of one length"
    )
    if not params.length_budget(stance):
        return (statement,)
    return (statement, SensitivityStatement(value="1", source="declared", part="lengths"))


def _sampler_delta(params: Parameters, stance: Stance) -> Fraction:
    """The delta of the sampler, by the most counts that a run can ask."""
    size = universe_size(params.universe) or params.max_nodes
    draws = params.max_nodes + size + (params.length_cap if params.length_budget(stance) else 0)
    return sampler_delta(draws, params.epsilon)


def _error(
    params: Parameters, stance: Stance, errors: FileErrors | None, draws: Fraction
) -> dict[str, Any] | None:
    """From public values only."""
    size = universe_size(params.universe)
    if size is None:
        return None if stance == "paper" else without_verdict({}, NEEDS_LIST)
    budget = (params.epsilon - params.length_budget(stance)) / params.levels
    longest, paper = params.longest(stance), stance == "paper"
    threshold = empty_threshold(budget, l_max=longest, items=size, paper=paper, draws=draws)
    deviation = math.sqrt(2 * draws) * longest / float(budget)
    result: dict[str, Any] = {
        "basis": (_BASIS_OF_ITEMS if params.aim == "items" else _BASIS_OF_GRAMS)
        + ("; with l_max auto, at most" if params.length_budget(stance) else "")
        + ". The synthetic sequences are further off: the report of the run states by how much",
        "threshold_of_single_items": amount(Fraction(threshold)),
        "noise_standard_deviation_of_single_items": amount(Fraction(deviation)),
    }
    if errors is not None:
        result["basis_of_items"] = (
            "file less truth, of how often an item occurs in the synthetic sequences, by what the "
            "run made of its noisy counts: thresholds, consistent counts, sequences from grams. "
            "The truth is of the first l_max items of each sequence: later ones are not counted; "
            "with l_max auto in sound, it is that times details.stretch, by noisy lengths, as if "
            "later items were like the first ones. "
            "Orders of items are not in these figures"
        )
        result["items"] = errors.json()
    if paper:
        return result
    result["work"] = WORK.json(size)
    if errors is None:
        return by_size(result, deviation, "how often an item occurs")
    return errors.with_verdict(result, "items")


def _details(params: Parameters, stance: Stance, transcript: Transcript | None) -> dict[str, Any]:
    details: dict[str, Any] = {
        "per_person": "epsilon * sequences per person",
        "evaluation_is_private": True,
        "method": {
            "asked": params.root or "by stance",
            "chosen": root_of(params, stance),
            "rule": "threshold in sound: post-processing, no budget; at most one item that nobody "
            "has is expected to pass",
            "caps": {"max_rows": params.max_rows},
        },
    }
    if params.length_budget(stance):
        details["epsilon_length"] = format_exact(params.length_budget(stance))
    if transcript is None:
        return details
    settings = transcript.settings
    if settings.lengths is not None:
        details["share_of_single_items"] = format_exact(settings.root_budget / settings.epsilon)
        details["stretch"] = f"{settings.lengths.stretch(settings.l_max):.6g}"
        details["sequences_counted"] = int(settings.lengths.sequences.sum())
    return details | {
        "max_path_spend": format_exact(transcript.most_spent),
        "draws": transcript.draws + (params.length_cap if params.length_budget(stance) else 0),
        "distinct_budgets": len(transcript.budgets),
        "universe_size": settings.items,
        "l_max": settings.l_max,
        "n_max": settings.n_max,
        "thresholds": {
            format_exact(budget): settings.threshold(budget) for budget in transcript.budgets
        },
    }
