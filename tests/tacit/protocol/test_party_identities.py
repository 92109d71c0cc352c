"""Links between the keys of a party, and what leads nowhere."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tacit.crypto.signing import Identity, fingerprint
from tacit.protocol.identities import IdentityForked, KeyNotAnchored, SuccessionRefused
from tacit.protocol.party_identities import (
    PartyChain,
    PartySuccession,
    SignedPartySuccession,
    follow_party,
    succeed_party,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEYS = [Identity.from_bytes(bytes([number + 1]) * 32) for number in range(5)]


def link(old: int, new: int, **changes: Any) -> SignedPartySuccession:
    values: dict[str, Any] = {
        "deployment": "demo",
        "party": "meter-1",
        "replaced": KEYS[old].fingerprint,
        "identity_key": KEYS[new].public_key,
        "effective": NOW,
        "overlap_until": NOW + timedelta(days=7),
        **changes,
    }
    return succeed_party(PartySuccession.model_validate(values), KEYS[new], KEYS[old])


def followed(
    held: int, links: list[SignedPartySuccession], before: dict[int, int] | None = None
) -> list[bytes]:
    replaced = {KEYS[a].public_key: KEYS[b].public_key for a, b in (before or {}).items()}
    chain = PartyChain(links=tuple(links))
    found = follow_party("demo", "meter-1", KEYS[held].public_key, replaced, chain, NOW)
    return [each.statement.identity_key for each in found]


def test_a_chain_is_followed_from_wherever_a_roster_is() -> None:
    chain = [link(0, 1), link(1, 2), link(2, 3)]
    keys = [each.public_key for each in KEYS[1:4]]
    assert followed(0, chain) == keys
    assert followed(1, chain, {0: 1}) == keys[1:]
    assert followed(1, chain) == keys[1:]  # it enrolled in the middle
    assert followed(3, chain, {0: 1, 1: 2, 2: 3}) == []
    with pytest.raises(KeyNotAnchored):
        followed(4, chain)
    with pytest.raises(KeyNotAnchored):  # of before
        followed(3, chain[:2], {0: 1, 1: 2, 2: 3})


def test_a_second_valid_link_is_a_fork_and_an_invalid_one_is_not() -> None:
    with pytest.raises(IdentityForked):
        followed(1, [link(0, 2)], {0: 1})
    with pytest.raises(IdentityForked):
        followed(0, [link(0, 1), link(0, 2)])
    invalid = link(0, 2).model_copy(update={"old_signature": link(0, 3).old_signature})
    with pytest.raises(SuccessionRefused):
        followed(1, [invalid], {0: 1})
    with pytest.raises(SuccessionRefused):  # back to a key of before
        followed(1, [link(1, 0)], {0: 1})


@pytest.mark.parametrize(
    "changes",
    [
        {"party": "meter-2"},
        {"deployment": "other"},
        {
            "effective": NOW + timedelta(seconds=301),
            "overlap_until": NOW + timedelta(days=1),
        },
    ],
    ids=("party", "deployment", "future"),
)
def test_a_link_of_others_or_of_the_future_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(SuccessionRefused):
        followed(0, [link(0, 1, **changes)])


@pytest.mark.parametrize("part", ["signature", "old_signature"])
def test_both_keys_sign_every_field(part: str) -> None:
    good = link(0, 1)
    broken = bytearray(getattr(good, part))
    broken[0] ^= 1
    with pytest.raises(SuccessionRefused):
        followed(0, [good.model_copy(update={part: bytes(broken)})])
    longer = good.statement.model_copy(update={"overlap_until": NOW + timedelta(days=8)})
    with pytest.raises(SuccessionRefused):
        followed(0, [good.model_copy(update={"statement": longer})])
    # what one key signed twice is no link
    twice = succeed_party(good.statement, KEYS[1], KEYS[1])
    with pytest.raises(SuccessionRefused):
        followed(0, [twice])
    assert fingerprint(KEYS[0].public_key) == good.statement.replaced


def test_an_overlap_has_an_end() -> None:
    with pytest.raises(ValueError, match="30 days"):
        link(0, 1, overlap_until=NOW + timedelta(days=31))
    with pytest.raises(ValueError, match="negative"):
        link(0, 1, overlap_until=NOW - timedelta(seconds=1))
