"""Enrolment: which party may send for which curators, with which keys.

A *party* sends contributions: a lone curator sends for itself, a host for the consecutive roster
numbers of its curators. Coordinator and aggregators each grant a one-time secret out of band; a
join token bundles the grants with the fingerprints of all identities, so that nobody in transit can
substitute their own keys (spec: aggregation, section 8).
"""

from __future__ import annotations

import base64
import hashlib
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from tacit.query.terms import Identifier
from tacit.wire import Binary, Instant, WireModel, encode_binary

PublicKey = Annotated[Binary, Field(min_length=32, max_length=32)]
Fingerprint = Annotated[Binary, Field(min_length=32, max_length=32)]
RosterNumber = Annotated[int, Field(ge=0, lt=2**32)]

RUN_ALIGNMENT = 64
"""A host's run of roster numbers starts at a multiple of this."""

GRANT_HEADER = "Tacit-Grant"
"""Names the grant of an enrolment before its body is read: other callers may send only little."""

_TOKEN_PREFIX = "tctjoin_"  # noqa: S105 - a marker, not a secret


class PartyKind(StrEnum):
    CURATOR = "curator"
    HOST = "host"


ENROLMENT_LABEL = "tacit enrolment v1"
RENEWAL_LABEL = "tacit token renewal v1"


class Grant(WireModel):
    """One service's one-time permission to enrol, and how to know that service."""

    party: Identifier
    url: str
    fingerprint: Fingerprint
    secret: Annotated[str, Field(min_length=32, max_length=128)]


class JoinToken(WireModel):
    """What an operator gives to a curator or host, out of band. Valid once, until it expires."""

    format: Literal["tacit.join/1"] = "tacit.join/1"
    party: Identifier
    kind: PartyKind
    max_curators: Annotated[int, Field(ge=1, le=10_000_000)]
    coordinator: Grant
    aggregators: tuple[Grant, ...]
    expires: Instant

    def to_text(self) -> str:
        """One word that survives mail and command lines."""
        return _TOKEN_PREFIX + encode_binary(self.canonical())

    @classmethod
    def from_text(cls, text: str) -> JoinToken:
        """The token of `to_text`; raises ValueError for anything else."""
        marker, _, body = text.strip().partition(_TOKEN_PREFIX)
        try:
            if marker or not body:
                raise ValueError("no marker")
            raw = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
            return cls.model_validate_json(raw)
        except ValueError:  # nothing of the token, which holds secrets, goes into the message
            raise ValueError("not a join token") from None


def grant_hash(secret: str) -> str:
    """SHA-256 of a grant's secret in hex: what a service stores, and the value of
    `GRANT_HEADER`."""
    return hashlib.sha256(secret.encode()).hexdigest()


class GrantRequest(WireModel):
    """An operator's request for a grant, which ends when it expires or is used.

    `replaces`: a party on the roster whose identity was stolen. It enrols again, under another
    identity, with its numbers and curators.
    """

    party: Identifier
    kind: PartyKind
    max_curators: Annotated[int, Field(ge=1, le=10_000_000)] = 1
    valid_s: Annotated[int, Field(ge=60, le=30 * 86_400)] = 86_400
    replaces: bool = False


class GrantAnswer(WireModel):
    grant: Grant
    expires: Instant


class Enrolment(WireModel):
    """A party's request to one service; signed by the identity it names (`ENROLMENT_LABEL`).

    `service` and `secret` bind it to one grant; `first` is the number that the coordinator
    assigned (absent towards the coordinator). Curator i of `curators` gets number first + i.
    """

    service: Identifier
    secret: str
    party: Identifier
    kind: PartyKind
    identity_key: PublicKey
    curators: tuple[Identifier, ...]
    first: RosterNumber | None = None


TokenHash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class TokenRenewal(WireModel):
    """A party whose API token at a service was revoked replaces it, signed by its identity
    (`RENEWAL_LABEL`).

    `party`: for a coordinator its deployment; `token_hash` and `new_hash`: SHA-256 of the
    revoked token and of the one that the party made, in hex. The new token itself is not sent,
    so a copy of the request is useless.
    """

    format: Literal["tacit.token-renewal/1"] = "tacit.token-renewal/1"
    service: Identifier
    party: Identifier
    token_hash: TokenHash
    new_hash: TokenHash
    made: Instant


class EnrolmentAnswer(WireModel):
    """`token` is the party's API token at that service; it is shown once."""

    party: Identifier
    first: RosterNumber
    curators: int
    roster_version: int | None = None
    token: str
