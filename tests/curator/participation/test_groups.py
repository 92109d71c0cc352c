"""A curator outside a round's group does not take part, and pays nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from curator.participation import preparation
from tacit import sets
from tests.curator.conftest import NOISY, OPEN, PLAIN, OpenSite, Site, query
from tests.curator.double import FakeWorld


def members(world: FakeWorld, *numbers: int) -> bytes:
    bits = np.zeros(world.next_number, np.bool_)
    bits[list(numbers)] = True
    return sets.compressed(sets.pack(bits))


async def grounds(site: Any, curator: str) -> list[str]:
    history = await site.history(curator)
    return [item["name"] for item in history[0]["refused_because"]]


@pytest.mark.usefixtures("database_url")
@pytest.mark.parametrize("base", [PLAIN, NOISY], ids=["exact", "noisy"])
async def test_only_the_group_contributes_and_pays(s: Site, base: dict[str, Any]) -> None:
    await s.policy(**OPEN)
    await s.enrol("house-1")
    await s.enrol("house-2")
    await s.enrol("gateway", ["g-0", "g-1", "g-2"])
    await s.enrol("apart", ["a-0", "a-1"])
    for curator in ("house-1", "house-2", "g-0", "g-1", "g-2", "a-0"):
        await s.reading(curator, "1")
    everyone = s.open(query(NOISY, name="everyone"))
    await s.take_part()
    assert len(s.world.members(everyone)) == 7
    before = {name: await spent(s, name) for name in ("house-2", "g-0", "a-1", "g-1")}
    asked = query(base, group="feeder")
    first = 64  # a host's run
    descriptor = s.open(asked, members=members(s.world, 0, first + 1, first + 2))
    await s.take_part()
    assert s.world.members(descriptor) == {0, first + 1, first + 2}
    if base is PLAIN:
        assert s.world.result(descriptor) == {"sum": "3"}
    for name in ("house-2", "g-0", "a-1"):
        assert await grounds(s, name) == ["not_concerned"]
        assert await spent(s, name) == before[name], name
        (item, _) = await s.history(name)
        assert not item["contributed"]
    for name in ("house-1", "g-1"):
        assert (await s.history(name))[0]["contributed"]
    assert await spent(s, "g-1") != before["g-1"]


async def spent(site: Any, curator: str) -> Any:
    budget = await site.get(f"/v1/curators/{curator}/budget")
    lifetimes = {name: unit["lifetime"] for name, unit in budget["units"].items()}
    return lifetimes | {"exact": budget["exact_answers"]}


async def test_portions_that_follow_each_other_are_charged_where_the_group_is(
    site: OpenSite, world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four segments of a host in one lot, decided on and charged together: of one of them nobody is
    asked, of others some are."""
    monkeypatch.setattr(preparation, "LOT_WORDS", 1 << 20)
    names = [f"g-{place}" for place in range(250)]
    wide = {"function": "vector_sum", "dimension": 2049, "coordinates": "values", "l1_bound": "1"}
    invited = [*range(10, 64), *range(128, 200), 249]
    async with site() as s:
        await s.policy(**OPEN)
        await s.enrol("gateway", names)
        seen = ("g-9", "g-10", "g-63", "g-64", "g-127", "g-128", "g-199", "g-200", "g-249")
        before = {name: await spent(s, name) for name in seen}
        asked = query(NOISY, group="feeder", n_max=1000, **wide)
        descriptor = s.open(asked, members=members(world, *invited))
        assert descriptor.segment_size == 64
        await s.take_part()
        assert world.members(descriptor) == set(invited)
        once = await spent(s, "g-10")
        assert once != before["g-10"]
        for name in seen:
            concerned = int(name[2:]) in invited
            assert await spent(s, name) == (once if concerned else before[name]), name
            (item,) = await s.history(name)
            assert item["contributed"] == concerned
            if not concerned:
                assert await grounds(s, name) == ["not_concerned"]
