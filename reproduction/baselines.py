"""The schemes that the sources compare, as the total noise that a result carries.

Sources: Lu's thesis, sections 4.3 and 5.4; spec: aggregation, sections 4 and 9.

A scheme is a tuple of layers (`tacit.accounting.loss.rounding.Draws`); here a layer's scale is in
units of the *value*, not in ring units. All layers add up, so the error of a result is one draw of

    sum over layers of sum_{i <= K} share_i,   K ~ Binomial(parties, probability),

and the shares of weight r of a Laplace of scale b are b (Gamma(r) - Gamma(r)), independent. Gamma
laws add up by their shapes: given K the sum is b (Gamma(K r) - Gamma(K r)), so that N repetitions
of 10^4 curators take N draws and not 10^4 N. `literal_noise` is the slow form by which a test
checks the fast one.

Expectations: of one sure layer in closed form, 2 b Gamma(R + 1/2) / (sqrt(pi) Gamma(R)); of
mixtures by E|X| = (2/pi) int (1 - phi(t)) / t^2 dt, as in `tacit.accounting.expected_error`.

Simulation only. `exact_total` alone uses the product's own integer sampler.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.expected_error import laplace_mean_absolute, mean_absolute, standard_deviation
from tacit.accounting.loss.rounding import Draws
from tacit.noise import PolyaShare
from tacit.randomness import SeededRandom

Floats: TypeAlias = NDArray[np.float64]
Layers: TypeAlias = tuple[Draws, ...]

_FINE: Final = 10**6
"""Ring units to the smallest scale where an expectation is taken in the limit of a fine
resolution: the discreteness is then worth about 10^-13."""
_LITERAL_CELLS: Final = 1 << 22


# ---------------------------------------------------------------------------------- the schemes


def this_work(
    sensitivity: Fraction,
    epsilon: Fraction,
    ratio: Fraction,
    pr_u: Fraction,
    pr_s: Fraction,
    curators: int,
    aggregators: int,
) -> Layers:
    """Thesis, Algorithm 4.1: eps_u = ratio eps at curators, the rest at aggregators, with coins."""
    if not 0 < ratio < 1:
        raise ValueError("the ratio lies between 0 and 1")
    return (
        Draws(sensitivity / (ratio * epsilon), curators, probability=pr_u),
        Draws(sensitivity / ((1 - ratio) * epsilon), aggregators, probability=pr_s),
    )


def orig(
    sensitivity: Fraction, epsilon: Fraction, ratio: Fraction, curators: int, aggregators: int
) -> Layers:
    """The thesis's naive scheme: Algorithm 4.1 with both probabilities 1."""
    one = Fraction(1)
    return this_work(sensitivity, epsilon, ratio, one, one, curators, aggregators)


def privada(sensitivity: Fraction, epsilon: Fraction, aggregators: int) -> Layers:
    """PrivaDA: every aggregator adds Laplace(Delta/eps), curators none."""
    return (Draws(sensitivity / epsilon, aggregators),)


def paste(sensitivity: Fraction, epsilon: Fraction, curators: int) -> Layers:
    """PASTE as the thesis describes it: every curator adds Laplace(Delta/eps)."""
    return (Draws(sensitivity / epsilon, curators),)


def paste_dlpa(sensitivity: Fraction, epsilon: Fraction) -> Layers:
    """PASTE's own distributed Laplace: one Laplace(Delta/eps) in total."""
    return (Draws(sensitivity / epsilon, 1),)


def distributed(sensitivity: Fraction, epsilon: Fraction, parties: int, corrupt: int) -> Layers:
    """Shares of weight 1/(parties - corrupt) at every party: a true guarantee of epsilon while no
    more than `corrupt` of them collude."""
    if not 0 <= corrupt < parties:
        raise ValueError("at least one party is honest")
    return (Draws(sensitivity / epsilon, parties, Fraction(1, parties - corrupt)),)


def local_laplace(scales: NDArray[np.int64] | Floats, epsilon: Fraction) -> Layers:
    """Thesis, Algorithm 5.1: curator i adds Laplace(D_i/eps); curators of equal D_i in one layer.

    scales: (n,) sensitivities D_i; those of 0 add nothing.
    """
    sizes, curators = np.unique(scales[scales > 0], return_counts=True)
    return tuple(
        Draws(Fraction(size) / epsilon, count)
        for size, count in zip(sizes.tolist(), curators.tolist(), strict=True)
    )


# ------------------------------------------------------------------------------------ the draws


def total_noise(layers: Layers, source: SeededRandom, repetitions: int) -> Floats:
    """The noise of this many results, (repetitions,) in the unit of the scales."""
    generator = source.generator
    noise = np.zeros(repetitions)
    for layer in layers:
        weight = float(layer.weight)
        if layer.probability == 1:
            shape: float | Floats = layer.parties * weight
        else:
            drawn = generator.binomial(layer.parties, float(layer.probability), repetitions)
            shape = drawn.astype(np.float64) * weight
        up = generator.standard_gamma(shape, repetitions)
        down = generator.standard_gamma(shape, repetitions)
        noise += float(layer.scale) * (up - down)
    return noise


def literal_noise(layers: Layers, source: SeededRandom, repetitions: int) -> Floats:
    """The same as `total_noise`, as the sources do it: every party's own draw, added up."""
    generator = source.generator
    noise = np.zeros(repetitions)
    for layer in layers:
        chunk = max(1, _LITERAL_CELLS // layer.parties)
        for start in range(0, repetitions, chunk):
            size = (min(chunk, repetitions - start), layer.parties)
            if layer.weight == 1:
                each = generator.laplace(0, float(layer.scale), size)
            else:
                shape = float(layer.weight)
                each = generator.standard_gamma(shape, size) - generator.standard_gamma(shape, size)
                each *= float(layer.scale)
            if layer.probability != 1:
                each *= generator.random(size) < float(layer.probability)
            noise[start : start + chunk] += each.sum(axis=1)
    return noise


def exact_total(
    layers: Layers, resolution: Fraction, source: SeededRandom, repetitions: int
) -> Floats:
    """The noise of `distributed` as the services draw it: integers, here times the resolution.

    All shares of a layer are drawn as one of their total weight, which has the same law.
    """
    noise = np.zeros(repetitions)
    for layer in layers:
        if layer.probability != 1:
            raise ValueError("shares are drawn without a coin")
        share = PolyaShare(layer.scale / resolution, layer.total)
        noise += share.draw(source, repetitions) * float(resolution)
    return noise


# ----------------------------------------------------------------------------------- expectations


def expected_absolute(layers: Layers) -> float:
    """E|X| of the total noise, in the unit of the scales, to about 1e-9 of its value."""
    present = tuple(layer for layer in layers if layer.parties and layer.probability)
    if not present:
        return 0.0
    if len(present) == 1 and present[0].probability == 1:
        return laplace_mean_absolute(float(present[0].total), float(present[0].scale))
    unit, fine = _fine(present)
    return mean_absolute(fine) * float(unit)


def sampling_error(layers: Layers, repetitions: int) -> float:
    """The standard error of a mean of |X| over this many repetitions, relative to E|X|."""
    unit, fine = _fine(layers)
    deviation = standard_deviation(fine) * float(unit)
    return math.sqrt(max((deviation / expected_absolute(layers)) ** 2 - 1, 0) / repetitions)


def _fine(layers: Layers) -> tuple[Fraction, Layers]:
    """A unit, and the layers in it: fine enough for the continuous limit."""
    unit = min(layer.scale for layer in layers) / _FINE
    return unit, tuple(
        Draws(layer.scale / unit, layer.parties, layer.weight, layer.probability)
        for layer in layers
    )


# -------------------------------------------------------------------------------------- splitting


def weighted_pieces(
    values: NDArray[np.int64] | Floats, aggregators: int, source: SeededRandom
) -> Floats:
    """The thesis's splitting: pieces omega_i^j u_i with weights that add up to 1.

    values (n,) -> pieces (n, aggregators). It hides nothing (a piece is a known multiple of the
    value if the weights are known, and none has another sign than it), and is here to repeat the
    figures only.
    """
    weights = source.generator.dirichlet(np.ones(aggregators), len(values))
    pieces: Floats = weights * values[:, np.newaxis]
    return pieces
