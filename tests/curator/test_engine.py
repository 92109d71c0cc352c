"""The engine alone, as a simulation uses it: no HTTP, no store, any source of randomness."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.bodies import parse_cbor
from curator.engine import (
    Engine,
    HostPart,
    Sealer,
    Terms,
    Total,
    no_readings,
    prepare_parts,
    prepare_together,
)
from tacit.crypto.sealing import TAG_BYTES, Span, open_part, read_part_header
from tacit.crypto.signing import Identity
from tacit.protocol.round import pieces as proved_pieces
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.protocol.round.pieces import Piece
from tacit.query.functions import Readings
from tacit.query.proofs import ContributionProof
from tacit.randomness import SecureRandom, SeededRandom
from tacit.validity.field import Rows
from tests.curator.conftest import HOUR, NOISY, PLAIN, START, query
from tests.curator.double import FakeWorld
from tests.property_examples import examples

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def sealer(party: str) -> Sealer:
    return Sealer(party, Identity.from_bytes(bytes(32)))


def terms_of(world: FakeWorld, descriptor: RoundDescriptor) -> Terms:
    """A round's terms with the seal keys of its aggregators."""
    keys = tuple(item.seal_key.public for item in world.aggregators)
    return replace(Terms.of(descriptor), seal_keys=keys)


FUNCTIONS: dict[str, dict[str, Any]] = {
    "sum": {},
    "count": {"function": "count"},
    "mean": {"function": "mean"},
    "variance": {"function": "variance", "resolution": "0.01"},
    "variance of one": {"function": "variance", "max_readings": 1},
    "histogram": {"function": "histogram", "edges": ["0", "1", "2", "5"]},
    "slots": {"function": "vector_sum", "dimension": 4, "l1_bound": "3"},
    "completeness": {
        "function": "mean",
        "completeness": "curators",
        "split": ["0.4", "0.4", "0.2"],
    },
}
LAYERS: dict[str, dict[str, Any]] = {
    "exact": PLAIN,
    "curators": {**NOISY, "layer": "curator", "collusion": {"curators": 0, "aggregators": 0}},
    "a tail so large that noise is clamped": {
        **NOISY,
        "layer": "curator",
        "collusion": {"curators": 0, "aggregators": 0},
        "noise_tail": "0.9",
        "delta": "0.5",
    },
    "coins": {
        **PLAIN,
        "mechanism": "two-layer",
        **{"epsilon_u": "1", "epsilon_s": "1", "pr_u": "0.5", "pr_s": "0.5"},
    },
}


@cache
def proved_terms(function: str, layer: str) -> Terms:
    world = FakeWorld()
    world.next_number = 64
    asked = {**FUNCTIONS[function], "validity": "proved", "n_max": 64, "min_participants": 2}
    return terms_of(
        world, world.open_round(query(LAYERS[layer], **asked), START, START + HOUR, NOW)
    )


PAIRS = [
    *((function, "curators") for function in FUNCTIONS),
    ("completeness", "exact"),
    ("sum", "coins"),
    ("variance", "a tail so large that noise is clamped"),
    ("slots", "a tail so large that noise is clamped"),
]


@pytest.mark.parametrize(("function", "layer"), PAIRS)
@given(data=st.data())
@examples(20)
def test_whatever_the_readings_are_they_can_be_proved_and_have_one_length(
    function: str, layer: str, data: st.DataObject
) -> None:
    """Of lone curators and of a part: what could not be proved would tell about readings."""
    terms = proved_terms(function, layer)
    counts = data.draw(st.lists(st.integers(0, 7), min_size=3, max_size=3))
    owner = np.repeat(np.arange(3), counts)
    amount = st.one_of(st.integers(-(2**62), 2**62), st.integers(-(10**14), 10**14))
    quantity = data.draw(st.lists(amount, min_size=owner.size, max_size=owner.size))
    offset = np.sort(SeededRandom(1).generator.integers(0, 2**32, owner.size))
    readings = Readings(3, owner, np.array(quantity, np.int64), offset)
    engine = Engine(sealer("gw"), SeededRandom(7))
    proofs = terms.proofs
    assert proofs is not None
    for each in prepare_together(terms, [engine] * 3, readings):
        for index, body in enumerate(each.bodies):
            piece = parse_cbor(body.content, Piece)
            assert len(piece.sealed) == proofs.of(1).share_bytes(index) + TAG_BYTES
    span, present = Span(0, 0, 10), np.arange(10) % 4 == 1
    total = Total.of(terms.query, readings)
    several = [total, Total.of(terms.query, no_readings(terms.query, 0))]
    part = HostPart(span, present, several)
    for index, body in enumerate(prepare_parts(terms, [engine], [part])[0].bodies):
        header, _ = read_part_header(body.content, terms.descriptor.segment_size)
        assert header.plaintext_bytes == proofs.of(3).share_bytes(index)
        assert (header.count, header.share_index, header.span) == (3, index, span)


def test_parts_of_several_hosts_and_sizes_keep_their_order_and_their_totals() -> None:
    """Parts of as many curators are proved together, whoever's they are; each is sealed by its own
    host, and holds its own total."""
    world = FakeWorld()
    world.next_number = 64
    asked = {**FUNCTIONS["sum"], "validity": "proved", "n_max": 64, "min_participants": 2}
    terms = terms_of(world, world.open_round(query(PLAIN, **asked), START, START + HOUR, NOW))
    proofs = terms.proofs
    assert proofs is not None
    sizes, source = (3, 5, 3, 2, 5), SecureRandom()
    engines = [Engine(sealer(f"gw-{place}"), source) for place in range(len(sizes))]
    values = [np.array([10 * place + 1], np.int64) for place in range(len(sizes))]
    none = np.zeros(0, np.int64)
    parts = [
        HostPart(
            Span(place, 4096 * place, 8),
            np.arange(8) < size,
            [Total(value, none, none, none)],
            place,
        )
        for place, (size, value) in enumerate(zip(sizes, values, strict=True))
    ]
    made = prepare_parts(terms, engines, parts)
    for place, (prepared, own) in enumerate(zip(made, parts, strict=True)):
        shares = []
        for index, body in enumerate(prepared.bodies):
            header, offset = read_part_header(body.content, terms.descriptor.segment_size)
            assert (header.host, header.span, header.part) == (f"gw-{place}", own.span, place)
            assert header.count == sizes[place]
            key = engines[place].sealer.seal(terms.descriptor, index, terms.seal_keys[index]).key
            plain = open_part(key, body.content, offset)
            shares.append(np.frombuffer(plain, np.uint8)[np.newaxis])
        assert total_of(proofs.of(sizes[place]), shares, terms.digest) == [
            values[place][0] - proofs.of(sizes[place]).function.offset[0]
        ]


def total_of(proof: ContributionProof, shares: list[Rows], digest: bytes) -> list[int]:
    """What one contribution's shares open to; its proof holds."""
    prio3, context = proof.prio3, proved_pieces.proof_context(digest)
    done = []
    for index, rows in enumerate(shares):
        own = proved_pieces.unpack(prio3, index, rows)
        given = (own.nonces, own.public_shares, own.input_shares)
        done.append(prio3.verify(bytes(32), context, index, *given))
    decision = prio3.decide(context, [each.verifier_shares for each in done])
    assert decision.proved.all()
    accepted = np.ones(1, np.bool_)
    return prio3.unshard_centred([prio3.aggregate(each.output_shares, accepted) for each in done])


def test_nothing_that_is_drawn_is_drawn_twice() -> None:
    """The same readings again: no nonce, seed or sealed byte is as before."""
    terms = proved_terms("histogram", "exact")
    engine = Engine(sealer("gw"), SecureRandom())
    empty = no_readings(terms.query, 1)
    split = proved_pieces.split
    made: list[bytes] = []

    def kept(*given: Any) -> Any:
        found = split(*given)
        made.extend(bytes(row[0, :16]) for row in found[:1])
        made.extend(bytes(row[0, 16:48]) for row in found[:1])
        made.extend(bytes(row[0, -64:]) for row in found)
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(proved_pieces, "split", kept)
        for _ in range(20):
            engine.prepare(terms, empty)
    assert len(set(made)) == len(made) == 20 * 5
