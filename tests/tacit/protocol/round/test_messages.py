"""The models of a round travel unchanged and refuse what has the wrong size."""

import hashlib
import json
from datetime import timedelta

import pytest
from pydantic import ValidationError

from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.protocol.round.messages import Commitment, Manifest, Reveal
from tacit.protocol.round.pieces import Piece
from tacit.wire import WireModel, encode_binary
from tests.tacit.protocol.round.test_checks import descriptor

ROUND = "01234567-89ab-7def-8123-456789abcdef"
HASH = bytes(range(32))

MODELS = [
    Piece(sender="m", session=bytes(16), nonce=bytes(12), sealed=b"\x00\xff"),
    Manifest(
        round=ROUND,
        descriptor_hash=HASH,
        quorum=(0, 1),
        members=b"\x01",
        count=1,
        contributions=(),
        salt=HASH,
    ),
    Commitment(round=ROUND, descriptor_hash=HASH, manifest_hash=HASH, aggregator="a", hash=HASH),
    Reveal(aggregator="a", nonce=HASH, partial=b"12345678"),
]


@pytest.mark.parametrize(
    ("model", "field", "value"),
    [
        (Commitment, "hash", encode_binary(HASH[:-1])),
        (Commitment, "manifest_hash", encode_binary(HASH + b"\x00")),
        (Commitment, "round", "01234567"),
        (Commitment, "round", ROUND.upper()),
        (Commitment, "round", ROUND + "\n"),
        (Commitment, "aggregator", "../etc"),
        (Reveal, "nonce", encode_binary(bytes(31))),
        (Piece, "nonce", encode_binary(bytes(13))),
        (Piece, "session", encode_binary(bytes(15))),
        (Manifest, "count", -1),
    ],
)
def test_wrong_sizes_are_refused(model, field, value):
    good = next(item for item in MODELS if isinstance(item, model))
    body = {**json.loads(good.canonical()), field: value}
    with pytest.raises(ValidationError) as error:
        model.model_validate_json(json.dumps(body))
    assert error.value.errors()[0]["loc"][0] == field


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("segment_size", 4),
        ("segment_size", 2**19),
        ("roster_size", -1),
        ("roster_size", 2**32 + 1),
        ("format", "tacit.round/3"),
        ("window", {"start": "2026-01-02T00:00:00Z", "end": "2026-01-01T00:00:00Z"}),
    ],
)
def test_a_descriptor_refuses_bad_fields(field, value):
    body = {**json.loads(descriptor().canonical()), field: value}
    with pytest.raises(ValidationError) as error:
        RoundDescriptor.model_validate_json(json.dumps(body))
    assert error.value.errors()[0]["loc"][0] == field


def test_a_changed_descriptor_has_a_form_of_its_own():
    """What is kept of a descriptor is kept by its value: not even a copy takes it along."""
    made = descriptor()
    before = made.canonical(), made.digest()
    assert before == (made.canonical(), made.digest()) == (WireModel.canonical(made), made.digest())
    later = made.deadline + timedelta(seconds=1)
    changed = made.model_copy(update={"deadline": later})
    assert changed.canonical() == WireModel.canonical(changed) != before[0]
    assert changed.digest() == hashlib.sha256(changed.canonical()).digest() != before[1]
    back = changed.model_copy(update={"deadline": made.deadline})
    assert (back.canonical(), back.digest()) == before
    bounds = made.query.bounds[0], made.query.bounds[1] + 1
    wider = made.model_copy(update={"query": made.query.model_copy(update={"bounds": bounds})})
    assert wider.digest() != before[1]
    assert wider.query.digest() != made.query.digest()


def test_a_bad_query_inside_a_descriptor_is_told_with_its_place():
    body = json.loads(descriptor().canonical())
    body["query"]["resolution"] = "100"
    with pytest.raises(ValidationError) as error:
        RoundDescriptor.model_validate_json(json.dumps(body))
    assert [problem["loc"] for problem in error.value.errors()] == [("query", "resolution")]
