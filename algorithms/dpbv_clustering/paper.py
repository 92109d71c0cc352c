"""The stance `paper`: DPBV and a clusterer on distances, as the source has them; and the same
machinery where `dpbv-exact` is asked for distances.

Spec: dpbv-clustering, sections 3.1 to 3.8.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from algorithms.contract import Context
from algorithms.dpbv_clustering.consistency import (
    Consistent,
    hop_mean,
    line,
    literal,
    local_cut,
)
from algorithms.dpbv_clustering.distances import (
    Combination,
    Decoder,
    decoded,
    distance_blocks,
    distances,
    point_distances,
)
from algorithms.dpbv_clustering.hamming import Singles, matrix
from algorithms.dpbv_clustering.kcluster import BitDistances, MatrixDistances, kcluster
from algorithms.dpbv_clustering.matched import recover_records
from algorithms.dpbv_clustering.parameters import HOP_MEAN_ROWS, BitPlan, Parameters
from algorithms.dpbv_clustering.points import (
    cut_tree,
    dbscan,
    dbscan_blocks,
    kmeans,
    linkage_tree,
)
from algorithms.dpbv_clustering.problems import BadParameter, TooManyRows
from algorithms.dpbv_clustering.vertical import combine, decomposed, pair_code, squared
from tacit.encoders.dpbv_clustering.encoder import BLOCK_COINS, Floats, Ints, Words, encode
from tacit.randomness import PublicRandom

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

    points: records as recovered from their bits (n, d), where they were; `merges`: of linkage;
    `matrix`: the distances, where they were held.
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
        held = distances(
            words,
            plan.codes,
            plan.flip,
            combination,
            beat=lambda: context.progress(0.5, "distances"),
        )
    elif plan.consistency == "matched":
        held = point_distances(recover_records(words, plan.codes), combination)
    else:
        held, unreached = _closed(words, plan, combination)
    return cluster_matrix(held, params, context, unreached)


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
        found = Decoder.of(code, flip).decode_block(hamming.copy())
        np.fill_diagonal(found, 0)
        return literal(hamming, found)
    if plan.consistency == "hop-mean" and len(bits) > HOP_MEAN_ROWS:
        raise BadParameter("consistency", f"hop-mean takes {HOP_MEAN_ROWS} rows: take matched")
    cut = local_cut(code, flip, random_points=True)
    found = decoded(bits, code, flip)
    return line(found, cut) if plan.consistency == "line" else hop_mean(found, cut)


def cluster_matrix(
    held: Singles, params: Parameters, context: Context, unreached: int = 0
) -> Found:
    """Labels from distances (n, n)."""
    context.progress(0.7, "clustering")
    if params.clusterer == "dbscan":
        assert params.dbscan_radius is not None
        assert params.min_samples is not None
        labels = dbscan(held, params.dbscan_radius, params.min_samples)
        return Found(labels, unreached=unreached, matrix=held)
    if params.clusterer == "agglomerative":
        assert params.k is not None
        if len(held) < 2:  # nothing to merge
            return Found(np.zeros(len(held), np.int64), unreached=unreached, matrix=held)
        merges = linkage_tree(held)
        return Found(cut_tree(merges, params.k), unreached=unreached, merges=merges, matrix=held)
    found = _kcluster(MatrixDistances(held), params, context)
    return Found(
        found.labels,
        found.objective,
        found.iterations,
        found.converged,
        unreached,
        matrix=held,
    )


def _kcluster(held: BitDistances | MatrixDistances, params: Parameters, context: Context) -> Found:
    assert params.k is not None
    generator = PublicRandom(params.public_seed).generator
    found = kcluster(
        held,
        params.k,
        generator,
        params.n_init,
        params.max_iter,
        lambda: context.progress(0.7, "clustering"),
    )
    return Found(found.labels, found.objective, found.iterations, found.converged)


def cluster_exact(words: Words, params: Parameters, plan: BitPlan, context: Context) -> Found:
    """Labels of `dpbv-exact`: of recovered values, or of distances where those are asked for."""
    cluster = cluster_recovered if plan.consistency == "matched" else cluster_bits
    return cluster(words, params, plan, context)


def cluster_recovered(words: Words, params: Parameters, plan: BitPlan, context: Context) -> Found:
    """k-means, or a clusterer on distances, of values that the matched decoder recovers."""
    context.progress(0.5, "decoding")
    points = recover_records(words, plan.codes)
    if params.clusterer == "kcluster":
        assert params.k is not None
        generator = PublicRandom(params.public_seed).generator
        found = kmeans(points, params.k, generator, params.n_init, params.max_iter)
        return Found(found.labels, found.objective, (found.iterations,), None, points=points)
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
        shifted = values[:, first:] - np.array([each.lower for each in bob])
        right = decomposed(shifted, code, plan.flip, context.noise("flips"))
    return cluster_matrix(combine(left, right), params, context)
