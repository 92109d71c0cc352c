"""What must never be imported where: images of curators and aggregators stay small, and no service
starts with what only jobs need."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"sklearn", "scipy", "matplotlib", "dask", "distributed", "dp_accounting", "numba"}


@pytest.mark.parametrize(
    "service",
    [*(pytest.param(s, marks=pytest.mark.slow) for s in ("curator", "aggregator")), "coordinator"],
)
def test_a_service_loads_no_heavy_library(service: str) -> None:
    program = f"import sys, {service}.app, {service}.settings; print(' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & HEAVY
    others = {"curator", "aggregator", "coordinator"} - {service}
    assert not loaded & others
