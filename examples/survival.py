"""Survival in two arms of a trial at many clinics: Kaplan-Meier curves and a log-rank test.

    python survival.py MINIMUM

Run it beside `tacit up`. Each clinic's table has a row for each patient with the columns `arm`
(treated, control), `outcome` (event, censored) and `weeks`. One table of counts gives for every
week the events and, added up from the end, the patients at risk. MINIMUM is how many clinics have
to take part. Each patient is protected: one more or less moves one count by 1.

Noise: counts are cut to what is possible, the curve is then computed as if they were exact, and the
test's variance includes that of the noise (by simulation, to first order; its p-value is
approximate). Without noise both are the textbook's.
"""

import math
import sys

import numpy as np
from numpy.typing import NDArray

import tacit

Floats = NDArray[np.float64]
ARMS, OUTCOMES, WEEKS = ["treated", "control"], ["event", "censored"], 36


def at_risk(counts: Floats) -> tuple[Floats, Floats]:
    """Events and patients at risk of every week, (..., arms, weeks) each. counts: of patients,
    (..., arms, outcomes, weeks); of one week events come before censoring, as the textbook has
    it."""
    events, censored = np.moveaxis(np.maximum(counts, 0), -2, 0)
    return events, np.cumsum((events + censored)[..., ::-1], axis=-1)[..., ::-1]


def survival(counts: Floats) -> Floats:
    """The Kaplan-Meier estimate after every week, (arms, weeks)."""
    events, risk = at_risk(counts)
    share = np.divide(events, risk, out=np.zeros_like(events), where=risk > 0)
    return np.cumprod(1 - share, axis=-1)


def log_rank(counts: Floats) -> tuple[Floats, Floats]:
    """Observed less expected events of the first arm, and its variance if the arms are alike (the
    hypergeometric one), (...,) each."""
    events, risk = at_risk(counts)
    all_events, all_risk = events.sum(axis=-2), risk.sum(axis=-2)
    known = all_risk > 1
    share = np.divide(risk[..., 0, :], all_risk, out=np.zeros_like(all_risk), where=known)
    left = np.maximum(all_risk - all_events, 0)
    spread = np.divide(all_events * left, all_risk - 1, out=np.zeros_like(left), where=known)
    excess = np.where(known, events[..., 0, :] - all_events * share, 0).sum(axis=-1)
    return excess, (spread * share * (1 - share)).sum(axis=-1)


def compare(counts: Floats, deviation: float = 0.0, draws: int = 1_000) -> tuple[float, float]:
    """The log-rank statistic (chi-squared, one degree of freedom) and its p-value. deviation: of
    the noise of every count."""
    excess, variance = (float(each) for each in log_rank(counts))
    if deviation:
        noise = np.random.default_rng(1).normal(0, deviation, (draws, *counts.shape))
        variance += float(log_rank(counts + noise)[0].var())
    statistic = excess**2 / variance if variance else 0.0
    return statistic, math.erfc(math.sqrt(statistic / 2))


def main(minimum: int) -> None:
    """Ask, and print both curves and the test."""
    trial = tacit.Query.of(
        name="trial-survival", function="table", privacy_unit="record", max_readings=65_536,
        columns={"arm": ARMS, "outcome": OUTCOMES, "weeks": list(range(WEEKS + 1))},
        unit="1", bounds=["0", "1"], resolution="1", mechanism="distributed", epsilon="1",
        sharing="additive", aggregators=3, collusion={"aggregators": 2},
        min_participants=minimum, n_max=10_000, deadline_s=20,
    )  # fmt: skip
    with tacit.Client.at_home() as client:
        result = client.rounds.ask(trial)
    counts = np.array([float(cell) for cell in result.value]).reshape(2, 2, WEEKS)
    for arm, curve in zip(ARMS, survival(counts), strict=True):
        print(arm, *(f"{share:.2f}" for share in curve))
    deviation = float(result.report.error_of("table").standard_deviation)
    statistic, p_value = compare(counts, deviation)
    print(
        f"log-rank {statistic:.2f}, p about {p_value:.2g}, with noise of deviation {deviation:.1f}"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]))
