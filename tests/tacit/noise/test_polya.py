"""Polya shares: each follows its law, and together they are one discrete Laplace.

Chi-square checks use fixed seeds of `SeededRandom`; with fresh seeds each would fail at the rate
`ALARM` though all is well.
"""

import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from tacit.noise.polya import PolyaShare, add_jumps, power_ratio_coins, share_tables
from tacit.randomness import SecureRandom, SeededRandom
from tests.tacit.noise.words import Words

ALARM = 1e-6
DRAWS = 10**6
EXACT = Context(prec=120, Emin=-(10**9), Emax=10**9)


def share_law(scale: float, weight: float) -> np.ndarray:
    """P(X - Y = z), z = -n/2 .. n/2 - 1, from the characteristic function, folded at 80 b.

    phi(t) = ((1 - a)^2 / (1 - 2 a cos t + a^2))^r, with 1 - 2 a cos t + a^2 written as
    (1 - a)^2 + 4 a sin^2(t/2) so that nothing cancels.
    """
    n = 1 << math.ceil(math.log2(max(64, 80 * scale)))
    a = math.exp(-1 / scale)
    gap = math.expm1(-1 / scale) ** 2
    angle = 2 * np.pi * np.arange(n // 2 + 1) / n
    transform = (gap / (gap + 4 * a * np.sin(angle / 2) ** 2)) ** weight
    return np.fft.fftshift(np.fft.irfft(transform, n))


def goodness(drawn, law: np.ndarray) -> float:
    """Chi-square over runs of values that expect at least 100 draws each."""
    centre, upto = len(law) // 2, np.cumsum(law * len(drawn))
    counts = np.bincount(np.clip(drawn + centre, 0, len(law) - 1), minlength=len(law))
    starts = [0]
    while (end := int(np.searchsorted(upto, (upto[starts[-1] - 1] if starts[1:] else 0) + 100))) < (
        len(law) - 1
    ):
        starts.append(end + 1)
    starts = starts[:-1]  # what is left behind the last whole run belongs to it
    observed = np.add.reduceat(counts, starts)
    wanted = np.diff(np.append(0, upto)[[*starts, len(law)]])
    return stats.chisquare(observed, wanted * (observed.sum() / wanted.sum())).pvalue


@pytest.mark.parametrize("weight", ["0.5", "0.01"])
@pytest.mark.parametrize("scale", ["0.5", "1000"])
def test_single_shares_follow_their_law(scale, weight):
    share = PolyaShare(Fraction(scale), Fraction(weight))
    drawn = share.draw(SeededRandom(30), DRAWS)
    assert drawn.dtype == np.int64
    assert goodness(drawn, share_law(float(scale), float(weight))) > ALARM


@pytest.mark.parametrize("weight", [pytest.param("0.5", marks=pytest.mark.slow), "0.01"])
@pytest.mark.parametrize("scale", ["12345.678", "10000000"])
def test_single_shares_of_wide_noise(scale, weight):
    """b = 12345.678 on its full grid; b = 10^7, beyond a grid: mass at 0, sign and variance."""
    b, r = float(Fraction(scale)), float(Fraction(weight))
    drawn = PolyaShare(Fraction(scale), Fraction(weight)).draw(SeededRandom(31), DRAWS)
    if b < 10**5:
        assert goodness(drawn, share_law(b, r)) > ALARM
        return
    a = math.exp(-1 / b)
    k = np.arange(1, 4000)
    steps = np.log(k - 1 + r) - np.log(k) - 1 / b
    one_side = np.exp(2 * r * math.log(-math.expm1(-1 / b)) + 2 * np.cumsum(steps))
    # sum of squares of NB masses; the terms past the grid behave like c k^(2r-2) a^(2k)
    tail = np.exp(np.log(one_side[-1])) * tail_sum(k[-1], 2 * r - 2, 2 / b)
    zero = math.exp(2 * r * math.log(-math.expm1(-1 / b))) + one_side.sum() + tail
    none = int((drawn == 0).sum())
    assert stats.binomtest(none, DRAWS, zero).pvalue > ALARM
    assert stats.binomtest(int((drawn > 0).sum()), DRAWS - none).pvalue > ALARM
    variance = 2 * r * a / math.expm1(-1 / b) ** 2
    fourth = 3 * variance**2 * (1 + 1 / r)  # kurtosis of the continuous limit: 3 + 3/r
    error = math.sqrt((fourth - variance**2) / DRAWS)
    assert abs(np.mean(drawn.astype(float) ** 2) - variance) < 5 * error


def tail_sum(start: int, power: float, rate: float) -> float:
    """sum_{k > start} (k/start)^power e^(-rate (k - start)), by the integral and half a step."""
    x = np.geomspace(start + 0.5, start + 40 / rate, 200_001)
    y = (x / start) ** power * np.exp(-rate * (x - start))
    return float(np.trapezoid(y, x))


@pytest.mark.parametrize(
    ("parties", "draws"),
    [(10, 300_000), (1000, 20_000)],
)
@pytest.mark.parametrize("scale", ["0.5", "1000"])
def test_shares_add_up_to_one_discrete_laplace(parties, draws, scale):
    share, source = PolyaShare(Fraction(scale), Fraction(1, parties)), SeededRandom(32)
    total = np.zeros(draws, dtype=np.int64)
    for _ in range(parties):
        total += share.draw(source, draws)
    assert goodness(total, share_law(float(scale), 1.0)) > ALARM


@pytest.mark.parametrize(
    "scale", ["3", *(pytest.param(s, marks=pytest.mark.slow) for s in ("12345.678", "10000000"))]
)
def test_shares_of_every_scale_add_up(scale):
    """Against the closed form P(Z >= m) = P(Z <= -m) = a^m / (1 + a) in 250 cells."""
    b, draws = float(Fraction(scale)), 300_000
    parties = 3
    share, source = PolyaShare(Fraction(scale), Fraction(1, parties)), SeededRandom(37)
    total = np.zeros(draws, dtype=np.int64)
    for _ in range(parties):
        total += share.draw(source, draws)
    marks = np.unique(np.ceil(-b * np.log(np.arange(1, 126) / 126)).astype(np.int64))
    tails = np.exp(-marks / b) / (1 + math.exp(-1 / b))
    law = np.diff(np.concatenate([[0], tails[::-1], 1 - tails, [1]]))
    edges = np.concatenate([1 - marks[::-1], marks])
    counts = np.bincount(np.searchsorted(edges, total, side="right"), minlength=len(law))
    assert stats.chisquare(counts, law * draws).pvalue > ALARM


@pytest.mark.slow
def test_a_thousand_shares_add_up_over_a_million_draws():
    share, source = PolyaShare(Fraction(1000), Fraction(1, 1000)), SeededRandom(33)
    total = np.zeros(DRAWS, dtype=np.int64)
    for _ in range(1000):
        total += share.draw(source, DRAWS)
    assert goodness(total, share_law(1000.0, 1.0)) > ALARM


@pytest.mark.parametrize("weight", ["1", "2.5"])
def test_weights_above_one_draw_whole_laplaces(weight):
    drawn = PolyaShare(Fraction(3), Fraction(weight)).draw(SeededRandom(34), DRAWS)
    assert goodness(drawn, share_law(3.0, float(weight))) > ALARM


@pytest.mark.parametrize(
    ("scale", "weight"),
    [("3", "0.01"), pytest.param("1000", "0.5", marks=pytest.mark.slow)],
)
def test_the_tie_branch_follows_the_law(scale, weight):
    tables = share_tables(Fraction(scale), Fraction(weight), 4)
    drawn = np.zeros(DRAWS, dtype=np.int64)
    source = SeededRandom(35)
    for block in np.split(drawn, 100):
        add_jumps(block, tables, source)
    assert goodness(drawn, share_law(float(scale), float(weight))) > ALARM


@pytest.mark.parametrize("scale", ["0.01", "0.5", "3", "12345.678", "20000000"])
@pytest.mark.parametrize("weight", ["0.001", "0.5", "0.999"])
def test_the_tables_are_the_law(scale, weight):
    """Poisson and bucket weights and thinning thresholds, against 120 digits."""
    b, r = Fraction(scale), Fraction(weight)
    tables = share_tables(b, r)

    def power(k):  # a^k
        return EXACT.exp(EXACT.divide(Decimal(-k * b.denominator), Decimal(b.numerator)))

    law = [power(2**j) for j in range(tables.buckets.size)]
    assert variation(tables.buckets.weights(), law) < Fraction(1, 1 << 120)
    assert power(2**tables.buckets.size) <= EXACT.power(Decimal(2), -130)

    mean = Decimal(0)
    for rate in law:
        mean = EXACT.add(mean, EXACT.multiply(rate, Decimal(2 * r.numerator)))
    mean = EXACT.divide(mean, Decimal(r.denominator))
    poisson = [EXACT.exp(EXACT.minus(mean))]
    for k in range(1, 600):
        poisson.append(EXACT.divide(EXACT.multiply(poisson[-1], mean), Decimal(k)))
    weights = tables.proposals.weights()
    padded = [*weights, *[0] * (len(poisson) - len(weights))]
    assert variation(padded, poisson) < Fraction(1, 1 << 120)

    for place in range(len(tables.thin_high)):
        for digit in (0, 1, 2, 100, 255):
            high, low = (int(t[place, digit]) for t in (tables.thin_high, tables.thin_low))
            dropped = Fraction(high << 64 | low, 1 << 128)
            exact_drop = EXACT.subtract(1, power(digit * 256**place))
            fixed = Fraction(int(EXACT.multiply(exact_drop, Decimal(1 << 300))), 1 << 300)
            assert abs(dropped - fixed) <= Fraction(1, 1 << 128)
    assert not tables.thin_high[:, 0].any() and not tables.thin_low[:, 0].any()


def variation(weights, law) -> Fraction:
    """Total variation of weights over 2^128 from a law in decimals, kept to 2^-300."""
    fixed = [int(EXACT.multiply(p, Decimal(1 << 300))) for p in law]
    whole = sum(fixed)
    return sum(
        abs(Fraction(w, 1 << 128) - Fraction(p, whole))
        for w, p in zip(weights, fixed, strict=True)
        if w or p
    ) / Fraction(2)


@pytest.mark.parametrize("scale", ["0.01", "3", "20000000"])
@pytest.mark.parametrize("weight", ["0.001", "0.999999", "1"])
def test_a_share_is_within_2_to_minus_116(scale, weight):
    assert PolyaShare(Fraction(scale), Fraction(weight)).distance() < Fraction(1, 1 << 116)


def test_the_ambient_decimal_context_does_not_matter():
    expected = share_tables(Fraction(7), Fraction(1, 3))
    with localcontext(Context(prec=5)):
        tables = share_tables.__wrapped__(Fraction(7), Fraction(1, 3))
    assert tables.mean == expected.mean
    assert tables.proposals.weights() == expected.proposals.weights()
    assert tables.buckets.weights() == expected.buckets.weights()
    assert np.array_equal(tables.thin_low, expected.thin_low)


@pytest.mark.parametrize("bits", [32, 4])
def test_the_power_ratio_is_exact(bits):
    """Frequencies for every k up to 64; with 4 bits nearly every coin meets a tie."""
    sizes = np.repeat(np.arange(1, 65, dtype=np.uint64), 2000 if bits == 4 else 20_000)
    powers = np.uint64(1) << np.floor(np.log2(sizes)).astype(np.uint64)
    source = SeededRandom(36)
    kept = power_ratio_coins(powers, sizes, source.words(len(sizes)), source, bits)
    shown = kept.reshape(64, -1).sum(axis=1)
    each = len(sizes) // 64
    for k in range(1, 65):
        p = 2 ** (k.bit_length() - 1) / k
        assert stats.binomtest(int(shown[k - 1]), each, p).pvalue > ALARM


def test_the_largest_sizes_do_not_wrap():
    sizes = np.array([(1 << 32) - 1, 1 << 31], dtype=np.uint64)
    powers = np.full(2, 1 << 31, dtype=np.uint64)
    ones = np.full(2, (1 << 64) - 1, dtype=np.uint64)
    assert power_ratio_coins(powers, sizes, ones, Words()).tolist() == [False, True]
    assert power_ratio_coins(powers, sizes, ones * np.uint64(0), Words()).tolist() == [True, True]


def test_tiny_scales_and_weights():
    assert not PolyaShare(Fraction("0.01"), Fraction(1, 3)).draw(SeededRandom(1), 1000).any()
    assert not PolyaShare(Fraction(10), Fraction(1, 10**12)).draw(SeededRandom(1), 1000).any()
    assert PolyaShare(Fraction(10), Fraction(1, 3)).draw(SecureRandom(), 0).shape == (0,)
