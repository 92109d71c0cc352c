"""What the tests of algorithms share."""

from __future__ import annotations

import pytest

from algorithms import drawing


@pytest.fixture
def drawn() -> None:
    """The test looks at pictures."""


@pytest.fixture(autouse=True)
def as_without_matplotlib(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes most of the time of a small job: only tests that ask for `drawn` have it."""
    if "drawn" not in request.fixturenames:
        monkeypatch.setattr(drawing, "find_spec", lambda _name: None)
