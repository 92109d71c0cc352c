"""Noise for whole contributions: what curators and aggregators call.

A contribution is a row of integers in blocks; block k has `dimensions[k]` columns, each with
noise of scale `scales[k]`. A call returns the noise of `count` contributions, shape
(count, sum(dimensions)).

`probabilistic_laplace` flips *one* coin per contribution: a row carries noise in every column or
in none. (A coin per column bares some column with probability near 1.) Noise is drawn for all
rows and multiplied by the coin, so that time and consumed randomness do not tell who added none.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tacit.noise.bits import Bernoulli
from tacit.noise.discrete_gaussian import DiscreteGaussian
from tacit.noise.discrete_laplace import DiscreteLaplace
from tacit.noise.polya import PolyaShare
from tacit.randomness import NoiseSource


def laplace(
    source: NoiseSource, scales: Sequence[Fraction], dimensions: Sequence[int], count: int
) -> NDArray[np.int64]:
    """Discrete Laplace noise in every column of every row."""
    return _columns(
        scales,
        dimensions,
        count,
        lambda scale, drawn: DiscreteLaplace(scale).draw(source, drawn),
    )


def probabilistic_laplace(
    source: NoiseSource,
    scales: Sequence[Fraction],
    dimensions: Sequence[int],
    probability: Fraction,
    count: int,
) -> NDArray[np.int64]:
    """Rows of discrete Laplace noise, each kept whole with this probability and else all 0."""
    coins = Bernoulli(probability).draw(source, count)
    noise = laplace(source, scales, dimensions, count)
    noise *= coins[:, np.newaxis]
    return noise


def polya_shares(
    source: NoiseSource,
    scales: Sequence[Fraction],
    dimensions: Sequence[int],
    weight: Fraction,
    count: int,
) -> NDArray[np.int64]:
    """Shares of this weight in every column: rows whose weights sum to 1 add up to `laplace`."""
    return _columns(
        scales,
        dimensions,
        count,
        lambda scale, drawn: PolyaShare(scale, weight).draw(source, drawn),
    )


def gaussian(
    source: NoiseSource, variances: Sequence[Fraction], dimensions: Sequence[int], count: int
) -> NDArray[np.int64]:
    """Discrete Gaussian noise in every column of every row; takes a variance instead of a scale."""
    return _columns(
        variances,
        dimensions,
        count,
        lambda variance, drawn: DiscreteGaussian(variance).draw(source, drawn),
    )


def _columns(
    scales: Sequence[Fraction],
    dimensions: Sequence[int],
    count: int,
    draw: Callable[[Fraction, int], NDArray[np.int64]],
) -> NDArray[np.int64]:
    if len(scales) != len(dimensions) or not scales:
        raise ValueError("every block has one scale and one dimension")
    if min(dimensions) < 1 or count < 0:
        raise ValueError("a block has at least one column, and a count is not negative")
    blocks = [
        draw(scale, count * dimension).reshape(count, dimension)
        for scale, dimension in zip(scales, dimensions, strict=True)
    ]
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)
