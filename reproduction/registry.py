"""The registry of reproductions: every `EXPERIMENTS` of every module of this package."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from importlib import import_module
from itertools import pairwise
from pkgutil import iter_modules
from typing import Final

import reproduction
from reproduction.experiment import Experiment

CHECKS: Final = {
    "printed, recomputed": """
        table-2.2 book-table-11.2 chen-table-5.2 dpbv-table-3
    """,
    "printed, recomputed, trends": """
        table-5.1 book-fig-12.3 chen-table-2.1
    """,
    "printed, recomputed, trends; some stand-in data": """
        table-5.3
    """,
    "printed, recomputed; some stand-in data": """
        table-5.4 fig-7.9 fig-7.10
    """,
    "printed, trends": """
        table-5.2
    """,
    "recomputed": """
        dpbv-fig-2 book-table-11.6 book-table-11.7 chen-fig-6.10
    """,
    "recomputed, trends": """
        prop-4.1 fig-4.2 fig-4.3 fig-4.4 fig-4.5 fig-5.2 fig-6.8 fig-6.9 fig-6.10 fig-7.7
        book-fig-11.2 book-fig-11.8 book-table-11.11 book-fig-12.8 chen-fig-6.7 chen-table-6.10
        dpbv-fig-3 dpbv-fig-5 dpbv-fig-6 dpbv-fig-9 dpbv-fig-10 dpbv-fig-11
    """,
    "recomputed, trends; some stand-in data": """
        fig-5.4 fig-7.8 book-fig-12.7 chen-table-6.7 chen-table-6.8 chen-fig-6.9 chen-fig-6.14
        chen-fig-6.15 chen-table-7.2 chen-fig-7.6 dpbv-fig-7
    """,
    "recomputed, trends; stand-in data": """
        fig-5.3 book-table-12.1 book-fig-12.4 book-fig-12.6 book-fig-12.11 book-fig-12.12
        book-fig-12.13 chen-fig-4.3 chen-fig-4.6 chen-fig-4.7 chen-fig-5.2 chen-fig-5.3
        chen-fig-5.5 chen-fig-6.3
    """,
    "recomputed; some stand-in data": """
        chen-table-6.6
    """,
    "trends": """
        fig-6.7 book-fig-11.5 book-fig-11.11 book-table-11.3 book-table-11.5 book-table-11.9
        chen-fig-6.12 dpbv-fig-8
    """,
    "trends; some stand-in data": """
        chen-fig-6.11 chen-fig-7.3 chen-fig-7.4 chen-fig-7.5 chen-fig-7.7 chen-fig-7.8
    """,
    "trends; stand-in data": """
        book-fig-12.1 book-fig-12.2 chen-fig-4.4 chen-fig-4.5 chen-fig-4.8 chen-fig-5.4
        chen-fig-6.4 chen-fig-6.5 chen-fig-6.8 chen-table-6.11 chen-fig-6.13
    """,
}
"""What ids check with the real data: `results.checks_made` of their rows."""


def checks_of(name: str) -> str:
    """What the experiment of this id checks. Raises KeyError."""
    return {each: checks for checks, ids in CHECKS.items() for each in ids.split()}[name]


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
