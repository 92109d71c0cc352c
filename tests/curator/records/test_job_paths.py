"""No path spends more than the job's epsilon, in public: what a lying coordinator is refused.

Spec: federated-counting, section 6.2. A refusal is `path_overspent` and debits nothing.
"""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from sqlalchemy import select

from common.store.transactions import Database
from common.web.dependencies import part_of
from curator.store.tables import job_paths
from tacit.encoders import count_sums
from tacit.encoders.count_sums import CountSum
from tacit.encoders.counts import Level, PathSpends
from tacit.encoders.sequential_ngram_counts import COUNTER, Lengths, Successors
from tacit.protocol.round.descriptor import RefusalGround
from tests.curator.conftest import OpenSite, Site
from tests.curator.records.test_attempts import ended
from tests.curator.records.test_job_debit import (
    LONG,
    SHORT,
    _some,
    asked,
    debits,
    give,
    opened,
    spent,
)
from tests.curator.records.test_records import ask, refused
from tests.curator.records.test_sequence_rounds import ALL_ITEMS, FIRST, ONE, SECOND
from tests.curator.records.test_sequence_rounds import it as it

THIRD = Fraction(1, 3)


def level(*grams: tuple[int, int]) -> Level:
    """Of parents and items."""
    parents, items = zip(*grams, strict=True)
    return Level(np.array(parents), np.array(items))


def below(*levels: Level, rate: Fraction = THIRD, l_max: int = 5, reach: int = 5) -> CountSum:
    """Asks what follows the grams of the last level."""
    document = Successors(3, l_max, levels)
    return CountSum.of(COUNTER, document, reach, (rate,), np.zeros(document.sizes.size, np.int64))


def deep(*grams: tuple[int, int], rate: Fraction = THIRD) -> CountSum:
    """The same of grams of two items."""
    return below(ALL_ITEMS, level(*grams), rate=rate)


async def course(it: Site, *questions: CountSum, first: int = 1) -> list[str | None]:
    """What the curator says to each, by step."""
    steps = enumerate(questions, first)
    return [refused(await ask(it, *asked(it, each, number))) for number, each in steps]


async def whole(it: Site) -> Fraction:
    """What the job's paths spend, as this curator has it."""
    async with part_of(it.app, Database).reading() as transaction:
        (row,) = (await transaction.execute(select(job_paths))).all()
    return PathSpends.unpacked(row.spends).most


@pytest.mark.usefixtures("database_url")
async def test_an_honest_course_spends_all_and_is_answered(it: Site) -> None:
    """Example A: three steps of a third each; the ledger has one debit."""
    third = deep((0, 0), (1, 2), (2, 0), (2, 1))
    assert await course(it, FIRST, SECOND, third) == [None] * 3
    assert await whole(it) == 1
    assert await debits(it) == ["1", "0", "0"]


async def test_example_c_in_public(it: Site) -> None:
    """The first step four times over: three spend a third each on every path, and the fourth is
    refused to all, before any record is looked at. Nothing is debited and nobody's S moves."""
    await give(it, f"{LONG}\n{SHORT}\n")
    assert await course(it, FIRST, FIRST, FIRST, FIRST) == [None, None, None, "path_overspent"]
    assert await spent(it) == [1, Fraction(2, 5)]
    assert await debits(it) == ["1", "0", "0"]
    assert await whole(it) == 1


LIES: dict[str, list[CountSum]] = {
    "all of epsilon at once, and more": [below(rate=Fraction(50))],
    "a gram at the whole budget, twice": [
        deep((0, 0), rate=Fraction(1)),
        deep((0, 0), rate=Fraction(1)),
    ],
    "the same grams beside others": [FIRST, SECOND, deep((1, 2)), deep((0, 0), (1, 2))],
    "a level is skipped, and asked afterwards": [FIRST, deep((1, 2), rate=THIRD * 2), SECOND],
    "the deepest level first, the root last": [deep((1, 2), rate=THIRD * 2), SECOND, FIRST],
    "parents under other numbers": [
        FIRST,
        deep((1, 2), rate=THIRD * 2),
        below(level((0, 1)), level((0, 2))),
    ],
    "another length, as if it were another tree": [FIRST, SECOND, deep((1, 2)), below(l_max=4)],
    "a smaller reach, which is less noise": [FIRST, SECOND, below(reach=1)],
    "lengths beside all of epsilon": [
        below(rate=Fraction(1)),
        CountSum.of(COUNTER, Lengths(3, 5), 1, (Fraction(1, 100),), ONE),
    ],
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_lie_is_refused_by_name_and_debits_nothing(it: Site, lie: str) -> None:
    """All but the last of each course are within epsilon."""
    questions = LIES[lie]
    found = await course(it, *questions)
    assert found == [None] * (len(questions) - 1) + ["path_overspent"]
    assert await debits(it) == ["1", "0", "0", "0"][: len(questions) - 1]
    assert max(await spent(it), default=Fraction(0)) <= 1


async def test_other_paths_may_go_on_after_a_refusal(it: Site) -> None:
    """One is overspent, the others are not; the number of the step is free for what is honest."""
    assert await course(it, FIRST, SECOND, deep((1, 2))) == [None] * 3
    assert await course(it, deep((1, 2), (2, 0)), first=4) == ["path_overspent"]
    assert await course(it, deep((2, 0)), first=4) == [None]
    assert await whole(it) == 1


async def test_a_refusal_is_told_as_one_of_the_descriptor(it: Site) -> None:
    await course(it, below(rate=Fraction(50)))
    (told,) = it.world.refusals.values()
    assert told.grounds == {RefusalGround.DESCRIPTOR: 1}


async def test_what_is_noted_and_not_answered_counts_once_after_a_restart(
    site: OpenSite, it: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process dies when the step is noted and nothing is debited: the same round goes on."""
    assert await course(it, FIRST) == [None]
    made = asked(it, SECOND, 2)
    terms, steps = it.app.state.terms, it.app.state.steps

    def dies(*_: Any) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patched:
        patched.setattr("curator.records.records.ItemQuestion.load", dies)
        with suppress(RuntimeError):
            await ask(it, *made)
    assert await whole(it) == 2 * THIRD
    async with site() as again:
        again.app.state.steps, again.app.state.terms = steps, terms
        await again.take_part()
        assert await whole(again) == 2 * THIRD
        assert await debits(again) == ["1", "0"]


async def test_parts_in_any_order_are_one_question(
    it: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are asked together, so that the last may be seen first. All have the same records, paths
    and S count them once; a part that is asked twice is another question."""
    await give(it, f"{LONG}\n{SHORT}\n")
    assert await course(it, FIRST) == [None]
    alone = await spent(it)
    monkeypatch.setattr(count_sums, "MAX_DIMENSION", 5)
    parts, seen = SECOND.parts, {}
    assert len(parts) == 3
    for number, place in ((4, 2), (2, 0), (3, 1)):
        assert (await ask(it, *asked(it, parts[place], number)))["contributed"]
        seen[place] = opened(it)
        added = [b - a for a, b in zip(alone, await spent(it), strict=True)]
        assert added == [THIRD, Fraction(2, 15)]
        assert await whole(it) == 2 * THIRD
    assert await course(it, parts[1], first=5) == [None]
    assert await whole(it) == 1
    assert max(await spent(it)) == 1
    assert await debits(it) == ["1", "0", "0", "0", "0"]
    monkeypatch.setattr(count_sums, "MAX_DIMENSION", 65_536)
    rows = [[1, 2, 0, 1, 2], [1, 2]]
    assert [*seen[0], *seen[1], *seen[2]] == SECOND.total(_some(rows)).tolist()


async def test_an_attempt_of_a_part_is_the_same_question(
    it: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever became of the other parts; without the statements it is another one."""
    assert await course(it, FIRST) == [None]
    monkeypatch.setattr(count_sums, "MAX_DIMENSION", 5)
    parts = SECOND.parts
    assert await course(it, *parts, first=2) == [None] * 3
    before = await spent(it)
    attempt = {"aborted": [ended(it, 2)]}
    assert (await ask(it, *asked(it, parts[1], 5, step=attempt)))["contributed"]
    assert await spent(it) == before
    assert await whole(it) == 2 * THIRD
