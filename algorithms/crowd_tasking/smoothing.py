"""Shares of neighbouring buckets, smoothed as far as their own noise calls for: post-processing.

Readings of a sensor vary smoothly, and the noise of unbiased shares does not: it is the same in
every wave of their cosine transform. So short waves are lowered, by 1 / (1 + (wave / c)^4), with
the c of least estimated error. Histograms of a few spikes are better served by the simplex alone,
and estimated errors show that, too. No choice reads more than the noisy shares.

Sources: unbiased estimates of risk (C. Stein, 1981), of a projection by its free dimensions (R.
Tibshirani and J. Taylor, 2012). Spec: crowd-tasking, section 10.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
from scipy.fft import dct, idct

from algorithms.crowd_tasking.noise_law import Floats
from algorithms.simplex import on_simplex
from tacit.encoders.crowd_tasking.bounded import Subset

_CUTS: Final = 40
_SHARPNESS: Final = 4


def subset_shares(law: Subset, counts: Floats, reports: int) -> Floats:
    """Shares (d,) on the simplex, from how many of that many subset reports hold each bucket."""
    unbiased = law.shares(counts, reports)
    return smoothed(unbiased, law.wave_variance(reports))


def smoothed(unbiased: Floats, variance: float) -> Floats:
    """Shares (d,) on the simplex, the smoothed ones if their estimated squared error is lower.

    unbiased (d,): with a sum of 1; variance: of each of the d - 1 waves of its cosine transform.
    """
    waves = dct(unbiased, norm="ortho")
    kept = _kept(unbiased.size)
    lost = np.square(1 - kept) @ np.square(waves)
    smooth = lost + variance * (2 * kept - 1)[:, 1:].sum(axis=1)
    plain = on_simplex(unbiased)
    free = 2 * (np.count_nonzero(plain) - 1) - (unbiased.size - 1)
    best = int(smooth.argmin())
    if smooth[best] >= np.square(plain - unbiased).sum() + variance * free:
        return plain
    return on_simplex(idct(kept[best] * waves, norm="ortho"))


@lru_cache(maxsize=16)
def _kept(buckets: int) -> Floats:
    """(cuts, d): what is kept of each wave, from all but none to nearly all."""
    cuts = np.geomspace(0.5, 4 * buckets, _CUTS)[:, None]
    found: Floats = 1 / (1 + (np.arange(buckets) / cuts) ** _SHARPNESS)
    return found
