"""DPBV, Figure 9: the length of a bit vector by the source's rule, and what such vectors lose.

Spec: dpbv-clustering, section 4. Source: L. Sun, J. Zhao and X. Ye, section VI. The rule rests on
Theorem 4, which is wrong: a longer vector loses more, not less.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import Final

from reproduction.dpbv_clustering import SOURCE
from reproduction.experiment import Experiment, Outcome, Row, Run, quoted, trend
from simulation.plots import Line, Panel, Plot
from tacit.accounting.randomised_response import delta_of_responses
from tacit.encoders.dpbv_clustering import claimed_delta, log10_complement

_EPSILONS: Final = tuple(Fraction(tenths, 10) for tenths in range(1, 41))
_DELTAS: Final = (1e-3, 1e-6, 1e-9)
_DELTA: Final = 1e-6
_PRINTED: Final = {1: 45, 2: 109}
"""Bits at delta 1e-6, the specification's."""
_TRUE: Final = {3: (0.33783471, 1e-8), 10: (0.821, 5e-4)}
"""delta(1) of this many bits at eps_bit 1, the specification's, and half of its last place."""
_ROUNDED_UP: Final = 1e-6
"""More than the share by which the accountant rounds up: two and three bits lose the same."""


def bits(epsilon: Fraction, delta: float) -> int:
    """The source's s = ceil(ln delta / (eps - ln(e^eps + 1))): the least with p^s <= delta."""
    return math.ceil(math.log(delta) / -math.log1p(math.exp(-epsilon)))


def true_delta(differing: int, epsilon: Fraction) -> float:
    """delta at epsilon of this many differing bits, each flipped for a budget of epsilon."""
    return float(delta_of_responses(differing, epsilon, epsilon))


def figure_9(run: Run) -> Outcome:
    """The source's s over epsilon, for three deltas, and the true delta of that many bits."""
    lengths = {delta: [bits(epsilon, delta) for epsilon in _EPSILONS] for delta in _DELTAS}
    run.progress(0.5)
    rows: list[Row] = [
        Row(
            f"s at epsilon {epsilon}, delta 1e-6",
            expected,
            "recomputed",
            bits(Fraction(epsilon), _DELTA),
        )
        for epsilon, expected in _PRINTED.items()
    ]
    claims = [
        (float(claimed_delta(s, epsilon)), float(claimed_delta(s - 1, epsilon)), delta)
        for delta, each in lengths.items()
        for epsilon, s in zip(_EPSILONS, each, strict=True)
        if epsilon >= 1  # below, the term that the rule leaves out matters
    ]
    rises = all(one <= other for each in lengths.values() for one, other in pairwise(each))
    falls = all(a < b < c for a, b, c in zip(*(lengths[delta] for delta in _DELTAS), strict=True))
    rows += [
        trend("s rises with epsilon", rises),
        trend("s rises as delta falls", falls),
        trend(
            "s is the least length whose claimed delta is small enough, epsilon at least 1",
            all(enough <= delta < less for enough, less, delta in claims),
        ),
    ]
    lost = {
        epsilon: true_delta(bits(Fraction(epsilon), _DELTA), Fraction(epsilon))
        for epsilon in _PRINTED
    }
    for epsilon, expected in _PRINTED.items():
        name = (
            f"log10(1 - true delta) of {expected} bits at epsilon {epsilon}, all of them differing"
        )
        rows.append(
            quoted(name, log10_complement(bits(Fraction(epsilon), _DELTA), epsilon, epsilon))
        )
    growing = [true_delta(k, Fraction(1)) for k in range(1, 46)]
    rows += [
        *(
            Row(
                f"true delta of {count} bits at epsilon 1",
                expected,
                "recomputed",
                true_delta(count, Fraction(1)),
                half / expected + _ROUNDED_UP,
            )
            for count, (expected, half) in _TRUE.items()
        ),
        trend("the true delta of one bit is 0", growing[0] == 0),
        Row(
            "more bits lower the true delta (as the rule supposes)",
            False,
            "trend",
            any(one > other * (1 + _ROUNDED_UP) for one, other in pairwise(growing)),
        ),
        Row(
            "the rule's lengths keep delta at 1e-6",
            False,
            "trend",
            any(each <= _DELTA for each in lost.values()),
        ),
    ]
    run.progress(1.0)
    x = tuple(map(float, _EPSILONS))
    lines = tuple(
        Line(f"delta {delta:g}", x, tuple(map(float, each))) for delta, each in lengths.items()
    )
    places = tuple(map(float, range(2, 46)))
    true = Line("true", places, tuple(growing[1:]))
    claimed = Line(
        "claimed",
        places,
        tuple(float(claimed_delta(k, Fraction(1))) for k in range(2, 46)),
        kind="bound",
    )
    panels = (
        Panel("the source's rule", "epsilon", "s (bits)", lines, "linear", "log"),
        Panel("epsilon 1", "bits that differ", "delta", (true, claimed), "linear", "log"),
    )
    plot = Plot("dpbv-fig-9", "Bits by the source's rule, and what they lose", panels)
    return Outcome(tuple(rows), (plot,), (), _NOTES)


_NOTES: Final = (
    "The source prints a curve without figures; its rule is computed. The rule bounds the "
    "probability of one output; a guarantee has to hold for every set of outputs.",
)
EXPERIMENTS: Final = (
    Experiment(
        "dpbv-fig-9", f"{SOURCE}, Figure 9", "bits by (eps, delta), and the loss", 4, figure_9
    ),
)
