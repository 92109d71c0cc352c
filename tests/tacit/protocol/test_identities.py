"""Chains of identities: what a party that anchored one document accepts, and what it refuses.

Links between the keys of a party, and what leads nowhere.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from tacit.crypto.signing import HybridIdentity, Identity, SignatureStripped, fingerprint
from tacit.errors import DomainError
from tacit.protocol.identities import (
    IDENTITY_LABEL,
    Anchored,
    IdentityChain,
    IdentityDocument,
    IdentityForked,
    IdentitySuperseded,
    KeyChangeUnconfirmed,
    KeyNotAnchored,
    Pin,
    Reason,
    Role,
    SignedDocument,
    SignedSuccession,
    Succession,
    SuccessionRefused,
    anchor,
    check_upgrade,
    commitment,
    confirm,
    follow,
    succeed,
)
from tacit.protocol.party_identities import (
    PartyChain,
    PartySuccession,
    SignedPartySuccession,
    follow_party,
    succeed_party,
)

NOW = datetime(2031, 5, 1, tzinfo=UTC)
WEEK = timedelta(days=7)
PAIRS = [HybridIdentity(bytes([number]) * 64) for number in range(14)]
THIEF = HybridIdentity(b"t" * 64)


def document(number: int, **changes: Any) -> IdentityDocument:
    """The document of pair `number`, which commits to the next one."""
    key = changes.pop("key", PAIRS[number]).public
    values: dict[str, Any] = {
        "role": Role.AGGREGATOR,
        "name": "north",
        "serial": number,
        "ed25519": key.ed25519,
        "mldsa65": key.mldsa65,
        "next": commitment(PAIRS[number + 1].public),
    }
    return IdentityDocument(**{**values, **changes})


def signed(found: IdentityDocument, by: HybridIdentity) -> SignedDocument:
    return by.sign(IDENTITY_LABEL, found)


def statement(serial: int, **changes: Any) -> Succession:
    """Document `serial - 1` is replaced by document `serial`."""
    compromised = changes.get("reason") is Reason.COMPROMISED or "revoked_by" in changes
    values: dict[str, Any] = {
        "deployment": "demo",
        "role": Role.AGGREGATOR,
        "name": "north",
        "replaced": document(serial - 1).fingerprint,
        "document": document(serial),
        "effective": NOW,
        "overlap_until": NOW if compromised else NOW + WEEK,
        "reason": Reason.PLANNED,
    }
    return Succession(**{**values, **changes})


def link(serial: int, **changes: Any) -> SignedSuccession:
    """That, signed by the pair it introduces and, if planned, by the one before."""
    said = statement(serial, **changes)
    old = PAIRS[serial - 1] if said.reason is Reason.PLANNED else None
    return succeed(said, PAIRS[serial], old)


FIRST = Anchored(deployment="demo", root=document(0))


def refused(
    error: type[DomainError], links: Sequence[SignedSuccession], begun: Anchored = FIRST
) -> DomainError:
    with pytest.raises(error) as found:
        follow(begun, links, NOW)
    assert type(found.value) is error
    return found.value


def key(serial: int) -> bytes:
    return PAIRS[serial].public.ed25519


# --- anchors -------------------------------------------------------------------------------------


def test_a_document_is_anchored_by_its_fingerprint() -> None:
    found = document(3)
    assert anchor("demo", signed(found, PAIRS[3]), found.fingerprint).current == found
    changed = document(3, next=bytes(32))
    assert changed.fingerprint != found.fingerprint
    with pytest.raises(KeyNotAnchored):
        anchor("demo", signed(changed, PAIRS[3]), found.fingerprint)
    with pytest.raises(SignatureStripped):
        anchor("demo", signed(found, THIEF), found.fingerprint)


def test_an_anchor_of_a_key_takes_the_document_of_that_key() -> None:
    """Signed by that very key, and one alone: whoever holds another half is refused."""
    pair = HybridIdentity(b"b" * 64)
    before = pair.classical
    found = document(0, key=pair)
    anchored = anchor("demo", signed(found, pair), before.fingerprint)
    assert anchored.root.fingerprint == found.fingerprint
    anchored.check_key(before.public_key, NOW)
    later = document(1, key=pair)  # of who was paired after a rotation
    assert anchor("demo", signed(later, pair), before.fingerprint).root == later
    with pytest.raises(IdentityForked):
        check_upgrade(anchored, signed(later, pair))
    with pytest.raises(KeyNotAnchored):
        anchor("demo", signed(document(0), PAIRS[0]), before.fingerprint)
    check_upgrade(anchored, signed(found, pair))
    other = document(0, key=HybridIdentity(b"b" * 32 + b"c" * 32))
    with pytest.raises(SignatureStripped):
        check_upgrade(anchored, signed(other, pair))
    second = document(0, key=pair, next=bytes(32))
    with pytest.raises(IdentityForked):
        check_upgrade(anchored, signed(second, pair))


def test_the_fingerprint_covers_every_field() -> None:
    found = document(0)
    others = {
        document(0, role=Role.COORDINATOR).fingerprint,
        document(0, name="south").fingerprint,
        document(0, serial=1).fingerprint,
        document(0, key=THIEF).fingerprint,
        document(0, next=bytes(range(32))).fingerprint,
        document(0, next=None).fingerprint,
        document(0, next=bytes(32)).fingerprint,
    }
    assert len(others | {found.fingerprint}) == 8
    assert found.fingerprint != fingerprint(found.ed25519)


# --- chains --------------------------------------------------------------------------------------


def test_a_chain_of_ten_links_is_followed_in_any_order() -> None:
    links = [link(serial) for serial in range(1, 11)]
    shuffled = [*links, *links]  # shown twice, as two mirrors would
    random.Random(3).shuffle(shuffled)
    found = follow(FIRST, shuffled, NOW)
    assert found.current == document(10)
    assert found.links == tuple(links)
    found.check_key(key(10), NOW)
    assert follow(found, shuffled, NOW) == found
    half = follow(FIRST, links[:5], NOW)
    assert follow(half, links[5:], NOW) == found
    assert Anchored.model_validate_json(found.model_dump_json()) == found
    # Who anchored a later document needs the links from there alone.
    late = Anchored(deployment="demo", root=document(7))
    assert follow(late, links, NOW).current == document(10)


def test_the_old_key_holds_until_the_overlap_is_over() -> None:
    found = follow(FIRST, [link(1), link(2)], NOW)
    for serial in (0, 1, 2):
        found.check_key(key(serial), NOW + WEEK - timedelta(seconds=1))
    for serial in (0, 1):
        with pytest.raises(IdentitySuperseded):
            found.check_key(key(serial), NOW + WEEK)
    found.check_key(key(2), NOW + WEEK)
    with pytest.raises(KeyNotAnchored):
        found.check_key(THIEF.public.ed25519, NOW)


def test_a_compromised_key_is_refused_at_once() -> None:
    """The owner needs the next pair alone: the thief has the old one."""
    found = follow(FIRST, [link(1, reason=Reason.COMPROMISED)], NOW)
    with pytest.raises(IdentitySuperseded):
        found.check_key(key(0), NOW)
    found.check_key(key(1), NOW)


def test_a_thief_of_the_running_identity_cannot_replace_it() -> None:
    """It has the running pair, and not the next one."""
    mine = document(1, key=THIEF)
    said = statement(1, document=mine)
    refused(SuccessionRefused, [succeed(said, THIEF, PAIRS[0])])
    refused(SuccessionRefused, [succeed(said, PAIRS[0], PAIRS[0])])
    # Even if it knows the next public keys, once they were shown.
    shown = statement(1)
    refused(SuccessionRefused, [succeed(shown, THIEF, PAIRS[0])])
    own = succeed(shown, THIEF, PAIRS[0])
    half = link(1).signature[:64] + own.signature[64:]
    refused(SuccessionRefused, [own.model_copy(update={"signature": half})])
    # It cannot hold its owner up either.
    assert follow(FIRST, [own, link(1)], NOW).current == document(1)


def test_who_has_the_next_pair_alone_cannot_plan() -> None:
    planned = link(1)
    refused(SuccessionRefused, [planned.model_copy(update={"old_signature": None})])
    refused(SuccessionRefused, [succeed(statement(1), PAIRS[1], THIEF)])


def test_a_link_of_another_identity_leads_nowhere() -> None:
    for changes in (
        {"deployment": "other"},
        {"name": "south"},
        {"role": Role.COORDINATOR},
        {"document": document(1, name="south")},
        {"document": document(1, role=Role.COORDINATOR)},
        {"document": document(1, serial=2)},
        {"document": document(1, serial=0)},
    ):
        refused(KeyNotAnchored, [link(1, **changes)])
    assert follow(FIRST, [link(1, replaced=bytes(32))], NOW) == FIRST


def test_a_link_of_the_future_waits() -> None:
    early = timedelta(seconds=300)
    for ahead, follows in ((early, True), (early + timedelta(seconds=1), False)):
        when = NOW + ahead
        later = link(1, effective=when, overlap_until=when + WEEK)
        if follows:
            assert follow(FIRST, [later], NOW).current == document(1)
        else:
            refused(SuccessionRefused, [later])


def test_two_successors_are_both_refused_until_a_person_confirms_one() -> None:
    """Thief and owner both have the next pair: nobody but a person can tell them apart."""
    one, two = link(1), link(1, document=document(1, next=bytes(range(32))))
    refused(IdentityForked, [one, two])
    followed = follow(FIRST, [one], NOW)
    refused(IdentityForked, [two], followed)
    refused(IdentityForked, [one, two, link(2)], follow(followed, [link(2)], NOW))
    # Signed again it is the same statement, and no fork.
    assert follow(followed, [link(1)], NOW) == followed

    forked = followed.forking()
    assert Anchored.model_validate_json(forked.model_dump_json()).forked
    for serial in (0, 1):
        with pytest.raises(IdentityForked):
            forked.check_key(key(serial), NOW)
    refused(IdentityForked, [link(2)], forked)
    right = signed(document(1), PAIRS[1])
    with pytest.raises(KeyNotAnchored):
        confirm("demo", right, bytes(32))
    again = confirm("demo", right, document(1).fingerprint)
    again.check_key(key(1), NOW)
    with pytest.raises(KeyNotAnchored):
        again.check_key(key(0), NOW)


def test_what_is_signed_by_nobody_makes_no_fork() -> None:
    followed = follow(FIRST, [link(1)], NOW)
    other = link(1, document=document(1, next=bytes(range(32))))
    broken = other.model_copy(update={"signature": bytes(len(other.signature))})
    assert follow(followed, [broken], NOW) == followed


def test_without_a_next_pair_a_person_confirms() -> None:
    root = document(0, next=None)
    said = statement(1, replaced=root.fingerprint)
    found = refused(
        KeyChangeUnconfirmed,
        [succeed(said, PAIRS[1], PAIRS[0])],
        Anchored(deployment="demo", root=root),
    )
    assert found.extra["fingerprint"] == document(1).fingerprint.hex()


def test_where_every_change_has_to_be_confirmed() -> None:
    links = [link(1), link(2)]
    with pytest.raises(KeyChangeUnconfirmed):
        follow(FIRST, links, NOW, confirmed=())
    with pytest.raises(KeyChangeUnconfirmed) as found:
        follow(FIRST, links, NOW, confirmed={document(1).fingerprint})
    assert found.value.extra["fingerprint"] == document(2).fingerprint.hex()
    both = {document(1).fingerprint, document(2).fingerprint}
    assert follow(FIRST, links, NOW, confirmed=both).current == document(2)


def test_an_identity_is_revoked_by_its_next_pair() -> None:
    gone = {"document": None, "revoked_by": PAIRS[1].public, "reason": Reason.COMPROMISED}
    found = follow(FIRST, [link(1, **gone)], NOW)
    assert found.current is None
    with pytest.raises(IdentitySuperseded):
        found.check_key(key(0), NOW)
    assert follow(found, [link(2)], NOW) == found
    thief = {**gone, "revoked_by": THIEF.public}
    refused(SuccessionRefused, [succeed(statement(1, **thief), THIEF, None)])
    # A revocation beside a succession is a fork, too.
    refused(IdentityForked, [link(1), link(1, **gone)])


@pytest.mark.parametrize(
    "changes",
    [
        {"overlap_until": NOW + timedelta(days=30, seconds=1)},
        {"overlap_until": NOW - timedelta(seconds=1)},
        {"reason": Reason.COMPROMISED, "overlap_until": NOW + WEEK},
        {"document": None},
        {"revoked_by": PAIRS[1].public},
        {"document": None, "revoked_by": PAIRS[1].public, "overlap_until": NOW + WEEK},
    ],
)
def test_a_statement_is_whole(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        statement(1, **changes)


# --- pins, and what services show ----------------------------------------------------------------


def shown(*serials: int, links: Sequence[SignedSuccession] | None = None) -> IdentityChain:
    documents = tuple(signed(document(each), PAIRS[each]) for each in serials)
    found = [link(each) for each in serials[1:]] if links is None else links
    return IdentityChain(documents=documents, links=tuple(found))


def followed(pin: Pin, chain: IdentityChain) -> Pin:
    return pin.follow("demo", chain, NOW, Role.AGGREGATOR, "north")


def pinned(serial: int) -> Pin:
    return Pin(fingerprint=fingerprint(key(serial)))


def test_a_pinned_key_is_followed_and_the_old_one_is_accepted_until_the_overlap_ends() -> None:
    pin = pinned(0)
    pin.check_key(key(0), NOW)
    with pytest.raises(KeyNotAnchored):
        pin.check_key(key(1), NOW)
    found = followed(pin, shown(0, 1))
    assert found.newest == fingerprint(key(1))
    found.check_key(key(0), NOW)
    found.check_key(key(1), NOW)
    with pytest.raises(IdentitySuperseded):
        found.check_key(key(0), NOW + WEEK)
    assert followed(found, shown(0, 1)) == found
    with pytest.raises(KeyNotAnchored):
        followed(pinned(5), shown(0, 1))


def test_who_pinned_a_later_key_follows_from_there() -> None:
    """The key that was compared signed its document; who paired after a rotation needs nobody."""
    found = followed(pinned(1), shown(0, 1, 2))
    assert found.newest == fingerprint(key(2))
    with pytest.raises(KeyNotAnchored):
        found.check_key(key(0), NOW)  # of before the pairing: never accepted
    forged = document(1, next=commitment(PAIRS[5].public))  # made by a thief of the key, before
    with pytest.raises(IdentityForked):
        followed(found, IdentityChain(documents=(signed(forged, PAIRS[1]),)))


def test_keys_are_accepted_newest_first_until_their_overlap_ends() -> None:
    anchored = followed(pinned(0), shown(0, 1)).anchored
    assert anchored.keys(NOW) == (key(1), key(0))
    assert anchored.keys(NOW + WEEK) == (key(1),)
    with pytest.raises(IdentityForked):
        anchored.forking().keys(NOW)


def test_a_second_document_or_successor_forks_what_was_followed() -> None:
    held = followed(pinned(0), shown(0, 1))
    second = IdentityChain(documents=(signed(document(0, next=bytes(32)), PAIRS[0]),))
    with pytest.raises(IdentityForked):
        followed(held, second)
    other = link(1, document=document(1, next=bytes(32)))
    with pytest.raises(IdentityForked):
        followed(held, shown(0, 1, links=[other]))
    kept = held.forking()
    with pytest.raises(IdentityForked):
        kept.check_key(key(1), NOW)
    with pytest.raises(IdentityForked):
        followed(kept, shown(0, 1))


LATER = datetime(2026, 1, 1, tzinfo=UTC)
KEYS = [Identity.from_bytes(bytes([number + 1]) * 32) for number in range(5)]


def party_link(old: int, new: int, **changes: Any) -> SignedPartySuccession:
    values: dict[str, Any] = {
        "deployment": "demo",
        "party": "meter-1",
        "replaced": KEYS[old].fingerprint,
        "identity_key": KEYS[new].public_key,
        "effective": LATER,
        "overlap_until": LATER + timedelta(days=7),
        **changes,
    }
    return succeed_party(PartySuccession.model_validate(values), KEYS[new], KEYS[old])


def party_followed(
    held: int, links: list[SignedPartySuccession], before: dict[int, int] | None = None
) -> list[bytes]:
    replaced = {KEYS[a].public_key: KEYS[b].public_key for a, b in (before or {}).items()}
    chain = PartyChain(links=tuple(links))
    found = follow_party("demo", "meter-1", KEYS[held].public_key, replaced, chain, LATER)
    return [each.statement.identity_key for each in found]


def test_a_chain_is_followed_from_wherever_a_roster_is() -> None:
    chain = [party_link(0, 1), party_link(1, 2), party_link(2, 3)]
    keys = [each.public_key for each in KEYS[1:4]]
    assert party_followed(0, chain) == keys
    assert party_followed(1, chain, {0: 1}) == keys[1:]
    assert party_followed(1, chain) == keys[1:]  # it enrolled in the middle
    assert party_followed(3, chain, {0: 1, 1: 2, 2: 3}) == []
    with pytest.raises(KeyNotAnchored):
        party_followed(4, chain)
    with pytest.raises(KeyNotAnchored):  # of before
        party_followed(3, chain[:2], {0: 1, 1: 2, 2: 3})


def test_a_second_valid_link_is_a_fork_and_an_invalid_one_is_not() -> None:
    with pytest.raises(IdentityForked):
        party_followed(1, [party_link(0, 2)], {0: 1})
    with pytest.raises(IdentityForked):
        party_followed(0, [party_link(0, 1), party_link(0, 2)])
    invalid = party_link(0, 2).model_copy(update={"old_signature": party_link(0, 3).old_signature})
    with pytest.raises(SuccessionRefused):
        party_followed(1, [invalid], {0: 1})
    with pytest.raises(SuccessionRefused):  # back to a key of before
        party_followed(1, [party_link(1, 0)], {0: 1})


@pytest.mark.parametrize(
    "changes",
    [
        {"party": "meter-2"},
        {"deployment": "other"},
        {
            "effective": LATER + timedelta(seconds=301),
            "overlap_until": LATER + timedelta(days=1),
        },
    ],
    ids=("party", "deployment", "future"),
)
def test_a_link_of_others_or_of_the_future_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(SuccessionRefused):
        party_followed(0, [party_link(0, 1, **changes)])


@pytest.mark.parametrize("part", ["signature", "old_signature"])
def test_both_keys_sign_every_field(part: str) -> None:
    good = party_link(0, 1)
    broken = bytearray(getattr(good, part))
    broken[0] ^= 1
    with pytest.raises(SuccessionRefused):
        party_followed(0, [good.model_copy(update={part: bytes(broken)})])
    longer = good.statement.model_copy(update={"overlap_until": LATER + timedelta(days=8)})
    with pytest.raises(SuccessionRefused):
        party_followed(0, [good.model_copy(update={"statement": longer})])
    # what one key signed twice is no link
    twice = succeed_party(good.statement, KEYS[1], KEYS[1])
    with pytest.raises(SuccessionRefused):
        party_followed(0, [twice])
    assert fingerprint(KEYS[0].public_key) == good.statement.replaced


def test_an_overlap_has_an_end() -> None:
    with pytest.raises(ValueError, match="30 days"):
        party_link(0, 1, overlap_until=LATER + timedelta(days=31))
    with pytest.raises(ValueError, match="negative"):
        party_link(0, 1, overlap_until=LATER - timedelta(seconds=1))
