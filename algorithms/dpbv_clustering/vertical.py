"""Distances of vertically partitioned records: Alice's part is exact, Bob's comes from bits.

Spec: dpbv-clustering, section 3.7. Source: equations 18 to 23 (20 lacks a square). Offered in
`paper` only: Alice's attributes are not protected at all, and a decomposition encodes every record
once per pair.
"""

from __future__ import annotations

import numpy as np

from algorithms.dpbv_clustering.distances import Decoder
from algorithms.dpbv_clustering.hamming import Singles
from tacit.encoders.dpbv_clustering.encoder import (
    BLOCK_COINS,
    Code,
    Design,
    Flip,
    Floats,
    Ints,
    make_codes,
)
from tacit.randomness import NoiseSource


def squared(values: Floats) -> Floats:
    """Exact squared distances (n, n) of Alice's attributes (n, l)."""
    from scipy.spatial.distance import pdist, squareform

    found: Floats = squareform(pdist(values, "sqeuclidean"))
    return found


def combine(left: Floats, right_squared: Floats | Singles) -> Singles:
    """sqrt(L^2 + max(0, R^2))."""
    found: Singles = np.sqrt(left + np.maximum(right_squared, 0)).astype(np.float32)
    np.fill_diagonal(found, 0)
    return found


def pair_code(ranges: tuple[float, ...], bits: int, design: Design, seed: int) -> Code:
    """The code of a pair's two scalars: range [0, 2 sum range_j^2], t' = sum range_j^2 / 2."""
    total = sum(width * width for width in ranges)
    return make_codes(((0.0, 2 * total),), (total / 2,), bits, design, seed)[0]


def decomposed_pairs(
    values: Floats, one: Ints, other: Ints, code: Code, flip: Flip, source: NoiseSource
) -> Floats:
    """R^2 (m,) of pairs of Bob's records (n, r), non-negative, from fresh codes of each pair's

    u = sum(p_A^2 + p_B^2) and v = 2 sum p_A p_B, so that R^2 = u - v.
    """
    norms = np.square(values).sum(axis=1)
    sums = norms[one] + norms[other]
    products = 2 * np.einsum("ij,ij->i", values[one], values[other])
    decoder = Decoder.of(code, flip)
    found = np.empty(len(one))
    rows = max(1, BLOCK_COINS // code.bits)
    for start in range(0, len(one), rows):
        part = slice(start, start + rows)
        left, right = code.clean(sums[part]), code.clean(products[part])
        for bits in (left, right):
            bits ^= flip.draw(source, bits.size).reshape(bits.shape)
        turned = (left ^ right).sum(axis=1)
        found[part] = decoder.factor * (turned - decoder.floor)
    return found


def decomposed(values: Floats, code: Code, flip: Flip, source: NoiseSource) -> Floats:
    """R^2 (n, n) of all pairs."""
    rows = len(values)
    one, other = np.triu_indices(rows, 1)
    found = np.zeros((rows, rows))
    found[one, other] = decomposed_pairs(values, one, other, code, flip, source)
    return found + found.T
