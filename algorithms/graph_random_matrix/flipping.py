"""A graph whose every pair of vertices was flipped with one small probability.

Leading eigenpairs of the unbiased estimate that a flipped graph gives of the true one.

Which estimator a job runs: a pure function of public numbers, never of edges.

Flips hide an edge by noise that grows with the vertices, the subspace iteration by noise that does
not. Both are measured by n v, the squared noise that an eigenvalue has to pass: of the iteration it
is D0 k T / (2 rho) where the basis's heaviest row weighs D0 = 20 times an even one.

Spec: graph-random-matrix, section 3.8.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context, Stance
from algorithms.datasets.edge_list import EdgeList
from algorithms.graph_random_matrix.degree_vector import (
    COUNT_SHARE,
    LEAST_COSINE,
    cosine_of_degrees,
    cosine_past,
    no_signal,
)
from algorithms.graph_random_matrix.linear_algebra import Adjacency, Beat, Floats, Spectrum, quiet
from algorithms.graph_random_matrix.parameters import (
    BadDelta,
    BadEpsilon,
    Estimator,
    GraphTooLarge,
    NoSignalExpected,
    Parameters,
    automatic_columns,
    check_parameters,
    privacy_of,
)
from algorithms.graph_random_matrix.publication import can_compile
from algorithms.path_publishing.levelled_graph import WORD, epsilon_of, wrong_threshold
from tacit.errors import Invalid
from tacit.randomness import NoiseSource

STAGE: Final = "flips"
PAIRS: Final = 1 << 22
"""Pairs that share a stream of coins."""
_REST: Final = 56


@dataclass(frozen=True)
class Flip:
    """The law of one coin: it flips for `threshold` of 2^64 words, 1 <= threshold < 2^63."""

    threshold: int

    @classmethod
    def of(cls, epsilon: Fraction) -> Flip:
        """The least flipping that keeps epsilon > 0. Raises ValueError if only uninformative
        coins would do."""
        threshold = wrong_threshold(epsilon)
        if threshold >= WORD // 2:
            raise ValueError("so small an epsilon leaves nothing")
        return cls(threshold)

    @property
    def probability(self) -> Fraction:
        """p, below 1/2."""
        return Fraction(self.threshold, WORD)

    @property
    def epsilon(self) -> Fraction:
        """ln((1 - p) / p), rounded up."""
        return epsilon_of(self.threshold)

    @property
    def variance(self) -> float:
        """Of an entry of the unbiased estimate of A: p (1 - p) / (1 - 2 p)^2."""
        p = self.probability
        return float(p * (1 - p) / (1 - 2 * p) ** 2)

    def coins(self, source: NoiseSource, count: int) -> NDArray[np.bool_]:
        """`count` independent coins; true: flipped."""
        first, rest = divmod(self.threshold, 1 << _REST)
        octets = source.words(-(-count // 8)).view(np.uint8)[:count]
        shown = octets < first
        ties = np.flatnonzero(octets == first)
        shown[ties] = (source.words(ties.size) >> np.uint64(64 - _REST)) < np.uint64(rest)
        return shown


def pairs_of(vertices: int) -> int:
    """n (n - 1) / 2."""
    return vertices * (vertices - 1) // 2


def flipped(graph: EdgeList, law: Flip, context: Context) -> EdgeList:
    """R, on the same vertices. Raises Cancelled."""
    n = graph.count
    rows = np.arange(n, dtype=np.int64)
    # Pair (i, j), i < j, has the number offsets[i] + j: row by row.
    offsets = rows * (2 * n - rows - 1) // 2 - rows - 1
    numbers = offsets[graph.first] + graph.second
    starts = offsets + rows + 1
    total = pairs_of(n)
    firsts, seconds = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
    for block, begin in enumerate(range(0, total, PAIRS)):
        context.progress(0.05 + 0.3 * begin / total, "flipping")
        end = min(begin + PAIRS, total)
        there = law.coins(context.noise(STAGE, block), end - begin)
        low, high = np.searchsorted(numbers, [begin, end])
        there[numbers[low:high] - begin] ^= True
        pair_places = np.flatnonzero(there) + begin
        first = np.searchsorted(starts, pair_places, side="right") - 1
        firsts.append(first.astype(np.int32))
        seconds.append((pair_places - offsets[first]).astype(np.int32))
    return replace(
        graph,
        first=np.concatenate(firsts),
        second=np.concatenate(seconds),
        loops=0,
        duplicates=0,
    )


def packed(graph: EdgeList) -> NDArray[np.uint8]:
    """The pairs in order of their numbers as bits, the lowest of a byte first: n^2 / 16 bytes."""
    n = graph.count
    first = graph.first.astype(np.int64)
    numbers = first * (2 * n - first - 1) // 2 - first - 1 + graph.second
    bits = np.zeros(-(-pairs_of(n) // 8), np.uint8)
    np.bitwise_or.at(bits, numbers >> 3, np.left_shift(1, numbers & 7).astype(np.uint8))
    return bits


def expected_edges(vertices: int, mean_degree: Fraction, law: Flip) -> int:
    """Of R, at most, by the public guess at the graph's own degree."""
    return math.ceil(vertices * mean_degree / 2 + pairs_of(vertices) * law.probability)


# (R - p (J - I)) / (1 - 2 p) has the mean A off the diagonal, and entries of variance v. Its noise
# has the operator norm 2 sqrt(n v), so that a direction counts from 2.1 sqrt(n v) on; an eigenvalue
# lambda > sqrt(n v) then shows as lambda + n v / lambda, and its vector with the squared cosine 1 -
# n v / lambda^2. Source: F. Benaych-Georges and R. R. Nadakuditi, 2011 (spiked Wigner matrices).
# Spec: graph-random-matrix, section 3.7.

MARGIN: Final = 2.1
"""Of sqrt(n v): noise alone reaches 2."""
SMALL: Final = 600
"""Vertices up to which all eigenpairs are computed together."""
_TOLERANCE: Final = 1e-6
_PART: Final = 1 << 22


@dataclass(frozen=True, eq=False)
class FlippedSpectrum:
    """raw (k,): eigenvalues of the estimate, by falling magnitude; noise: n v; spectrum:
    magnitudes without what noise adds, and vectors; both are zero if a direction does not stand
    out."""

    raw: Floats
    noise: float
    spectrum: Spectrum

    @property
    def level(self) -> float:
        """The level that a raw magnitude has to exceed."""
        return MARGIN * math.sqrt(self.noise)


def flipped_spectrum(
    graph: Adjacency, law: Flip, count: int, beat: Beat = quiet
) -> FlippedSpectrum:
    """The spectrum of a flipped graph; 1 <= count <= n."""
    raw, vectors = _eigenpairs(graph, float(law.probability), count, beat)
    noise = graph.count * law.variance
    sizes = np.abs(raw)
    counted = sizes > MARGIN * math.sqrt(noise)
    inside = np.sqrt(np.maximum(sizes**2 - 4 * noise, 0))
    corrected = np.where(counted, (sizes + inside) / 2, 0.0)
    return FlippedSpectrum(raw, noise, Spectrum(corrected, vectors * corrected))


def _eigenpairs(
    graph: Adjacency, probability: float, count: int, beat: Beat
) -> tuple[Floats, Floats]:
    n = graph.count
    sums = _neighbour_sums(graph)

    def multiplied(vector: Any) -> Any:
        beat()
        dense = np.asarray(vector, np.float64).reshape(-1)
        rest = probability * (dense.sum() - dense)
        return (sums(dense) - rest) / (1 - 2 * probability)

    if n <= SMALL or count >= n - 1:
        values, vectors = np.linalg.eigh(np.column_stack([multiplied(row) for row in np.eye(n)]))
    else:
        from scipy.sparse.linalg import LinearOperator, eigsh

        operator = LinearOperator((n, n), matvec=multiplied, dtype=np.float64)
        start = 1 + np.arange(n) % 7 / 10
        width = min(n, max(4 * count, 40))
        values, vectors = eigsh(
            operator, k=count, which="LM", v0=start, ncv=width, tol=_TOLERANCE, maxiter=10 * n
        )
    order = np.argsort(-np.abs(values), kind="stable")[:count]
    return values[order], vectors[:, order]


def _neighbour_sums(graph: Adjacency) -> Callable[[Floats], Floats]:
    """x -> R x, by numba where that pays."""
    if can_compile(20 * graph.entries):
        from algorithms.graph_random_matrix.compiled import neighbour_sums

        return lambda vector: neighbour_sums(graph.starts, graph.neighbours, vector)
    marks = np.arange(0, graph.entries, _PART)
    cuts = np.unique(np.concatenate(([0], np.searchsorted(graph.starts, marks), [graph.count])))
    occupied = np.diff(graph.starts) > 0

    def sums(vector: Floats) -> Floats:
        result = np.zeros(graph.count)
        for first, last in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
            begin, end = int(graph.starts[first]), int(graph.starts[last])
            rows = first + np.flatnonzero(occupied[first:last])
            if rows.size:
                part = vector[graph.neighbours[begin:end]]
                result[rows] = np.add.reduceat(part, graph.starts[rows] - begin)
        return result

    return sums


HEAVY: Final = 20
"""D0: how much heavier than an even row the heaviest of the iteration's bases is taken to be."""
MOST_STORED: Final = 200_000_000
"""Edges of a flipped graph that are in memory at the same time."""
MOST_PAIRS: Final = 20_000_000_000
EXAMPLES: Final = (1_000, 10_000, 100_000)
"""Numbers of vertices that a preview mentions."""


@dataclass(frozen=True)
class Choice:
    """asked: as named, `auto`, or by default; chosen: None if it depends on the number of
    vertices, which is not known yet; described: rule and forecasts, for preview and report."""

    asked: str
    chosen: Estimator | None
    described: dict[str, Any]
    counts_edges: bool = False
    """Whether the number of edges has a share of epsilon, by which flips or degrees are chosen."""


def flip_of(params: Parameters) -> Flip:
    """The coins of a job. Raises BadEpsilon."""
    if params.sigma is not None:
        raise BadEpsilon("flips take an epsilon, not a sigma", pointer="/params/sigma")
    try:
        return Flip.of(epsilon_left(params))
    except ValueError:
        raise BadEpsilon("too small for flips", pointer="/params/epsilon") from None


def resolved(params: Parameters, choice: Choice) -> Parameters:
    """The parameters with the estimator's name; the one that needs a delta if both are possible."""
    return params.model_copy(update={"estimator": choice.chosen or "subspace"})


def check_size(vertices: int, params: Parameters) -> None:
    """Raises GraphTooLarge for more vertices than can be flipped."""
    law = flip_of(params)
    if not _fits(vertices, params.mean_degree, law):
        raise GraphTooLarge(vertices, _largest(params.mean_degree, law))


def epsilon_left(params: Parameters) -> Fraction:
    """The epsilon of flips or degrees: what the number of edges leaves, if `auto` counts them."""
    counted = params.estimator_of("sound") == "auto"
    return _epsilon(params) * (1 - COUNT_SHARE if counted else 1)


def check_signal(choice: Choice, params: Parameters) -> None:
    """Raises NoSignalExpected, before anything is spent, unless the job says `anyway`."""
    if choice.described.get("no_signal_expected") and not params.anyway:
        raise NoSignalExpected(
            f"the first vector's cosine is expected below {LEAST_COSINE} at this epsilon and "
            f"mean degree ({float(params.mean_degree):g}): give true to run all the same",
            pointer="/params/anyway",
        )


def chosen_estimator(
    params: Parameters, stance: Stance, vertices: int | None = None, edges: int | None = None
) -> Choice:
    """The choice; edges: their noisy number, instead of the guessed mean degree. Raises what
    `check_parameters` raises, and BadEpsilon."""
    check_parameters(params, stance)
    estimator_asked = params.estimator_of(stance)
    if stance == "paper":
        return Choice(estimator_asked, "range", {"asked": estimator_asked, "chosen": "range"})
    described: dict[str, Any] = {"asked": estimator_asked}
    chosen: Estimator | None = None
    counts_edges = False
    degree = float(params.mean_degree)
    if edges is not None and vertices:
        degree = 2 * edges / vertices
        described["noisy_edges"] = edges
    if estimator_asked != "auto":
        chosen = estimator_asked
    else:
        limit = flip_limit(params)
        rivals: tuple[Estimator, ...] = ("flip", "degrees")
        if params.delta > 0 and (limit == 0 or (vertices is not None and vertices > limit)):
            rivals = ("subspace", "degrees")
        if params.sigma is not None:
            chosen = "subspace"
        elif vertices is not None:
            counts_edges = rivals[0] == "flip"
            cosines = expected_cosines(params, vertices, degree)
            chosen = max((cosines[rival], rival) for rival in rivals)[1]
            described["no_signal_expected"] = no_signal({rival: cosines[rival] for rival in rivals})
        elif params.delta == 0:
            chosen = "flip"
        elif limit == 0:
            chosen = "subspace"
        described["rule"] = {
            "flip_up_to_vertices": limit,
            "because": "noise of flips grows with the vertices n, that of the iteration does not: "
            f"flips if n v <= {HEAVY} k T / (2 rho) and R fits, at delta 0 always, else the "
            "iteration; degrees where their expected cosine is larger, which for flips is decided "
            "by the number of edges with a fiftieth of epsilon",
        }
    described["chosen"] = chosen
    sizes = EXAMPLES if vertices is None else (vertices,)
    described["eigenvalue_needed"] = {str(size): eigenvalues_needed(params, size) for size in sizes}
    described["eigenvalue_needed_note"] = (
        "an eigenvector whose |eigenvalue| is below it is lost; flip: theory, sharp; subspace: of "
        "a basis as heavy as the rule says; range: theory, for the guessed mean degree"
    )
    if params.sigma is None:
        described["expected_cosine"] = {
            str(size): {
                name: float(f"{cosine:.3g}")
                for name, cosine in expected_cosines(params, size, degree).items()
            }
            for size in sizes
        }
    return Choice(estimator_asked, chosen, described, counts_edges)


def expected_cosines(
    params: Parameters, vertices: int, mean_degree: float
) -> dict[Estimator, float]:
    """The expected cosine of the first vector, by estimator; 0 for one that these parameters
    exclude."""
    epsilon = float(epsilon_left(params))
    cosines: dict[Estimator, float] = {
        "degrees": cosine_of_degrees(vertices, mean_degree, epsilon),
        "flip": 0.0,
        "subspace": 0.0,
    }
    noises: dict[Estimator, Callable[[], float]] = {
        "flip": lambda: vertices * flip_of(params).variance,
        "subspace": lambda: _iteration_noise(params),
    }
    for name, noise in noises.items():
        with suppress(Invalid):
            cosines[name] = cosine_past(noise(), vertices, mean_degree)
    return cosines


def flip_limit(params: Parameters) -> int:
    """Vertices up to which `auto` takes flips; 0: never."""
    if params.sigma is not None:
        return 0
    try:
        law = flip_of(params.model_copy(update={"estimator": "flip"}))
    except BadEpsilon:
        return 0
    largest = _largest(params.mean_degree, law)
    if params.delta == 0:
        return largest
    return min(largest, math.floor(_iteration_noise(params) / law.variance))


def eigenvalues_needed(params: Parameters, vertices: int) -> dict[str, float | None]:
    """For each estimator the least |eigenvalue| that it can show; None: these parameters exclude
    it. From public numbers only."""

    def for_range() -> float:
        sigma, degree = float(privacy_of(params).sigma), float(params.mean_degree)
        columns = params.m
        if columns == "auto":
            columns = automatic_columns(params.k, sigma, degree)
        return (degree + columns * sigma**2) * math.sqrt(vertices / columns)

    squares: dict[Estimator, Callable[[], float]] = {
        "flip": lambda: vertices * flip_of(params).variance,
        "subspace": lambda: _iteration_noise(params),
        "range": for_range,
    }
    result: dict[str, float | None] = {}
    for name, squared in squares.items():
        try:
            result[name] = float(f"{math.sqrt(squared()):.3g}")
        except Invalid:
            result[name] = None
    return result


def _iteration_noise(params: Parameters) -> float:
    """Squared, of the last step of the subspace iteration with a heavy basis. Raises BadDelta,
    BadEpsilon, BadSigma."""
    if params.delta == 0:
        raise BadDelta("Gaussian noise needs one above 0", pointer="/params/delta")
    return HEAVY * params.k * params.iterations / (2 * float(privacy_of(params).rho))


def _epsilon(params: Parameters) -> Fraction:
    return Fraction(1) if params.epsilon is None else params.epsilon


def _fits(vertices: int, mean_degree: Fraction, law: Flip) -> bool:
    if pairs_of(vertices) > MOST_PAIRS:
        return False
    return expected_edges(vertices, mean_degree, law) <= MOST_STORED


def _largest(mean_degree: Fraction, law: Flip) -> int:
    low, high = 0, 2 * math.isqrt(MOST_PAIRS)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _fits(middle, mean_degree, law) else (low, middle)
    return low
