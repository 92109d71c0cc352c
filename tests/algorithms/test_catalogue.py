"""The catalogue: every entry has the one shape, and nothing heavy is loaded to look at it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from algorithms import catalogue
from algorithms.catalogue import NAMES


@pytest.mark.parametrize("name", NAMES)
def test_an_entry_is_whole(name: str) -> None:
    found = catalogue.find(name)
    assert found.name == name
    assert set(found.stances) <= {"sound", "paper"}
    shown = catalogue.shown(name)
    assert json.loads(json.dumps(shown)) == shown
    assert shown["parameters"]["type"] == "object"
    for field in ("title", "source", "purpose", "dataset_kind", "complexity", "result"):
        assert shown[field], field
    for forbidden in ("stance", "seed", "federation", "acknowledge_unverified"):
        assert forbidden not in shown["parameters"]["properties"]


@pytest.mark.slow
def test_the_catalogue_loads_no_heavy_library() -> None:
    program = (
        "import sys, coordinator.app; from algorithms import catalogue; "
        "[catalogue.shown(name) for name in catalogue.NAMES]; print(' '.join(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"dask", "distributed", "sklearn", "matplotlib", "pyarrow"}
