"""A party's identity is replaced: one Ed25519 key by the next, signed by both.

Spec: keys, section 5.2. A lone curator or a host signs its sessions with one Ed25519 key, which
coordinator and aggregators have on their rosters. A link names the key before by its fingerprint
and the key after it; each service goes from the key on its roster along what it is shown. A party
commits to no next key: who steals a running key can show a link, too. Then the owner's link is a
second one of the same key, which is a fork, and only the services' operators can help.

    key 0 -- link --> key 1 -- link --> key 2 ...
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from tacit.crypto.signing import Identity, SignatureBroken, Signed, fingerprint, verify_once
from tacit.protocol.enrolment import Fingerprint, PublicKey
from tacit.protocol.identities import (
    CLOCKS_DIFFER,
    LONGEST_OVERLAP,
    MOST_LINKS,
    IdentityForked,
    KeyNotAnchored,
    SuccessionRefused,
)
from tacit.query.terms import Identifier
from tacit.wire import Binary, Instant, WireModel, require

PARTY_SUCCESSION_LABEL: Final = "tacit party succession v1"


class PartySuccession(WireModel):
    """The key with fingerprint `from` is replaced by `identity_key`. Sessions signed by the
    earlier key are accepted until `overlap_until`, at most 30 days after `effective`."""

    format: Literal["tacit.party-succession/1"] = "tacit.party-succession/1"
    deployment: Identifier
    party: Identifier
    replaced: Fingerprint = Field(alias="from")
    identity_key: PublicKey
    effective: Instant
    overlap_until: Instant

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        overlap = self.overlap_until - self.effective
        require(
            timedelta() <= overlap <= LONGEST_OVERLAP,
            None,
            "the overlap is at most 30 days, and not negative",
        )
        return self


class SignedPartySuccession(WireModel):
    """`signature`: of the new key; `old_signature`: of the replaced one."""

    statement: PartySuccession
    signature: Binary
    old_signature: Binary


class PartyChain(WireModel):
    """All links of a party, the oldest first."""

    links: Annotated[tuple[SignedPartySuccession, ...], Field(min_length=1, max_length=MOST_LINKS)]


def succeed_party(
    statement: PartySuccession, successor: Identity, replaced: Identity
) -> SignedPartySuccession:
    """A signed link."""
    return SignedPartySuccession(
        statement=statement,
        signature=successor.sign(PARTY_SUCCESSION_LABEL, statement).signature,
        old_signature=replaced.sign(PARTY_SUCCESSION_LABEL, statement).signature,
    )


def follow_party(
    deployment: str,
    party: str,
    key_held: bytes,
    replaced: Mapping[bytes, bytes],
    shown: PartyChain,
    now: datetime,
) -> tuple[SignedPartySuccession, ...]:
    """The links that lead on from the key on the roster; none if the last one is known already.

    `held`: the Ed25519 key on the roster; `replaced`: earlier keys on it, with the key that
    followed each. Raises SuccessionRefused for an invalid link, IdentityForked for a valid
    second link of a key, KeyNotAnchored if the chain does not end at a key that follows.
    """
    found = []
    current, followed = key_held, dict(replaced)
    by_fingerprint = {fingerprint(key): key for key in (*followed, key_held)}
    for link in shown.links:
        statement = link.statement
        old = by_fingerprint.get(statement.replaced)
        if old is None or followed.get(old) == statement.identity_key:
            continue
        _check_link(deployment, party, link, old, now)
        if old != current:
            raise IdentityForked("two successors of one key")
        if statement.identity_key in (*followed, current):
            raise SuccessionRefused("a key that was replaced does not come back")
        found.append(link)
        followed[old] = current = statement.identity_key
        by_fingerprint[fingerprint(current)] = current
    if shown.links[-1].statement.identity_key != current:
        raise KeyNotAnchored("nothing leads from the key on the roster to this one")
    return tuple(found)


def _check_link(
    deployment: str, party: str, link: SignedPartySuccession, old: bytes, now: datetime
) -> None:
    """Raise SuccessionRefused unless both keys signed it, for this party, as of now."""
    statement = link.statement
    if (statement.deployment, statement.party) != (deployment, party):
        raise SuccessionRefused("the link is of another party or deployment")
    if statement.effective > now + CLOCKS_DIFFER:
        raise SuccessionRefused("the link is of the future")
    signatures = ((statement.identity_key, link.signature), (old, link.old_signature))
    try:
        for key, signature in signatures:
            signed = Signed[PartySuccession](statement=statement, signature=signature)
            verify_once(PARTY_SUCCESSION_LABEL, signed, key)
    except SignatureBroken as error:
        raise SuccessionRefused(str(error)) from None
