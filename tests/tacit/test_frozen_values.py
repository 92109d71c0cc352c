"""Values of the library cannot be changed; only the state of a parser can."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import is_dataclass

import tacit

MUTABLE = {"tacit.records.text_files.Lot"}


def test_every_dataclass_is_frozen() -> None:
    modules = [
        importlib.import_module(found.name)
        for found in pkgutil.walk_packages(tacit.__path__, "tacit.")
    ]
    classes = {
        f"{kind.__module__}.{kind.__qualname__}": kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and is_dataclass(kind) and kind.__module__ == module.__name__
    }
    assert len(classes) > 150
    assert {
        name for name, kind in classes.items() if not kind.__dataclass_params__.frozen
    } == MUTABLE
