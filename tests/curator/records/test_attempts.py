"""A step that is asked again: what was never opened counts once, whatever a coordinator says.

Spec: federated-counting, section 7. The double's aggregators draw no noise, so that what each
record added can be seen.
"""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction
from typing import Any

import pytest

from common.web.dependencies import part_of
from curator.participation.loop import Participation
from tests.curator.conftest import Site
from tests.curator.records.test_job_debit import asked, debits, give, opened, settled, spent
from tests.curator.records.test_job_debit import filter_alone as filter_alone
from tests.curator.records.test_records import ask, refused
from tests.curator.records.test_sequence_rounds import FIRST, SECOND
from tests.curator.records.test_sequence_rounds import it as it


def ended(it: Site, place: int, statements: int = 3) -> dict[str, Any]:
    """The round at this place is aborted with so many "never frozen": as a later step tells it."""
    descriptor = list(it.world.rounds.values())[place].statement
    it.world.finish(descriptor, "aborted", statements)
    return {"round": descriptor.round, "aborts": it.world.states[descriptor.round]["aborts"]}


async def worst(it: Site) -> str:
    """What the owner's ledger says was given."""
    budget = (await it.get("/v1/curators/meter/budget"))["units"]["record"]
    found: str = budget["worst_instant"]["epsilon"]
    return found


async def test_a_step_that_never_froze_is_answered_again_and_spends_once(it: Site) -> None:
    await give(it, "L2 L3 L1 L2 L3\n" * 2 + "L2 L3\n")
    assert (await ask(it, *asked(it)))["contributed"]
    once = [Fraction(1, 3), Fraction(1, 3), Fraction(2, 15)]
    attempts: list[dict[str, Any]] = []
    for number in (2, 3, 4):
        step = {"aborted": list(attempts) or None}
        assert (await ask(it, *asked(it, SECOND, number, step=step)))["contributed"]
        assert sum(opened(it)) == 5 + 5 + 2, "everything counts each time"
        assert await spent(it) == [2 * each for each in once]
        attempts.append(ended(it, number - 1))
    # What was opened is counted as ever: twice more, and the filter has the last word.
    assert (await ask(it, *asked(it, SECOND, 5)))["contributed"]
    assert await spent(it) == [1, 1, Fraction(2, 5)]
    assert await debits(it) == ["1", "0", "0", "0", "0"]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_the_first_step_again_moves_the_debit(it: Site, when: str) -> None:
    """Whether the curator hears of the abort by the next attempt or asks for it itself."""
    limits = {"record": {"period": {"epsilon": "1"}}, "curator": {}}
    await it.policy(algorithms=["sequential-ngram"], min_participants=2, **limits)
    assert (await ask(it, *asked(it)))["contributed"]
    attempts = [ended(it, 0)]
    if when == "before":
        await settled(it, 0)
        assert await worst(it) == "0"
    assert (await ask(it, *asked(it, FIRST, 2, step={"aborted": attempts})))["contributed"]
    assert opened(it) == [2, 3, 3]
    assert await worst(it) == "1"
    await settled(it, 0)
    assert await worst(it) == "1", "the first debit is given back once, the second stays"
    assert (await ask(it, *asked(it, SECOND, 3)))["contributed"]
    assert await spent(it) == [Fraction(2, 5), Fraction(2, 5), Fraction(4, 15)]
    await settled(it, 1)
    assert await worst(it) == "1", "the job went on"


async def test_all_attempts_of_the_first_step_are_credited_in_the_end(it: Site) -> None:
    assert (await ask(it, *asked(it)))["contributed"]
    attempts = [ended(it, 0)]
    assert (await ask(it, *asked(it, FIRST, 2, step={"aborted": attempts})))["contributed"]
    ended(it, 1)
    it.clock.advance(timedelta(hours=2))
    await part_of(it.app, Participation).settle()
    assert await worst(it) == "0"


async def test_who_missed_the_first_attempt_pays_with_the_second(it: Site) -> None:
    """Its debit is made with the round that it answers; nothing of the first is needed."""
    absent = {"round": "0190a000-0000-7000-8000-000000000000", "aborts": []}
    assert (await ask(it, *asked(it)))["contributed"]
    absent["aborts"] = ended(it, 0)["aborts"]
    other = {"job": "job-2", "aborted": [absent]}
    assert (await ask(it, *asked(it, FIRST, 2, step=other, job="job-2")))["contributed"]
    assert await debits(it) == ["1", "1"]


async def test_without_enough_statements_nothing_is_answered_again(it: Site) -> None:
    """Two of three may lie; statements of another round, and a step that was frozen, are none."""
    assert (await ask(it, *asked(it)))["contributed"]
    before = await spent(it)
    few, real = ended(it, 0, 2), ended(it, 0)
    assert (await ask(it, *asked(it, SECOND, 2)))["contributed"]
    after = await spent(it)
    foreign = {"round": ended(it, 1, 2)["round"], "aborts": real["aborts"]}
    twice = {**few, "aborts": [*few["aborts"], few["aborts"][0]]}
    for number, lies in ((3, [few]), (4, [foreign]), (5, [real, foreign]), (6, [twice])):
        step = {"aborted": lies}
        found = refused(await ask(it, *asked(it, SECOND, number, {}, step)))
        assert found == "step_refused"
    assert await spent(it) == after != before
    assert await debits(it) == ["1", "0"]


@pytest.mark.usefixtures("filter_alone")
async def test_an_old_abort_takes_no_later_step_back(it: Site) -> None:
    """The first round was never frozen, the second was: whoever claims the first again gets no
    answer of which the first debit does not pay, and what the second spent stays spent."""
    assert (await ask(it, *asked(it)))["contributed"]
    assert (await ask(it, *asked(it, SECOND, 2)))["contributed"]
    real = ended(it, 0)
    unknown = {"round": "0190a000-0000-7000-8000-000000000001", "aborts": real["aborts"]}
    for number, lies in ((3, [real, unknown]), (4, [real])):
        before = await spent(it)
        assert (await ask(it, *asked(it, SECOND, number, step={"aborted": lies})))["contributed"]
        assert [b - a for a, b in zip(before, await spent(it), strict=True)] == [
            Fraction(1, 5),
            Fraction(1, 5),
            Fraction(2, 15),
        ]
        await settled(it, 0)
        assert await worst(it) == "1"
    assert await debits(it) == ["1", "0", "0", "0"]
