"""An asker names a column of readings as the `label` of a task, to receive it in the clear.

Whoever asks for a task of crowd tasking declares its labels public. That is for the owner to say:
its policy names the columns that are public, and a curator sends no other as it is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from common.runtime.clock import ManualClock
from tacit.encoders.crowd_tasking import Perturbation
from tacit.encoders.crowd_tasking_reports import Encoding
from tests.e2e.hostile import Home, Hostile, home, hostile

READINGS = [3, 7, 1, 12, 0, 9]
AGREED: dict[str, Any] = {
    "algorithms": ["crowd-tasking"],
    "record": {"lifetime": {"epsilon": "0.02"}},
    "stances": ["sound"],
}
PAPER: dict[str, Any] = {**AGREED, "record": {}, "stances": ["paper"], "allow_unverified": True}


def task(stance: str = "sound", classes: tuple[int, ...] = tuple(range(100))) -> dict[str, Any]:
    """An encoding that costs 0.01: noise of 100 steps in each round."""
    plan = Perturbation((0.0,), (10.0,), 1, Fraction(100), ("Y",), Fraction(0))
    found = Encoding(plan, len(READINGS), "reading", Fraction(0), stance, classes)  # type: ignore[arg-type]
    return found.document()


@pytest_asyncio.fixture
async def asker(tmp_path: Path, clock: ManualClock) -> AsyncIterator[tuple[Hostile, Home]]:
    """Somebody who may ask, and a curator with readings of its own."""
    async with hostile(tmp_path, clock, 1) as it:
        token = await it.join_token("victim")
        async with home("victim", tmp_path, clock, it.transports, token) as victim:
            rows = [[5.0, float(reading)] for reading in READINGS]
            table = {"curator": "victim", "columns": ["x", "kwh"], "rows": rows}
            await victim.ask("POST", "/v1/records", table)
            yield it, victim


@pytest.mark.parametrize(("stance", "policy"), [("sound", AGREED), ("paper", PAPER)])
async def test_a_column_that_its_owner_did_not_declare_public_stays(
    asker: tuple[Hostile, Home], stance: str, policy: dict[str, Any]
) -> None:
    it, victim = asker
    await victim.agree(**policy, public_columns=["x"])
    it.collect("crowd-tasking", task(stance), columns=("x",), label="kwh", stance=stance)
    await victim.report()
    assert it.reports == []
    assert (await victim.ledger())["units"]["record"]["debits"] == []
    # Control: where the owner declares the column, every one of its readings is read exactly.
    await victim.agree(**policy, public_columns=["kwh"])
    it.collect("crowd-tasking", task(stance), columns=("x",), label="kwh", stance=stance)
    await victim.report()
    assert [report["label"] for report in it.reports] == READINGS
    (debit,) = (await victim.ledger())["units"]["record"]["debits"]
    assert debit["epsilon"] == {"sound": "0.01", "paper": "inf"}[stance]


async def test_a_column_is_no_label_unless_the_descriptor_names_it_so(
    asker: tuple[Hostile, Home],
) -> None:
    """Where the encoding takes labels and the descriptor has none, the last column would be one."""
    it, victim = asker
    await victim.agree(**AGREED, public_columns=["kwh"])
    it.collect("crowd-tasking", task(), columns=("x", "kwh"))
    await victim.report()
    assert it.reports == []
    # Control: the same columns and the same noise without classes: both are sent with noise.
    plan = Perturbation((0.0,) * 2, (10.0,) * 2, 1, Fraction(200), ("Y",), Fraction(0))
    noisy = Encoding(plan, len(READINGS), "reading", Fraction(0))
    it.collect("crowd-tasking", noisy.document(), columns=("x", "kwh"))
    await victim.report()
    assert [len(report["values"]) for report in it.reports] == [2] * len(READINGS)
    assert all("label" not in report for report in it.reports)
