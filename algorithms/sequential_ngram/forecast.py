"""How many grams of two items noise alone makes, from public parameters.

Spec: sequential-ngram, section 3, step 7. Where no gram of two items is measured, two items join if
the product of their counts reaches the sum S of all counts.
"""

from __future__ import annotations

import math
from fractions import Fraction


def expected_pairs(items: int, scale: Fraction) -> float:
    """Expected number of pairs among this many items that no sequence has, with Laplace noise.

    A count of noise is above 0 with probability 1/2, and then exponential of mean b = scale. With
    x, y exponential of mean 1, P[x y >= z] = 2 sqrt(z) K_1(2 sqrt(z)), K_1 the modified Bessel
    function of the second kind; here z = S / b^2 and S is about items b / 2.
    """
    from scipy.special import k1

    root = 2 * math.sqrt(items / (2 * float(scale)))
    return (items / 2) ** 2 * root * float(k1(root))
