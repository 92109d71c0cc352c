"""Real services for those who attack them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.aggregator.conftest import alliance, pair, single, trio
from tests.coordinator.conftest import house
from tests.coordinator.jobs.office import Office, office
from tests.curator.conftest import s, site, world
from tests.e2e.conftest import deviating, homes

__all__ = ["alliance", "deviating", "homes", "house", "pair"]
__all__ += ["s", "single", "site", "trio", "world"]


@pytest.fixture(scope="package")
def it(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    """A coordinator with a job worker, which the tests of datasets share."""
    with office(tmp_path_factory.mktemp("office"), job_workers=1) as running:
        yield running
