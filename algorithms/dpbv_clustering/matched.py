"""The matched decoder: a value from its own flipped bits.

Spec: dpbv-clustering, section 3.8. Points and t are public. For every candidate x, the score is the
received ones in its window less the received zeros; the answer is the middle of the best ones. It
is the maximum-likelihood estimate, a utility for `dpbv-exact`, and the reference attack on `paper`.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tacit.encoders.dpbv_clustering.encoder import BLOCK_COINS, Code, Floats, Words, unpack

CANDIDATES: Final = 501


def recover(words: Words, code: Code, candidates: int = CANDIDATES) -> Floats:
    """Estimates (n,) of one attribute from packed bits (n, w), on an even grid of [L, U]."""
    grid = np.linspace(code.lower, code.upper, candidates)
    low, high = code.window(grid)
    found = np.empty(len(words))
    rows = max(1, BLOCK_COINS // (code.bits + candidates))
    for start in range(0, len(words), rows):
        bits = unpack(words[start : start + rows], code.bits).astype(np.int32)
        running = np.zeros((len(bits), code.bits + 1), np.int32)
        np.cumsum(2 * bits - 1, axis=1, out=running[:, 1:])
        scores = running[:, high] - running[:, low]
        best = scores == scores.max(axis=1, keepdims=True)
        found[start : start + rows] = (best @ grid) / best.sum(axis=1)
    return found


def recover_records(words: Words, codes: tuple[Code, ...]) -> Floats:
    """Estimates (n, d) of records from packed bits (n, d, w)."""
    columns = [
        recover(np.ascontiguousarray(words[:, place]), code) for place, code in enumerate(codes)
    ]
    return np.stack(columns, axis=1)
