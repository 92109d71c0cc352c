"""The audits of the better methods: what they prove stays below epsilon, and a fault shows.

Spec: utility, section 2, checks 3 and 4. `python -m bench.utility --only audits` runs all of them
100,000 times; here those are that take no time.

The baselines of `bench.utility` are what they are named after.

Every benchmark starts: what it names in the product is there.
"""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bench.utility.audits import RUNS, Case, audited, cases
from bench.utility.peers import (
    hybrid,
    piecewise,
    randomised_response,
    two_points,
)
from reproduction.stand_in_data import power_law

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


GRAPH = power_law(400, 3_000, 1)
LOW, HIGH = GRAPH.first.astype(np.int32), GRAPH.second.astype(np.int32)


@pytest.mark.parametrize(("method", "place"), [(piecewise, -1.0), (two_points, 0.3), (hybrid, 1.0)])
def test_reports_are_unbiased(method: object, place: float) -> None:
    size = 200_000
    found = method(np.full(size, place), 1.5, np.random.default_rng(2))  # type: ignore[operator]
    assert abs(found.mean() - place) < 5 * found.std() / math.sqrt(size)


def test_the_published_variance_of_a_piecewise_report() -> None:
    """Of 0: (e^(epsilon / 2) + 3) / (3 (e^(epsilon / 2) - 1)^2)."""
    half = math.exp(1)
    found = piecewise(np.zeros(200_000), 2, np.random.default_rng(3))
    assert found.var() == pytest.approx((half + 3) / (3 * (half - 1) ** 2), rel=0.02)


def test_shares_of_randomised_response() -> None:
    places = np.repeat(np.arange(4), [50_000, 30_000, 20_000, 0])
    found = randomised_response(places, 4, 2.0, np.random.default_rng(4))
    assert found == pytest.approx([0.5, 0.3, 0.2, 0], abs=0.01)


ROOT = Path(__file__).parents[2]
OTHERS = ("flwr", "mpyc")
"""Libraries that are only installed to be compared with."""


@pytest.mark.slow
def test_every_benchmark_can_be_imported() -> None:
    paths = [path.relative_to(ROOT).with_suffix("") for path in (ROOT / "bench").rglob("*.py")]
    modules = sorted(".".join(path.parts) for path in paths)
    assert len(modules) > 40
    code = (
        "import sys; from importlib import import_module\n"
        "for name in sys.argv[1:]:\n"
        "    try: import_module(name)\n"
        f"    except ModuleNotFoundError as error: assert error.name in {OTHERS}, (name, error)\n"
        "    except ImportError as error: raise SystemExit(f'{name}: {error}')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *modules], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
