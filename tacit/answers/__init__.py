"""Answers of the API as models, which the services return and the clients read.

Its modules are loaded when they are first used: a call of the client needs one or two.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tacit.answers import (
        base,
        budget,
        curator,
        datasets,
        jobs,
        ledger_seals,
        queries,
        registry,
        rounds,
    )

__all__ = [
    "base",
    "budget",
    "curator",
    "datasets",
    "jobs",
    "ledger_seals",
    "queries",
    "registry",
    "rounds",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")
