"""The audits of the better methods: what they prove stays below epsilon, and a fault shows.

Spec: utility, section 2, checks 3 and 4. `python -m bench.utility --only audits` runs all of them
100,000 times; here those are that take no time.
"""

from __future__ import annotations

import pytest

from bench.utility.audits import RUNS, Case, audited, cases

DEAR = ("blocks", "two-level", "diffpart+rest", "rest", "timestamps")
"""A run is a release of its own."""
CASES = tuple(cases())
ONCE = [case for case in CASES if case.name.startswith(DEAR)]
ALL_AT_ONCE = [case for case in CASES if case not in ONCE]


@pytest.mark.parametrize("case", ALL_AT_ONCE, ids=lambda case: case.name)
def test_what_is_proved(case: Case) -> None:
    """10^5 runs; fails by chance once in 10^6."""
    found = audited(case, RUNS).proves(None).epsilon
    assert (found > float(case.epsilon)) is case.faulty
    assert found > 0.9 * float(case.epsilon)


@pytest.mark.parametrize("case", ONCE, ids=lambda case: case.name)
def test_no_release_tells_more_than_epsilon(case: Case) -> None:
    """By the scales that are said; a release of the planted fault does."""
    most = max(float(abs(case.ratios(there, 400)).max()) for there in (True, False))
    assert (most > float(case.epsilon) * (1 + 1e-9)) is case.faulty
    assert most > 0.9 * float(case.epsilon)
