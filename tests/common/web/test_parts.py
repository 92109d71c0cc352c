"""Parts of a service reach routes by their type."""

from __future__ import annotations

import pytest
from fastapi import FastAPI

from common.web.dependencies import part_of, provide


class Store:
    """A part."""


class Durable(Store):
    """A part of a derived type."""


class Ledger:
    """Another part."""


def test_no_part_and_two_parts_are_refused():
    app = FastAPI()
    with pytest.raises(LookupError, match="0 parts of type Store"):
        part_of(app, Store)
    provide(app, Store(), Durable(), Ledger())
    with pytest.raises(LookupError, match="2 parts of type Store"):
        part_of(app, Store)
    assert isinstance(part_of(app, Durable), Durable)
