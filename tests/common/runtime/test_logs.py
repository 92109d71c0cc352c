"""What a log does with an event: nothing at all below its level."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from common.runtime.logs import REDACTED, configure_logging, get_logger


class Touched(Mapping[str, Any]):
    """A value that counts how often it is looked into."""

    def __init__(self) -> None:
        self.looks = 0

    def __getitem__(self, key: str) -> Any:
        return 1

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        self.looks += 1
        return iter(("share",))


@pytest.fixture
def restored() -> Iterator[None]:
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    configure_logging("info", "console")
    root.setLevel(level)
    root.handlers[:] = handlers


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize(("level", "written"), [("warning", False), ("info", True)])
def test_an_event_below_the_level_is_not_prepared(level: str, written: bool) -> None:
    stream, value = io.StringIO(), Touched()
    configure_logging(level, "json", stream=stream)
    get_logger("tacit.test").info("event", figures=value)
    assert (value.looks > 0) is written
    assert (REDACTED in stream.getvalue()) is written
