"""The registry of reproductions: every `EXPERIMENTS` of every module of this package."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from importlib import import_module
from itertools import pairwise
from pkgutil import iter_modules

import reproduction
from reproduction.experiment import Experiment


@lru_cache(maxsize=1)
def experiments() -> tuple[Experiment, ...]:
    """All of them, by source, then by chapter and number."""
    modules = (
        import_module(f"{reproduction.__name__}.{module.name}")
        for module in iter_modules(reproduction.__path__)
    )
    return ordered(each for module in modules for each in getattr(module, "EXPERIMENTS", ()))


def experiment(name: str) -> Experiment:
    """The experiment of this id. Raises KeyError."""
    return {each.id: each for each in experiments()}[name]


def ordered(found: Iterable[Experiment]) -> tuple[Experiment, ...]:
    """In reading order. Raises ValueError for an id that two of them claim."""
    listed = sorted(found, key=lambda each: _place(each.id))
    ids = [each.id for each in listed]
    for one, other in pairwise(ids):
        if one == other:
            raise ValueError(f"two experiments are called {one}")
    return tuple(listed)


def _place(name: str) -> tuple[str, tuple[int, ...], str]:
    """Lu's thesis, whose ids have no prefix, comes first."""
    prefix = re.match(r"(?:(.*)-)?(?:fig|table|prop)-", name)
    numbers = tuple(int(digits) for digits in re.findall(r"\d+", name.rpartition("-")[2]))
    return ((prefix.group(1) or "") if prefix else name, numbers, name)
