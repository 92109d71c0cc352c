"""One office, and one set of workers, for all tests here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.coordinator.jobs.office import Office, office


@pytest.fixture(scope="session")
def it(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    """A coordinator with two workers."""
    with office(tmp_path_factory.mktemp("office")) as running:
        yield running
