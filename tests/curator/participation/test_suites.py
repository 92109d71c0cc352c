"""No curator goes back: the ratchet of suites, and what a restored store takes part in."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from common.store.transactions import Database
from common.web.parts import part_of
from curator.participation.loop import Participation
from curator.store.parties import list_epoch_keys
from tacit.crypto.signing import Identity
from tacit.protocol.enrolment import JoinToken
from tacit.protocol.round.descriptor import RoundDescriptor
from tests.curator.conftest import OPEN, OpenSite, Site, query
from tests.curator.double import FakeWorld
from tests.curator.participation.test_sessions import open_second

SECOND_ONLY = {"format": "tacit.join/2", "minimum_suite": 2}


async def grounds(s: Site, party: str, descriptor: RoundDescriptor) -> list[str]:
    """On which a party refused a round."""
    (told,) = [item for item in await s.history(party) if item["round"] == descriptor.round]
    return [each["name"] for each in told["refused_because"]]


async def test_format_1_is_refused_after_format_2_for_good(
    site: OpenSite, world: FakeWorld
) -> None:
    """Also by parties that were not in the round, and that enrol later; also after a restart."""
    async with site() as s:
        await s.policy(**OPEN)
        for name in ("first", "second"):
            await s.enrol(name)
        before = s.open(query(name="before"))
        await s.take_part()
        assert world.members(before) == {0, 1}
        second = open_second(s, name="second")
        await s.take_part()
        assert world.members(second) == {0, 1}
    async with site() as s:
        await s.enrol("late")
        back = s.open(query(name="back"))
        await s.take_part()
        assert not world.members(back)
        for name in ("first", "second", "late"):
            assert await grounds(s, name, back) == ["suite_downgraded"]
        assert world.refusals[back.round, "first"].grounds == {"descriptor": 1}


async def test_rounds_of_both_formats_at_once_end_with_the_newer(
    site: OpenSite, world: FakeWorld
) -> None:
    """Whichever a party meets first: no format 1 follows a format 2, also within one pass."""
    async with site() as s:
        await s.policy(**OPEN)
        for index in range(8):
            await s.enrol(f"house-{index}")
        second = open_second(s, name="second")
        await s.take_part()
        old = s.open(query(name="old"))
        await s.take_part()
        assert len(world.members(second)) == 8
        assert not world.members(old)


async def test_what_fails_a_check_turns_nothing(site: OpenSite, world: FakeWorld) -> None:
    """A descriptor of format 2 that another coordinator signed, or with a foreign aggregator: it
    must not be able to lock a deployment out of its own format 1."""
    async with site() as s:
        await s.policy(**OPEN)
        await s.enrol("house")
        open_second(s, name="signed-by-a-stranger", signer=Identity.generate())
        own = world.aggregators[0].identity
        world.aggregators[0].identity = Identity.generate()
        foreign = open_second(s, name="foreign")
        world.aggregators[0].identity = own
        await s.take_part()
        assert await grounds(s, "house", foreign) == ["key_not_anchored"]
        first = s.open(query(name="first"))
        await s.take_part()
        assert world.members(first) == {0}


async def test_the_least_suite_comes_from_settings_or_the_join_token(
    site: OpenSite, world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = world.join_token

    def second_only(party: str, curators: int | None = None) -> str:
        token = JoinToken.from_text(made(party, curators))
        return token.model_copy(update=SECOND_ONLY).to_text()

    async with site(minimum_suite=2) as s:
        await s.policy(**OPEN)
        await s.enrol("house")
        by_settings = s.open(query(name="by-settings"))
        await s.take_part()
        assert await grounds(s, "house", by_settings) == ["suite_downgraded"]
    async with site() as s:
        first = s.open(query(name="first"))
        await s.take_part()
        assert world.members(first) == {0}  # a setting is no ratchet
        monkeypatch.setattr(world, "join_token", second_only)
        await s.enrol("other")  # of the same deployment: so for all
        by_token = s.open(query(name="by-token"))
        await s.take_part()
        for name in ("house", "other"):
            assert await grounds(s, name, by_token) == ["suite_downgraded"]


def test_a_join_token_says_its_least_suite_in_format_2_only() -> None:
    first = JoinToken.from_text(FakeWorld().join_token("house"))
    assert (first.format, first.minimum_suite) == ("tacit.join/1", None)
    assert b"minimum_suite" not in first.canonical()  # an earlier release reads it
    second = first.model_copy(update=SECOND_ONLY)
    assert JoinToken.from_text(second.to_text()) == second
    for lie in ({"format": "tacit.join/1"}, {"minimum_suite": None}, {"minimum_suite": 3}):
        with pytest.raises(ValueError, match="not a join token"):
            JoinToken.from_text(second.model_copy(update=lie).to_text())


async def test_keys_of_format_1_are_destroyed_once_none_is_needed(
    site: OpenSite, world: FakeWorld
) -> None:
    async with site(key_epoch_s=3600) as s:
        await s.policy(**OPEN)
        await s.enrol("house")
        open_second(s)
        await s.take_part()
        s.clock.advance(timedelta(hours=2))
        await part_of(s.app, Participation).rotate_keys()
        async with part_of(s.app, Database).reading() as transaction:
            assert not await list_epoch_keys(transaction, "house")
        await part_of(s.app, Participation).rotate_keys()
        for item in world.aggregators:
            item.renew_seal_key()
        descriptor = open_second(s, name="later")
        await s.take_part()
        assert world.members(descriptor) == {0}
    async with site() as s:  # nor does a restart need one
        descriptor = open_second(s, name="after-a-restart")
        await s.take_part()
        assert world.members(descriptor) == {0}


async def test_the_ratchet_survives_a_restore(
    site: OpenSite, world: FakeWorld, tmp_path: Path
) -> None:
    """A backup of after the first round of format 2 knows of it, whatever the coordinator shows."""
    async with site() as s:
        await s.policy(**OPEN)
        await s.enrol("house")
        second = open_second(s, name="second")
        await s.take_part()
        assert world.members(second) == {0}
    (tmp_path / "curator").mkdir(exist_ok=True)
    (tmp_path / "curator" / "restored").touch()
    async with site() as s:
        back = s.open(query(name="back"))
        await s.take_part()
        assert await grounds(s, "house", back) == ["suite_downgraded"]


# --- restored stores -----------------------------------------------------------------------------


async def test_a_restored_curator_believes_seal_keys_not_the_coordinator(
    site: OpenSite, world: FakeWorld, tmp_path: Path
) -> None:
    """Spec: keys, section 6.3, rule 2, and check 10."""
    async with site() as s:
        await s.policy(**OPEN)
        await s.enrol("house")
        earlier = s.clock.now()
    (tmp_path / "curator").mkdir(exist_ok=True)
    (tmp_path / "curator" / "restored").touch()
    async with site() as s:
        s.clock.advance(timedelta(seconds=290))
        prepared = s.open(
            query(name="prepared-before"),
            **world.second_format(earlier),
            opened=s.clock.now() + timedelta(seconds=200),  # whatever the coordinator says
        )
        await s.take_part()
        assert await grounds(s, "house", prepared) == ["opened_before_restore"]
        s.clock.advance(timedelta(seconds=20))
        one_old = world.second_format(s.clock.now())
        others = one_old["aggregators"][1:]
        one_old["aggregators"] = (world.aggregators[0].sealed_entry(earlier), *others)
        mixed = s.open(query(name="one-of-before"), **one_old)
        await s.take_part()
        assert await grounds(s, "house", mixed) == ["opened_before_restore"]
        # Format 1 waits for two days; format 2 for keys of after the restore.
        first = s.open(query(name="of-format-1"))
        await s.take_part()
        assert await grounds(s, "house", first) == ["restored_recently"]
        for item in world.aggregators:
            item.renew_seal_key()
        fresh = open_second(s, name="fresh-keys")
        await s.take_part()
        assert world.members(fresh) == {0}


async def test_a_round_in_the_future_is_not_taken_up(site: OpenSite, world: FakeWorld) -> None:
    async with site() as s:
        await s.policy(**OPEN)
        await s.enrol("house")
        for seconds, members in ((301, set()), (299, {0})):
            later = s.clock.now() + timedelta(seconds=seconds)
            descriptor = open_second(s, name=f"in-{seconds}", opened=later)
            await s.take_part()
            assert world.members(descriptor) == members
