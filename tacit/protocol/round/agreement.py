"""What every party checks of a descriptor before it participates, regardless of the caller.

Pure: signatures, hashes and sets only (spec: aggregation, section 6, step 1). The coordinator,
every aggregator and every curator call the same functions, so a coordinator that shows parties
different things is refused by each honest one.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from tacit.crypto.sealing import segment_size
from tacit.crypto.signing import SignatureBroken, Signed, verify
from tacit.errors import Invalid
from tacit.protocol.identities import KeyNotAnchored, Pin
from tacit.protocol.round.descriptor import DESCRIPTOR_LABEL, AggregatorEntry, RoundDescriptor
from tacit.protocol.sessions import SEAL_KEY_LABEL
from tacit.query.functions import dimension
from tacit.query.query import Query
from tacit.query.words import Validity

CLOCK_SKEW: Final = timedelta(seconds=300)
"""How far the clocks of honest parties may lie apart."""


class DescriptorRefused(Invalid):
    name = "descriptor_refused"
    title = "The round descriptor breaks a rule that every party checks"


# What proved queries need is imported where it is used: a client has no extra `proofs`.
def is_proved(query: Query) -> bool:
    """Whether the contributions of a query carry proofs."""
    return query.validity is Validity.PROVED


def segment_size_of(query: Query) -> int:
    """Roster numbers per segment in the rounds of a query."""
    if not is_proved(query):
        return segment_size(dimension(query))
    from tacit.query.proofs import part_length

    return part_length(query)


def check_opened(opened: datetime, now: datetime) -> None:
    """Raise DescriptorRefused for what is opened later than any honest clock says by now.

    A party that was restored since would take it for something that it cannot have answered.
    """
    if opened > now + CLOCK_SKEW:
        raise DescriptorRefused("it is opened in the future")


def check_descriptor(
    signed: Signed[RoundDescriptor], coordinator_key: bytes, now: datetime
) -> RoundDescriptor:
    """The descriptor, if the coordinator signed it, it is consistent in itself, and opened."""
    descriptor = check_consistent(signed, coordinator_key)
    check_opened(descriptor.opened, now)
    return descriptor


def check_consistent(signed: Signed[RoundDescriptor], coordinator_key: bytes) -> RoundDescriptor:
    """The descriptor, if the coordinator signed it and it is consistent in itself, whenever it was
    opened. Raises DescriptorRefused."""
    try:
        descriptor = verify(DESCRIPTOR_LABEL, signed, coordinator_key)
        for entry in descriptor.aggregators:
            _check_key(entry, descriptor)
    except SignatureBroken as error:
        raise DescriptorRefused(str(error)) from None
    query = descriptor.query
    if len(descriptor.aggregators) != query.aggregators:
        raise DescriptorRefused("the query asks for another number of aggregators")
    if len({entry.id for entry in descriptor.aggregators}) != query.aggregators:
        raise DescriptorRefused("an aggregator is listed twice")
    if len({entry.identity_key for entry in descriptor.aggregators}) != query.aggregators:
        raise DescriptorRefused("two aggregators share an identity")
    if len({entry.seal.public_key_hash for entry in descriptor.aggregators}) != query.aggregators:
        raise DescriptorRefused("two aggregators share a key that pieces are sealed to")
    if descriptor.segment_size != segment_size_of(query):
        raise DescriptorRefused("the segment size is not the one of this dimension")
    if not descriptor.opened < descriptor.deadline:
        raise DescriptorRefused("the deadline is not after the opening")
    if query.window is not None and query.window != descriptor.window:
        raise DescriptorRefused("the round's window is not the query's")
    return descriptor


def _check_key(entry: AggregatorEntry, descriptor: RoundDescriptor) -> None:
    """Raise unless the aggregator signed the key of its entry, for this round if for one only."""
    seal = verify(SEAL_KEY_LABEL, entry.seal_key, entry.identity_key)
    if seal.round not in (None, descriptor.round):
        raise DescriptorRefused(f"the seal key of {entry.id} is for another round")
    if seal.party != entry.id:
        raise DescriptorRefused(f"the key of {entry.id} names another party")


def check_anchors(descriptor: RoundDescriptor, anchors: Mapping[str, Pin], now: datetime) -> None:
    """Every aggregator's identity is the one whose fingerprint came with the join token, or follows
    from it.

    Otherwise a coordinator could supply its own keys for all aggregators and read everything.
    Raises what `Pin.check_key` raises.
    """
    for entry in descriptor.aggregators:
        pin = anchors.get(entry.id)
        if pin is None:
            raise KeyNotAnchored(f"aggregator {entry.id} is not anchored by an enrolment")
        pin.check_key(entry.identity_key, now)
