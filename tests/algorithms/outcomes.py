"""What tests of jobs compare."""

from __future__ import annotations

import json
from typing import Any

from algorithms.contract import Outcome


def published(outcome: Outcome) -> tuple[Any, ...]:
    """All of an outcome that leaves the job."""
    return (
        json.dumps(outcome.result),
        outcome.report.model_dump_json(),
        outcome.files,
        outcome.plots,
        outcome.public_seeds,
    )
