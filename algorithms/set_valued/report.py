"""The privacy report of a run: claimed and verified guarantees, for both stances.

Spec: set-valued, sections 4 and 9; jobs, "Privacy report". Made of public parameters and of the
released transcript alone.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import NEEDS_LIST, Stance, Work, by_size, with_verdict, without_verdict
from algorithms.counts.released_files import RUNS, ErrorOfCounts, FileErrors
from algorithms.set_valued.margins import Margins, Shares, counts_pairs
from algorithms.set_valued.parameters import (
    MOST_CELL_ITEMS,
    MOST_ITEMS,
    Method,
    Parameters,
    check_parameters,
    diffpart_epsilon,
    law_of,
    least_shares,
    noise_scales,
)
from tacit.encoders.set_valued_counts import MOST_BASIS, MOST_LENGTH, Taxonomy, pair_count
from tacit.noise import sampler_delta
from tacit.report.builder import (
    FOR_SUBMITTER,
    NOISE_SOURCE,
    NOTHING_HOLDS,
    ReportBuilder,
    pure_dp,
    voided_by,
)
from tacit.report.figures import amount, epsilon_amount
from tacit.report.model import Claim, PrivacyReport, SensitivityStatement
from tacit.wire import format_exact

NAME: Final = "set-valued"
THEOREM: Final = "Chen's thesis, chapter 4, Theorem 4.2"

MECHANISMS: Final[dict[Method, str]] = {
    "basic": "noisy histogram of all itemsets",
    "diffpart": "DiffPart",
    "diffpart+rest": "DiffPart, and what it omits by lengths and items",
    "rest": "lengths, single items, and the pairs or sets of the commonest items",
}
WITH_MARGINS: Final = ("diffpart+rest", "rest")
_ITEMS: Final = "items, at most"
_CELLS: Final = "cells of the basis"
_PAIRS: Final = "pairs, at most"
_PARTS: Final[dict[Method, tuple[str, ...]]] = {
    "basic": ("cells",),
    "diffpart": ("partition tests, at most", "released counts, at most"),
    "diffpart+rest": ("partition tests, at most", "released counts, at most", "lengths", _ITEMS),
    "rest": ("lengths", _ITEMS),
}
"""What is counted, in the order of `noise_scales`; of `rest` then cells or pairs, if these have a
share."""
WORK: Final = Work(item_bytes=6_000, item_us=31, entry_bytes=60, entry_us=8)
EXAMPLES: Final = (1, 4, 8, 16)
"""Numbers of kept items that a preview mentions."""

_FROM_DATA: Final = (
    "the universe was taken from the records: an item of one person alone appears or disappears "
    "with that person"
)

DEFECTS: Final = (
    "The printed loop over empty sub-partitions draws once too often (2^l - |S| instead of "
    "2^l - 1 - |S|); printed, the claim fails for every epsilon below 0.323 (items 2, fan-out 2: a "
    "probability ratio of 1.727 where e^0.1 = 1.105 is claimed). Both stances draw the right "
    "number.",
    "The printed order of the output, real sub-partitions before false ones, tells which are real: "
    "the loss is infinite. Both stances sort.",
    "Trying several (C1, C2) on the raw data and publishing a good run is not covered: the best of "
    "5 runs can lose ln 31 = 3.43 on top.",
    "The printed budget of an itemset (counted once more after its last split) contradicts "
    "Examples 4.3.2 and 4.3.3; leaf_mode chooses, both add up to epsilon.",
    "With C2 slightly above 1, as the source suggests, false partitions multiply without end for a "
    "fan-out above 3: at fan-out 10 one has 93.7 false children in expectation.",
    "Theorem 4.3 (usefulness) is vacuous as stated and is not claimed.",
)


def set_valued_report(
    params: Parameters,
    stance: Stance,
    items: int | None,
    *,
    splits: int | None = None,
    rows: int | None = None,
    derived: bool = False,
    margins: Margins | None = None,
    errors: FileErrors | None = None,
    draws: Fraction = Fraction(1),
) -> PrivacyReport:
    """The report of a run; without `splits` (published by the run), of one that is planned.

    items: size of the universe, None while only a reference to it is known; derived: it was taken
    from the records, which only the paper stance does; margins: what `diffpart+rest` measured next
    to DiffPart; errors: of its file, simulated from that; draws: whole noises that a count holds.
    Where the size decides the method and is not known, or the number of records, the report is that
    of `diffpart+rest`, whose first part DiffPart is and whose noise is at least that of `rest`.
    Raises what `check_parameters` raises.
    """
    check_parameters(params, stance)
    method = params.method_of(stance)
    if margins is not None and not margins.shares.diffpart:
        method = "rest"
    paper, basic = stance == "paper", method == "basic"
    builder = ReportBuilder(NAME, "tacit algorithms.set_valued", stance, "record")
    lines = builder.neighbour_lines(
        params.epsilon, "one record more or less", "one record replaced by another"
    )
    if derived:
        nothing = {**NOTHING_HOLDS, "reason": _FROM_DATA}
        lines = (lines[0].model_copy(update=nothing),)
    return builder.report(
        MECHANISMS[method],
        _mechanism(params, method, stance),
        sensitivity=_sensitivities(params, method, margins, items),
        claimed=Claim(**pure_dp(params.epsilon), theorem=None if basic else THEOREM),
        verified=lines,
        charged=builder.charge(params.epsilon),
        noise=tuple(builder.noise(*scale) for scale in _scales(params, method, items, margins)),
        sampler=_sampler_delta(params, method),
        method=_method_of_proof(method),
        public_parameters=(
            "universe and its order",
            "epsilon, method, fanout, max_partitions, max_rows",
            "C1, C2, leaf_mode" if paper else "aim, eta, eta_leaf",
        ),
        post_processing=(
            "counts below 0 become 0 in release.csv; histogram.npy has them all"
            if basic
            else "rows are sorted by (length, items); a floating count is rounded half up, and "
            "none of 0 is released"
            if paper
            else "rows are sorted by (length, items); stopping at a cap",
        ),
        not_protected=(
            "The unit is one record. A person with r records is protected with r epsilon, not as "
            "one: of weekly fare-card rows the unit is the card-week.",
            "What many records have in common is what the release is there to show; it is not "
            "hidden.",
            FOR_SUBMITTER,
        ),
        source_defects=() if basic else DEFECTS,
        voided_by=voided_by(
            "the universe, or its order, derived from the data", "parameters tuned on the raw data"
        ),
        assumptions=(
            "The coordinator keeps the records and is trusted with them.",
            "Universe, order, fan-out and every other parameter were chosen without looking at the "
            "data.",
            NOISE_SOURCE,
        ),
        caveats=builder.caveats(
            *((f"NO PRIVACY: {_FROM_DATA}.",) if derived else ()),
            evaluated=params.metrics is not None,
        ),
        evaluation_attached=params.metrics is not None,
        error=_error(params, method, stance, items, margins, errors, rows, draws),
        details=_details(params, method, stance, splits, rows, items, margins),
    )


def _method_of_proof(method: Method) -> str:
    if method == "basic":
        return "one cell of a histogram"
    chain = (
        "a record is in one sub-partition of each split: its chain of tests costs the sum of "
        "their alphas and the last count, exactly epsilon as a fraction; sub-partitions of a split "
        "are disjoint"
    )
    if method == "diffpart":
        return chain
    if method == "diffpart+rest":
        return (
            f"{chain}; lengths and items are two more queries, l of the second a function of the "
            "first's release: 2/3, 1/30 and 3/10 add up to epsilon"
        )
    return (
        "a record has one length, keeps at most l items by a choice that depends on itself alone, "
        "and is in one cell of the basis, or keeps at most c of the items whose pairs are counted, "
        "and these are c (c - 1) / 2 pairs; l, c, the shares and the basis are functions of what "
        "was released before: the shares add up to epsilon"
    )


def _sensitivities(
    params: Parameters, method: Method, margins: Margins | None, items: int | None
) -> tuple[SensitivityStatement, ...]:
    kept = None if margins is None else str(margins.kept)
    cells = SensitivityStatement(value="1", source="declared", part="cells")
    splits = cells.model_copy(update={"part": "counts of the sub-partitions of a split"})
    both = (
        cells.model_copy(update={"part": "lengths of records"}),
        SensitivityStatement(
            value=kept, source="public-output", part="items, as many of a record as are kept"
        ),
    )
    if method == "rest":
        if not _shares(params, method, margins).basis:
            return both
        pairs = None if margins is None else margins.pairs
        if pairs is not None or (margins is None and items is not None and counts_pairs(items)):
            moved = None if pairs is None else str(pair_count(pairs.kept))
            part = "pairs, of as many items of a record as are kept"
            return (*both, both[1].model_copy(update={"value": moved, "part": part}))
        return (*both, cells.model_copy(update={"part": _CELLS}))
    return {"basic": (cells,), "diffpart": (splits,), "diffpart+rest": (splits, *both)}[method]


def _mechanism(params: Parameters, method: Method, stance: Stance) -> dict[str, Any]:
    if method == "basic":
        return {"method": method}
    if stance == "paper":
        details: dict[str, Any] = {
            "C1": params.c_1,
            "C2": params.c_2,
            "leaf_mode": params.leaf_mode,
        }
    else:
        details = {"eta": format_exact(params.eta), "eta_leaf": format_exact(params.eta_leaf)}
    return {"method": method, "fanout": params.fanout, **details}


def _scales(
    params: Parameters, method: Method, items: int | None, margins: Margins | None
) -> tuple[tuple[str, Fraction | None], ...]:
    """The parts that are counted, and the scale of their noise where it is known."""
    parts = _PARTS[method]
    if method == "rest" and least_shares(params, method).basis:
        wide = items is not None and counts_pairs(items)
        parts += (_PAIRS if (wide if margins is None else margins.pairs is not None) else _CELLS,)
    if items is None:
        return tuple((part, None) for part in parts)
    scales = dict(zip(parts, noise_scales(params, method, items), strict=True))
    if margins is not None:
        scales[_ITEMS] = margins.kept / (params.epsilon * margins.shares.items)
        if margins.pairs is not None:
            moved = Fraction(pair_count(margins.pairs.kept))
            scales[_PAIRS] = moved / (params.epsilon * margins.shares.basis)
        if margins.basis is not None:
            scales[_CELLS] = 1 / (params.epsilon * margins.shares.basis)
        if not margins.shares.basis:  # of few records neither cells nor pairs were counted
            scales = {part: scales[part] for part in scales if part not in (_CELLS, _PAIRS)}
        exact = {_ITEMS: "items", _PAIRS: "pairs"}
        return tuple((exact.get(part, part), scale) for part, scale in scales.items())
    return tuple(scales.items())


def _sampler_delta(params: Parameters, method: Method) -> Fraction:
    """By the sub-partitions that can be tested; a coin and a passing count at most each.

    The number of draws of a run depends on the data, hence this bound.
    """
    coins = params.max_partitions << params.fanout
    cells = 1 << MOST_CELL_ITEMS if method == "basic" else coins
    margins = MOST_LENGTH + MOST_ITEMS + (1 << MOST_BASIS) if method in WITH_MARGINS else 0
    return sampler_delta((2 * cells if method != "rest" else 0) + margins, params.epsilon)


def _error(
    params: Parameters,
    method: Method,
    stance: Stance,
    items: int | None,
    margins: Margins | None,
    errors: FileErrors | None,
    rows: int | None,
    draws: Fraction,
) -> dict[str, Any] | None:
    """From public values only."""
    if items is None:
        return None if stance == "paper" else without_verdict({}, NEEDS_LIST)
    error = _figures(params, method, stance, items, margins, errors, draws)
    if stance == "paper":
        return error
    if method in WITH_MARGINS:
        error["work"] = WORK.json(items)
    if errors is not None:
        return errors.with_verdict(error, "items")
    if method == "basic":
        deviation = _deviation_of_histogram(params, items, draws)
        return by_size(error, deviation, "an item's count by histogram.npy")
    if method == "diffpart":
        if rows == 0:
            return with_verdict(error, "noise", "no group of records stands out from the noise")
        return without_verdict(
            error,
            f"what is lost are records of which fewer than {error['threshold_at_root']} have "
            "something in common; how many these are depends on the data, and nothing counts them",
        )
    unit = _unit(params, method, margins) * math.sqrt(draws)
    return by_size(error, unit, "for each item that a record keeps, an item's count")


def _deviation_of_histogram(params: Parameters, items: int, draws: Fraction) -> float:
    """Of the number of records with an item: half of all cells."""
    return math.sqrt(2 * draws * 2 ** (items - 1)) / float(params.epsilon)


def errors_of_histogram(
    noisy: NDArray[Any], params: Parameters, items: int, draws: Fraction
) -> FileErrors:
    """Of what histogram.npy says of each item."""
    bits = [noisy.reshape(-1, 2, 1 << bit)[:, 1].sum() for bit in range(items)]
    deviation = _deviation_of_histogram(params, items, draws)
    inside = 2 * deviation
    return FileErrors(
        (ErrorOfCounts(0, None, 0.0, deviation, -inside, inside),), np.array(bits, np.float64)
    )


def _unit(params: Parameters, method: Method, margins: Margins | None) -> float:
    """Standard deviation of an item's count for each item that a record keeps."""
    return math.sqrt(2) / float(params.epsilon * _shares(params, method, margins).items)


def _shares(params: Parameters, method: Method, margins: Margins | None) -> Shares:
    return least_shares(params, method) if margins is None else margins.shares


def _figures(
    params: Parameters,
    method: Method,
    stance: Stance,
    items: int,
    margins: Margins | None,
    errors: FileErrors | None,
    draws: Fraction,
) -> dict[str, Any]:
    if method == "basic":
        deviation = _deviation_of_histogram(params, items, draws)
        return {
            "basis": "histogram.npy, Laplace noise: a query for one item sums half of the cells",
            "one_item_standard_deviation": amount(Fraction(deviation)),
        }
    if method == "rest":
        return _error_of_items(params, method, margins, errors)
    taxonomy, law = Taxonomy(items, params.fanout), law_of(params, stance, draws)
    root = taxonomy.root
    cells = (1 << len(taxonomy.children(root))) - 1
    epsilon = diffpart_epsilon(params, method)
    alpha = epsilon / 2 / taxonomy.internal(root)
    deepest = (1 << min(params.fanout, items)) - 1
    rate = epsilon / 2
    leaf = law.leaf(deepest, rate)
    result: dict[str, Any] = {
        "basis": "a group of records is lost when its noisy count stays below the threshold of one "
        "of its splits; thresholds are highest at the root. Released counts have little noise: the "
        "error is what was lost",
        "threshold_at_root": amount(Fraction(law.partition(cells, alpha, root.level).threshold)),
        "threshold_of_an_itemset_at_most": amount(Fraction(leaf.threshold)),
        "count_standard_deviation_at_most": amount(Fraction(math.sqrt(2) / float(rate))),
    }
    if method == "diffpart+rest":
        result |= _error_of_items(params, method, margins, errors)
    if stance == "sound" and params.method in (None, "auto"):
        result["of_the_other_method"] = _error_of_the_other(params, method, items, draws)
    return result


def _error_of_the_other(
    params: Parameters, method: Method, items: int, draws: Fraction
) -> dict[str, Any]:
    """The forecast of what `auto` did not choose, before a run."""
    other: Method = "rest" if method == "diffpart+rest" else "diffpart+rest"
    named = params.model_copy(update={"method": other})
    return {
        "method": other,
        **(_error(named, other, "sound", items, None, None, None, draws) or {}),
    }


def _error_of_items(
    params: Parameters,
    method: Method,
    margins: Margins | None,
    errors: FileErrors | None,
) -> dict[str, Any]:
    """Before a run the noise alone, by l; of a run what the file's counts are off by."""
    unit = _unit(params, method, margins)
    if margins is None:
        return {
            "basis_of_items": "the noise alone, of the number of records that kept an item, if "
            "each keeps l. The released file is further off: what records did not keep is "
            "guessed from their lengths, and counts are lowered until they fit the records. The "
            "report of the run states the file's errors",
            "item_noise_standard_deviation": {
                str(kept): amount(Fraction(unit * kept)) for kept in EXAMPLES
            },
        }
    return {
        "basis_of_items": f"file less truth, of the number of records with an item, by {RUNS} "
        "simulated releases of a population like the released one: noise, lengths lost in noise, "
        "items that records did not keep, levelling and drawing. Classes by the true count; the "
        "range of 95 in 100 also holds for items with a released count in the class. It allows for "
        "items in records as short as all records are, for items twice as frequent in long records "
        "as drawing makes them, and for long records that noise may have hidden; an item in the "
        "longest records alone is off by more. "
        "Which items occur together is not in these figures: outside DiffPart's rows, the basis "
        "and the pairs that were counted it is lost",
        "item_noise_standard_deviation": {str(margins.kept): amount(Fraction(unit * margins.kept))},
        "items": [] if errors is None else errors.json(),
    }


def _method(
    params: Parameters,
    method: Method,
    stance: Stance,
    items: int | None,
    margins: Margins | None,
) -> dict[str, Any]:
    method_asked = params.method or ("diffpart" if stance == "paper" else "auto")
    described: dict[str, Any] = {"asked": method_asked, "chosen": method}
    if method_asked == "auto":
        if margins is None and method == "diffpart+rest":
            described["chosen"] = None
        described["rule"] = (
            "rest, as the aim is items"
            if params.aim == "items"
            else "by the noisy lengths of records: diffpart+rest if a group of one in 100 would "
            "reach DiffPart's highest threshold and records have at most 8 items on average, else "
            "rest. The noise of a preview is that of diffpart+rest, which has the smaller shares"
        )
        described["items"] = items
    if method in WITH_MARGINS:
        shares = _shares(params, method, margins)
        described |= {
            "not_of_the_source": True,
            "shares": shares.json(),
            "caps": {"max_rows": params.max_rows, "longest_record": MOST_LENGTH},
        }
        if method == "rest":
            described["aim"] = params.aim
            described |= {"basis": shares.k, "pairs_of_items": shares.pairs}
            if margins is None and shares.basis:
                described["before_the_run"] = (
                    "shares are those with a basis, which leave items least; the noisy number of "
                    "records decides, and whether all pairs are counted instead"
                )
            if margins is not None and margins.pairs is not None:
                described["pairs_of_items_kept"] = margins.pairs.kept
    return described


def _details(
    params: Parameters,
    method: Method,
    stance: Stance,
    splits: int | None,
    rows: int | None,
    items: int | None,
    margins: Margins | None,
) -> dict[str, Any]:
    paper = stance == "paper"
    details: dict[str, Any] = {
        "replace_one": epsilon_amount(2 * params.epsilon) if not paper else None,
        "per_person": "epsilon * records per person",
        "sampler": "float" if paper else "exact-integer",
        "method": _method(params, method, stance, items, margins),
    }
    if method in ("basic", "rest"):
        return details
    details |= {
        "chain_total": f"{format_exact(diffpart_epsilon(params, method))} (exact fraction)",
        "caps_hit": "none",
        "evaluation_attached": params.metrics is not None,
    }
    if not paper:
        details["expected_false"] = {
            "per_split_bound": format_exact(params.eta + params.eta_leaf),
            "total_rows_bound": None
            if splits is None
            else amount(min(params.eta_leaf * splits, Fraction(rows or 0))),
            "basis": "in expectation: at most eta_leaf false rows for each split that was made",
        }
    return details
