"""The stance `paper`: DPBV and a clusterer on distances, as the source has them.

The same machinery serves `dpbv-exact` where it is requested distances. Also the matched decoder,
a value from its own flipped bits, and the attack of an adversary who holds the public points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from algorithms.contract import Context
from algorithms.dpbv_clustering.clustering_methods import (
    BitDistances,
    MatrixDistances,
    cut_tree,
    dbscan,
    dbscan_blocks,
    kcluster,
    kmeans,
    linkage_tree,
)
from algorithms.dpbv_clustering.distances import (
    Combination,
    Consistent,
    Decoder,
    Singles,
    combine,
    decoded,
    decomposed,
    distance_blocks,
    distances,
    hop_mean,
    line,
    literal,
    local_cut,
    matrix,
    pair_code,
    point_distances,
    squared,
)
from algorithms.dpbv_clustering.parameters import (
    HOP_MEAN_ROWS,
    BadParameter,
    BitPlan,
    Parameters,
    TooManyRows,
)
from tacit.encoders.dpbv_clustering import (
    BLOCK_COINS,
    Code,
    Flip,
    Floats,
    Ints,
    Words,
    encode,
    ratio_test_error,
    unpack,
)
from tacit.randomness import PublicRandom, SeededRandom

CANDIDATES: Final = 501


def recover(words: Words, code: Code, candidates: int = CANDIDATES) -> Floats:
    """Estimates (n,) of one attribute from packed bits (n, w), on an even grid of [L, U]."""
    grid = np.linspace(code.lower, code.upper, candidates)
    low, high = code.window(grid)
    result = np.empty(len(words))
    rows = max(1, BLOCK_COINS // (code.bits + candidates))
    for start in range(0, len(words), rows):
        bits = unpack(words[start : start + rows], code.bits).astype(np.int32)
        running = np.zeros((len(bits), code.bits + 1), np.int32)
        np.cumsum(2 * bits - 1, axis=1, out=running[:, 1:])
        scores = running[:, high] - running[:, low]
        best = scores == scores.max(axis=1, keepdims=True)
        result[start : start + rows] = (best @ grid) / best.sum(axis=1)
    return result


def recover_records(words: Words, codes: tuple[Code, ...]) -> Floats:
    """Estimates (n, d) of records from packed bits (n, d, w)."""
    columns = [
        recover(np.ascontiguousarray(words[:, place]), code) for place, code in enumerate(codes)
    ]
    return np.stack(columns, axis=1)


# Spec: dpbv-clustering, sections 3.8, 4.2 and 9. Public figures only: the error of the
# likelihood-ratio test between two stated values is computed, and how well a value is recovered is
# simulated on invented values.

PAIR: Final = (0.486, 0.524)
"""The source's own pair, 24.3 and 26.2 of [0, 50], as shares of the range."""
_INVENTED: Final = 64


@dataclass(frozen=True)
class Attack:
    """pair: two values; differing: their clean bits that differ; error: of the test, equal priors;
    floor: the least error that the stated guarantee allows; recovery: mean absolute error."""

    pair: tuple[float, float]
    differing: int
    error: float
    floor: float
    recovery: float


def attack(code: Code, flip: Flip, epsilon: float, delta: float, seed: int) -> Attack:
    """On one attribute, against a guarantee of (epsilon, delta): floor (1 - delta)/(1 + e^eps)."""
    width = code.upper - code.lower
    pair = (code.lower + PAIR[0] * width, code.lower + PAIR[1] * width)
    one, other = code.clean(np.array(pair))
    differing = int((one != other).sum())
    return Attack(
        pair,
        differing,
        ratio_test_error(differing, float(flip.probability)),
        (1 - delta) * math.exp(-epsilon) / (1 + math.exp(-epsilon)),
        recovery_error(code, flip, _INVENTED, SeededRandom(seed)),
    )


def recovery_error(code: Code, flip: Flip, values: int, source: SeededRandom) -> float:
    """The matched decoder's mean absolute error on uniform values."""
    invented = source.generator.uniform(code.lower, code.upper, values)
    words = encode(invented[:, None], (code,), flip, source)
    return float(np.abs(recover(words[:, 0], code) - invented).mean())


# Spec: dpbv-clustering, sections 3.1 to 3.8.

MATRIX_ROWS: Final = 20_000
"""The largest table whose distances are all held: 1.6 GB."""
LITERAL_ROWS: Final = 1000
PAIR_ROWS: Final = 500
_SHORTCUT_ROWS: Final = (MATRIX_ROWS, 4096)
"""Beyond these kCluster on sums of attributes, or on one, works on the bits themselves."""
"""The largest table whose pairs are all encoded one by one."""


@dataclass(frozen=True, eq=False)
class Found:
    """labels (n,), -1 noise; what the clusterer states about itself; `unreached` pairs of closures.

    points: records as recovered from their bits (n, d), if they were; `merges`: of linkage;
    `matrix`: the distances, if they were stored.
    """

    labels: Ints
    objective: float | None = None
    iterations: tuple[int, ...] = ()
    converged: bool | None = None
    unreached: int = 0
    points: Floats | None = None
    merges: Floats | None = None
    matrix: Singles | None = None


def encode_blocks(values: Floats, plan: BitPlan, context: Context, stage: str = "flips") -> Words:
    """Packed bits (n, d, w) of mapped records (n, d), block by block of fixed size."""
    rows = max(1, 8 * BLOCK_COINS // (plan.codes[0].bits * len(plan.codes)))
    starts = range(0, len(values), rows)

    def part(start: int) -> Words:
        context.progress(0.4 * start / max(len(values), 1), "encoding")
        source = context.noise(stage, start // rows)
        return encode(values[start : start + rows], plan.codes, plan.flip, source)

    blocks = context.map_blocks(part, starts)
    return np.concatenate(blocks) if blocks else part(0)


def cluster_bits(words: Words, params: Parameters, plan: BitPlan, context: Context) -> Found:
    """Labels of encoded records: sees bits only."""
    rows = len(words)
    combination = Combination.of(plan.codes, plan.flip, params.metric, correct=plan.bias_correct)
    plain = plan.consistency == "none"
    if (
        plain
        and rows > _SHORTCUT_ROWS[len(plan.codes) == 1]
        and params.clusterer == "kcluster"
        and combination.metric == "manhattan"
    ):
        context.progress(0.5, "clustering")
        return _kcluster(BitDistances(words, plan.codes, plan.flip), params, context)
    if plain and params.clusterer == "dbscan" and rows > MATRIX_ROWS:
        blocks = distance_blocks(words, plan.codes, plan.flip, combination)
        assert params.dbscan_radius is not None
        assert params.min_samples is not None
        return Found(dbscan_blocks(blocks, rows, params.dbscan_radius, params.min_samples))
    if rows > MATRIX_ROWS:
        raise TooManyRows("dataset", f"distances are held for {MATRIX_ROWS} rows")
    context.progress(0.5, "distances")
    unreached = 0
    if plain:
        apart = distances(
            words,
            plan.codes,
            plan.flip,
            combination,
            beat=lambda: context.progress(0.5, "distances"),
        )
    elif plan.consistency == "matched":
        apart = point_distances(recover_records(words, plan.codes), combination)
    else:
        apart, unreached = _closed(words, plan, combination)
    return cluster_matrix(apart, params, context, unreached)


def _closed(words: Words, plan: BitPlan, combination: Combination) -> tuple[Singles, int]:
    total = np.zeros((len(words), len(words)), np.float32)
    unreached = 0
    for place in range(len(plan.codes)):
        bits = np.ascontiguousarray(words[:, place])
        repaired = _repaired(bits, plan, place)
        unreached += repaired.unreached
        combination.add(total, repaired.distances)
    return combination.finish(total), unreached


def _repaired(bits: Words, plan: BitPlan, place: int) -> Consistent:
    code, flip = plan.codes[place], plan.flip
    if plan.consistency == "literal":
        if len(bits) > LITERAL_ROWS:
            raise TooManyRows("consistency", f"literal takes {LITERAL_ROWS} rows")
        hamming = matrix(bits, code.bits)
        decoded_distances = Decoder.of(code, flip).decode_block(hamming.copy())
        np.fill_diagonal(decoded_distances, 0)
        return literal(hamming, decoded_distances)
    if plan.consistency == "hop-mean" and len(bits) > HOP_MEAN_ROWS:
        raise BadParameter("consistency", f"hop-mean takes {HOP_MEAN_ROWS} rows: take matched")
    cut = local_cut(code, flip, random_points=True)
    decoded_distances = decoded(bits, code, flip)
    return (
        line(decoded_distances, cut)
        if plan.consistency == "line"
        else hop_mean(decoded_distances, cut)
    )


def cluster_matrix(
    distances: Singles, params: Parameters, context: Context, unreached: int = 0
) -> Found:
    """Labels from distances (n, n)."""
    context.progress(0.7, "clustering")
    if params.clusterer == "dbscan":
        assert params.dbscan_radius is not None
        assert params.min_samples is not None
        labels = dbscan(distances, params.dbscan_radius, params.min_samples)
        return Found(labels, unreached=unreached, matrix=distances)
    if params.clusterer == "agglomerative":
        assert params.k is not None
        if len(distances) < 2:  # nothing to merge
            return Found(np.zeros(len(distances), np.int64), unreached=unreached, matrix=distances)
        merges = linkage_tree(distances)
        return Found(
            cut_tree(merges, params.k), unreached=unreached, merges=merges, matrix=distances
        )
    clustering = _kcluster(MatrixDistances(distances), params, context)
    return Found(
        clustering.labels,
        clustering.objective,
        clustering.iterations,
        clustering.converged,
        unreached,
        matrix=distances,
    )


def _kcluster(
    distances_given: BitDistances | MatrixDistances, params: Parameters, context: Context
) -> Found:
    assert params.k is not None
    generator = PublicRandom(params.public_seed).generator
    clustering = kcluster(
        distances_given,
        params.k,
        generator,
        params.n_init,
        params.max_iter,
        lambda: context.progress(0.7, "clustering"),
    )
    return Found(
        clustering.labels, clustering.objective, clustering.iterations, clustering.converged
    )


def cluster_exact(words: Words, params: Parameters, plan: BitPlan, context: Context) -> Found:
    """Labels of `dpbv-exact`: of recovered values, or of distances where those are requested."""
    cluster = cluster_recovered if plan.consistency == "matched" else cluster_bits
    return cluster(words, params, plan, context)


def cluster_recovered(words: Words, params: Parameters, plan: BitPlan, context: Context) -> Found:
    """k-means, or a clusterer on distances, of values that the matched decoder recovers."""
    context.progress(0.5, "decoding")
    points = recover_records(words, plan.codes)
    if params.clusterer == "kcluster":
        assert params.k is not None
        generator = PublicRandom(params.public_seed).generator
        fitted = kmeans(points, params.k, generator, params.n_init, params.max_iter)
        return Found(fitted.labels, fitted.objective, (fitted.iterations,), None, points=points)
    if len(points) > MATRIX_ROWS:
        raise TooManyRows("dataset", f"distances are held for {MATRIX_ROWS} rows")
    found_matrix = cluster_matrix(
        point_distances(points, Combination(params.metric)), params, context
    )
    return Found(found_matrix.labels, points=points, merges=found_matrix.merges)


def cluster_vertical(values: Floats, params: Parameters, plan: BitPlan, context: Context) -> Found:
    """Alice's attributes exactly, Bob's from bits."""
    assert params.alice_columns is not None
    first = params.alice_columns
    if first >= values.shape[1]:
        raise BadParameter("alice_columns", "Bob holds at least one attribute")
    if len(values) > MATRIX_ROWS:
        raise TooManyRows("dataset", f"distances are held for {MATRIX_ROWS} rows")
    left = squared(values[:, :first])
    bob = plan.codes[first:]
    right: Floats | Singles
    if params.partition == "vertical-plain":
        words = encode(values[:, first:], bob, plan.flip, context.noise("flips"))
        combination = Combination.of(bob, plan.flip, "euclidean", correct=plan.bias_correct)
        right = np.square(distances(words, bob, plan.flip, combination))
    else:
        if len(values) > PAIR_ROWS:
            raise TooManyRows("dataset", f"pairs are encoded for {PAIR_ROWS} rows")
        widths = tuple(code.upper - code.lower for code in bob)
        code = pair_code(widths, params.s * len(bob), "uniform", params.r_seed)
        shifted = values[:, first:] - np.array([feature.lower for feature in bob])
        right = decomposed(shifted, code, plan.flip, context.noise("flips"))
    return cluster_matrix(combine(left, right), params, context)
