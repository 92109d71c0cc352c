"""What the parameter models of several algorithms share. Spec: jobs, "Parameters"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from pydantic import Field

from tacit.wire import WireModel

MaxCells = Annotated[int, Field(ge=1, le=100_000_000)] | None
"""Counts that one question asks at most."""
Metrics = TypeVar("Metrics", bound=WireModel)


def schema_range(**limits: Any) -> dict[str, Any]:
    """Limits for the schema alone: the algorithm's own check holds them and names the problem."""
    return limits


def asked_metrics(evaluate: bool | Metrics, usual: Callable[[], Metrics]) -> Metrics | None:
    """What to evaluate, as the parameter `evaluate` has it; None: nothing."""
    if isinstance(evaluate, bool):
        return usual() if evaluate else None
    return evaluate
