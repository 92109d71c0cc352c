"""A short run of what `python -m tests.fuzz` does at length, with fixed seeds."""

from __future__ import annotations

import pytest

from tests.fuzz.mutations import mutated
from tests.fuzz.targets import Target, targets


@pytest.mark.parametrize("target", targets(), ids=lambda target: target.name.replace(" ", "-"))
def test_changed_bytes_are_refused_by_name_or_taken_as_they_are(target: Target) -> None:
    taken = 0
    for body in mutated(target.valid, 1_000, seed=1):
        try:
            target.take(body)
        except target.refusals:
            continue
        taken += 1
    if target.sealed:
        assert taken == 0
