"""DPBV: Figures 2, 3, 5, 6, 10 and 11, distances and what an adversary sees.

Spec: dpbv-clustering, sections 3, 4 and 5. Source: L. Sun, J. Zhao and X. Ye, "Distributed
Clustering in the Anonymized Space with Local Differential Privacy". It prints curves and few
numbers; most of what is expected is recomputed, and rows say where the source's own reading fails.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Final

import numpy as np

from algorithms.dpbv_clustering.distances import (
    Decoder,
    Singles,
    decoded,
    decomposed_pairs,
    hop_mean,
    local_cut,
    pair_code,
)
from algorithms.dpbv_clustering.paper import recover, recovery_error
from algorithms.dpbv_clustering.parameters import BadParameter
from reproduction.experiment import (
    Experiment,
    Outcome,
    Row,
    Run,
    over_runs,
    sampled,
    trend,
)
from simulation.plots import Line, Panel, Plot
from tacit.encoders.dpbv_clustering import (
    Code,
    Flip,
    Floats,
    Ints,
    encode,
    make_codes,
    ratio_test_error,
    unpack,
)

SOURCE: Final = "Sun, Zhao, Ye (DPBV)"
PAIR: Final = (24.3, 26.2)
_POINTS: Final = (250, 1000, 4000)
_EPSILONS: Final[dict[str, Fraction | None]] = {
    "no flips": None,
    "eps_bit 4": Fraction(4),
    "eps_bit 2": Fraction(2),
    "eps_bit 1": Fraction(1),
}
RAW: Final = {
    "no flips": (3.91, 3.67, 3.65),
    "eps_bit 4": (3.83, 3.62, 3.61),
    "eps_bit 2": (3.87, 3.71, 3.75),
    "eps_bit 1": (4.68, 4.02, 3.82),
}
MATCHED: Final = {
    "no flips": (0.046, 0.012, 0.005),
    "eps_bit 4": (0.051, 0.014, 0.005),
    "eps_bit 2": (0.106, 0.025, 0.007),
    "eps_bit 1": (0.309, 0.084, 0.020),
}
DIMENSIONS: Final = (2, 4, 8, 16, 32)
FLAT_PLAIN: Final = (6.1, 10.0, 14.0, 20.2, 28.9)
FLAT_DECOMPOSED: Final = (1.8, 2.1, 2.8, 3.6, 5.1)
FULL_PLAIN: Final = (1.00, 1.03, 1.11, 1.05, 1.08)
_FULL_REPETITIONS: Final = 500
_CELL_RUNS: Final = 5
_CANDIDATES: Final = 5001
_TOLD: Final = 20
"""Codes behind the specification's error of the test."""


def _code(low: float, high: float, half: float, bits: int, seed: int) -> Code:
    return make_codes(((low, high),), (half,), bits, "uniform", seed)[0]


# ---------------------------------------------------------------------------------------- figure 2


def figure_2(run: Run) -> Outcome:
    """Left: ones of a value at the end and in the middle of [0, 10]. Right: distances in [0, 100].

    Points of the BV mechanism lie in [L, U], those of DPBV in [L - t, U + t].
    """
    repetitions = run.effort.repetitions(_FULL_REPETITIONS * 2)
    values = np.linspace(0, 10, 41)
    ones = {"BV": np.zeros(len(values)), "DPBV": np.zeros(len(values))}
    far, near = [], []
    for seed in range(repetitions):
        code = _code(0, 10, 1.2, 1000, run.seed + seed)
        squeezed = replace(code, points=(code.points + 1.2) * 10 / code.span)
        for name, each in (("BV", squeezed), ("DPBV", code)):
            ones[name] += each.clean(values).mean(axis=1) / repetitions
        wide = _code(0, 100, 15, 1000, run.seed + seed)
        decoder = Decoder(1000, wide.span, 0.0)
        bits = wide.clean(np.array([20.0, 40.0, 90.0]))
        near.append(decoder.decode(int((bits[0] != bits[1]).sum())))
        far.append(decoder.decode(int((bits[0] != bits[2]).sum())))
    error = math.sqrt(0.25 / (1000 * repetitions))
    rows = (
        *(
            sampled(
                f"{name}, [0, 10], t = 1.2: share of ones at {place}",
                share,
                "recomputed",
                float(ones[name][at]),
                error,
            )
            for name, at, place, share in (
                ("BV", 0, "L", 0.12),
                ("BV", 20, "5", 0.24),
                ("DPBV", 0, "L", 2.4 / 12.4),
                ("DPBV", 20, "5", 2.4 / 12.4),
            )
        ),
        over_runs("[0, 100], 2t = 30: distance of 20 and 40", 20.0, near, reference=0),
        over_runs("[0, 100], 2t = 30: distance of 20 and 90 is 2t", 30.0, far, reference=0),
    )
    lines = tuple(Line(name, tuple(values), tuple(each)) for name, each in ones.items())
    panel = Panel("[0, 10], t = 1.2", "value", "share of ones", lines, "linear", "linear")
    note = "s is not printed: 1,000, as in Figure 3."
    return Outcome(rows, (Plot("dpbv-fig-2", "Ones near the ends", (panel,)),), (), (note,))


# ---------------------------------------------------------------------------------------- figure 3


def figure_3(run: Run) -> Outcome:
    """The BV distance of 5 and 9 is flat at 2t = 2.4."""
    repetitions = run.effort.repetitions(_FULL_REPETITIONS * 10)
    values = np.linspace(0, 20, 81)
    found = np.empty(repetitions)
    curve = np.zeros(len(values))
    for seed in range(repetitions):
        code = _code(0, 20, 1.2, 1000, run.seed + seed)
        decoder = Decoder(1000, code.span, 0.0)
        clean = code.clean(np.append(values, [5.0, 9.0]))
        found[seed] = decoder.decode(int((clean[-2] != clean[-1]).sum()))
        curve += decoder.factor * (clean[:-2] != clean[-2]).sum(axis=1)
    deviation = float(found.std())
    rows = (
        over_runs(
            "mean BV distance of 5 and 9, [0, 20], t = 1.2 (printed: 2.16, one drawing)",
            2.4,
            found.tolist(),
            reference=0,
        ),
        sampled(
            "its standard deviation",
            0.14,
            "recomputed",
            deviation,
            deviation / math.sqrt(2 * repetitions),
            rounding=0.005,
        ),
        trend("the printed 2.16 lies within two of them", _within(found, 2.16)),
    )
    lines = (
        Line("BV distance from 5", tuple(values), tuple(curve / repetitions)),
        Line("true distance", tuple(values), tuple(np.abs(values - 5)), kind="bound"),
    )
    panel = Panel(
        "[0, 20], t = 1.2, s = 1000", "value", "distance from 5", lines, "linear", "linear"
    )
    return Outcome(rows, (Plot("dpbv-fig-3", "Distances are flat beyond 2t", (panel,)),))


def _within(found: Floats, printed: float) -> bool:
    return bool(abs(printed - found.mean()) < 2 * found.std())


# ---------------------------------------------------------------------------------------- figure 5


def figure_5(run: Run) -> Outcome:
    """Mean absolute error over s, with and without closure; 200 points of [0, 25], t = 3."""
    rows: list[Row] = []
    lines = []
    count_one = run.counted(len(_EPSILONS) * len(_POINTS))
    for name, epsilon in _EPSILONS.items():
        errors = {"raw": [], "hop-mean": [], "matched": []}  # type: dict[str, list[float]]
        for bits, raw, matched in zip(_POINTS, RAW[name], MATCHED[name], strict=True):
            found = [_closure(run, epsilon, bits, each) for each in range(_CELL_RUNS)]
            means = {kind: _mean([each[kind] for each in found]) for kind in errors}
            for kind, mean in means.items():
                errors[kind].append(mean)
            at = f"{name}, s = {bits}"
            for kind, expected, places in (("raw", raw, 2), ("matched", matched, 3)):
                rows.append(
                    over_runs(
                        f"{kind} error, {at}",
                        expected,
                        [each[kind] for each in found],
                        reference=1,
                        rounding=0.5 * 10**-places,
                    )
                )
            if math.isfinite(means["hop-mean"]):
                rows.append(Row(f"hop-mean error, {at}", None, "quoted", means["hop-mean"]))
            count_one()
        drawn = {kind: each for kind, each in errors.items() if np.isfinite(each).all()}
        lines += [
            Line(f"{kind}, {name}", tuple(map(float, _POINTS)), tuple(each))
            for kind, each in drawn.items()
        ]
        if epsilon is None or epsilon > 1:
            helps = all(a < b for a, b in zip(errors["hop-mean"], errors["raw"], strict=True))
            rows.append(Row(f"closure helps, {name}", True, "trend", helps))
        falls = errors["matched"][0] > errors["matched"][-1]
        rows.append(Row(f"error falls with s (matched), {name}", True, "trend", falls))
    panel = Panel("200 points of [0, 25], t = 3", "s (bits)", "mean error", tuple(lines), "log")
    plot = Plot("dpbv-fig-5", "Distance consistence over s", (panel,))
    return Outcome(tuple(rows), (plot,), (), (_CLOSURE_NOTE,))


_CLOSURE_NOTE: Final = (
    "The source takes the shortest of all sums. With flips a minimum over noisy paths picks the "
    "negative errors; hop-mean averages over the middle points instead. At eps_bit 1 and 250 bits "
    "nothing is local, and no closure is made."
)


def _closure(run: Run, epsilon: Fraction | None, bits: int, repetition: int) -> dict[str, float]:
    source = run.source("dpbv-fig-5", epsilon, bits, repetition)
    code = _code(0, 25, 3, bits, run.seed + repetition)
    flip = Flip.of_epsilon(epsilon)
    values = source.generator.uniform(0, 25, 200)
    words = encode(values[:, None], (code,), flip, source)[:, 0]
    found, true = decoded(words, code, flip), np.abs(values[:, None] - values)
    estimate = recover(words, code, _CANDIDATES)
    try:
        cut = local_cut(code, flip, random_points=True)
        closed = _error(hop_mean(found, cut).distances, true)
    except BadParameter:
        closed = math.nan
    return {
        "raw": _error(found, true),
        "hop-mean": closed,
        "matched": _error(np.abs(estimate[:, None] - estimate), true),
    }


def _error(found: Singles | Floats, true: Floats) -> float:
    return float(np.abs(found - true).mean())


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


# ---------------------------------------------------------------------------------------- figure 6


def figure_6(run: Run) -> Outcome:
    """Plain and decomposed distances over the dimension, t = 3 and t = half of the range."""
    pairs = run.effort.repetitions(4000)
    rows: list[Row] = []
    lines = []
    by_code: dict[str, list[list[float]]] = {
        "plain, t = 3": [],
        "decomposed, t = 3": [],
        "plain, t = 25": [],
        "decomposed, t = 25": [],
    }
    for place, dimension in enumerate(DIMENSIONS):
        both = []
        for code in range(_CELL_RUNS):
            flat = _vertical(run, code, dimension, 25.0, 3.0, 1000, pairs)
            bits = min(1000 * dimension, 8000)
            full = _vertical(run, code, dimension, 50.0, 25.0, bits, pairs)
            both.append((*flat, *full))
        for errors, each in zip(by_code.values(), zip(*both, strict=True), strict=True):
            errors.append(list(each))
        run.progress((place + 1) / len(DIMENSIONS))
    found = {name: [_mean(each) for each in errors] for name, errors in by_code.items()}
    for name, expected, places in (
        ("plain, t = 3", FLAT_PLAIN, 1),
        ("decomposed, t = 3", FLAT_DECOMPOSED, 1),
        ("plain, t = 25", FULL_PLAIN, 2),
    ):
        rows += [
            over_runs(
                f"{name}: mean error, d = {d}",
                value,
                errors,
                reference=1,
                rounding=0.5 * 10**-places,
            )
            for d, value, errors in zip(DIMENSIONS, expected, by_code[name], strict=True)
        ]
    rows += [
        Row(
            "the source's claim holds where plain distances are left flat (t = 3): decomposed wins",
            True,
            "trend",
            all(
                a > b
                for a, b in zip(found["plain, t = 3"], found["decomposed, t = 3"], strict=True)
            ),
        ),
        Row(
            "with t = half of the range the plain error does not grow with d",
            True,
            "trend",
            max(found["plain, t = 25"]) < 1.3 * min(found["plain, t = 25"]),
        ),
        Row(
            "and is below the decomposed one",
            True,
            "trend",
            all(
                a < b
                for a, b in zip(found["plain, t = 25"], found["decomposed, t = 25"], strict=True)
            ),
        ),
    ]
    lines = [
        Line(name, tuple(map(float, DIMENSIONS)), tuple(errors)) for name, errors in found.items()
    ]
    panel = Panel("eps_bit 2", "attributes of Bob", "mean error", tuple(lines), "log")
    plot = Plot("dpbv-fig-6", "Vertical partition: plain and decomposed", (panel,))
    return Outcome(tuple(rows), (plot,))


def _vertical(
    run: Run, code: int, dimension: int, high: float, half: float, bits: int, pairs: int
) -> tuple[float, float]:
    """Mean errors of plain and decomposed distances over random pairs."""
    source = run.source("dpbv-fig-6", code, dimension, high)
    flip = Flip.of_epsilon(Fraction(2))
    left, right = source.generator.uniform(0, high, (2, pairs, dimension))
    true = np.sqrt(np.square(left - right).sum(axis=1))
    seed = run.seed + code
    codes = make_codes(((0, high),) * dimension, (half,) * dimension, 1000, "uniform", seed)
    squares = np.zeros(pairs)
    for place, one in enumerate(codes):
        words = [
            encode(side[:, place : place + 1], (one,), flip, source)[:, 0] for side in (left, right)
        ]
        turned = np.bitwise_count(words[0] ^ words[1]).sum(axis=1)
        decoder = Decoder.of(one, flip)
        squares += np.square(decoder.factor * (turned - decoder.floor))
    plain = float(np.abs(np.sqrt(squares) - true).mean())
    values = np.concatenate((left, right))
    both = pair_code((high,) * dimension, bits, "uniform", seed)
    left_ends = np.arange(pairs)
    estimate = decomposed_pairs(values, left_ends, left_ends + pairs, both, flip, source)
    return plain, float(np.abs(np.sqrt(np.maximum(estimate, 0)) - true).mean())


# ---------------------------------------------------------------------------------- figures 10, 11


def figure_10(run: Run) -> Outcome:
    """All 2^10 outputs of 24.3 and 26.2, s = 10, eps_bit 1."""
    flip = float(Flip.of_epsilon(Fraction(1)).probability)
    places = np.arange(1024)
    outputs = (places[:, None] >> np.arange(10)) & 1
    differing, distances = [], []
    first: tuple[Floats, Floats] | None = None
    for seed in range(run.effort.repetitions(4000)):
        clean = _code(0, 50, 25, 10, run.seed + seed).clean(np.array(PAIR)).astype(int)
        laws = [_law(outputs, row, flip) for row in clean]
        differing.append(int((clean[0] != clean[1]).sum()))
        distances.append(float(np.abs(laws[0] - laws[1]).sum() / 2))
        if differing[-1] == 1 and first is None:
            first = (laws[0], laws[1])
    same = [value == 0 for value in differing]
    exact = [
        math.isclose(distance, 1 - 2 * ratio_test_error(k, flip), abs_tol=1e-12)
        for k, distance in zip(differing, distances, strict=True)
    ]
    rows = (
        over_runs(
            "share of points for which the codes are equal, so that the laws coincide",
            (1 - 2 * 1.9 / 100) ** 10,
            [float(each) for each in same],
            reference=0,
        ),
        over_runs(
            "mean bits that differ, 2 s |x - y| / mu",
            0.38,
            [float(each) for each in differing],
            reference=0,
        ),
        Row(
            "the laws are 1 - 2 (error of the best test) apart, always",
            True,
            "trend",
            all(exact),
        ),
    )
    plots: tuple[Plot, ...] = ()
    if first is not None:
        lines = tuple(
            Line(f"x = {value}", tuple(map(float, places)), tuple(law))
            for value, law in zip(PAIR, first, strict=True)
        )
        panel = Panel("s = 10, eps_bit 1", "output", "probability", lines)
        plots = (Plot("dpbv-fig-10", "The laws of 24.3 and 26.2", (panel,)),)
    notes = ("They look alike because ten bits hardly tell 24.3 from 26.2; a thousand do.",)
    return Outcome(rows, plots, (), notes)


def _law(outputs: Ints, clean: Ints, flip: float) -> Floats:
    turned = (outputs != clean).sum(axis=1)
    law: Floats = flip**turned * (1 - flip) ** (len(clean) - turned)
    return law


def figure_11(run: Run) -> Outcome:
    """What an adversary who holds the points makes of one vector, s = 1000, eps_bit 1."""
    flip = Flip.of_epsilon(Fraction(1))
    sets = run.effort.repetitions(20)
    errors = {
        name: [
            recovery_error(
                _code(0, 50, 25, 1000, run.seed + each),
                Flip.of_epsilon(Fraction(name)),
                400,
                run.source("dpbv-fig-11", name, each),
            )
            for each in range(max(sets, 10))
        ]
        for name in ("2", "1", "0.5", "0.1")
    }
    expected = {"2": 0.053, "1": 0.152, "0.5": 0.515, "0.1": 7.66}
    rows = [
        over_runs(
            f"mean error of the recovered value, eps_bit {name}",
            value,
            errors[name],
            reference=1,
        )
        for name, value in expected.items()
    ]
    errors_of_tests = [
        ratio_test_error(
            int(np.not_equal(*_code(0, 50, 25, 1000, run.seed + each).clean(np.array(PAIR))).sum()),
            float(Flip.of_epsilon(epsilon).probability),
        )
        for each in range(200)
        for epsilon in (Fraction(1),)
    ]
    rows += [
        over_runs(
            "error of the test 24.3 against 26.2",
            0.0015,
            errors_of_tests,
            reference=_TOLD,
            rounding=0.00005,
        ),
        Row(
            "it is below what a true 1-DP mechanism forces (0.269)",
            True,
            "trend",
            max(errors_of_tests) < 1 / (1 + math.e),
        ),
    ]
    code = _code(0, 50, 25, 1000, run.seed)
    words = encode(np.array([[28.0]]), (code,), flip, run.source("dpbv-fig-11", "one"))
    grid = np.linspace(0, 50, 501)

    signs = 2.0 * unpack(words[:, 0], 1000)[0] - 1
    logs = code.clean(grid) @ signs
    posterior = np.exp(logs - logs.max())
    posterior /= posterior.sum()
    inside = float(posterior[(grid >= 26) & (grid <= 30)].sum())
    rows.append(Row("posterior of [26, 30] for a value of 28", True, "trend", inside > 0.99))
    line = Line("posterior of a value of 28", tuple(grid), tuple(np.maximum(posterior, 1e-30)))
    panel = Panel("s = 1000, eps_bit 1", "value", "probability", (line,))
    plot = Plot("dpbv-fig-11", "What one vector tells", (panel,))
    notes = ('The source reads "might guess [26, 30]" as privacy; the guess is right and sharper.',)
    return Outcome(tuple(rows), (plot,), (), notes)


EXPERIMENTS: Final = (
    Experiment(
        "dpbv-fig-2", f"{SOURCE}, Figure 2", "ones near the ends, distances beyond 2t", 3, figure_2
    ),
    Experiment("dpbv-fig-3", f"{SOURCE}, Figure 3", "distances are flat beyond 2t", 1, figure_3),
    Experiment("dpbv-fig-5", f"{SOURCE}, Figure 5", "error of distances over s", 3, figure_5),
    Experiment("dpbv-fig-6", f"{SOURCE}, Figure 6", "vertical partition over d", 2, figure_6),
    Experiment("dpbv-fig-10", f"{SOURCE}, Figure 10", "two laws of ten bits", 1, figure_10),
    Experiment("dpbv-fig-11", f"{SOURCE}, Figure 11", "what one vector tells", 1, figure_11),
)
