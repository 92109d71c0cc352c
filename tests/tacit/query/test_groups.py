"""Groups, families and jobs in queries and descriptors; what knows none of them is as it was."""

import json
import zlib

import numpy as np
import pytest
from pydantic import ValidationError

from tacit import sets
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.query.query import Query
from tacit.wire import encode_binary
from tests.tacit.examples import fields
from tests.tacit.protocol.round.test_checks import bitmap, descriptor


def test_a_descriptor_for_everyone_says_nothing_of_members() -> None:
    assert b"members" not in descriptor().canonical()
    assert descriptor().invited() is None


@pytest.mark.parametrize(
    "changes",
    [
        {"family_minimum": 3},
        {"family": "f", "family_minimum": 0},
        {"family": "f", "family_minimum": 10_000_001},
        {
            "family": "f",
            "family_minimum": 3,
            "collusion": {"curators": 3},
            "min_participants": 4,
        },
        {"group": ""},
        {"group": "a/b"},
        {"job": "-"},
    ],
)
def test_what_means_nothing_is_refused(changes: dict) -> None:
    with pytest.raises(ValidationError) as error:
        Query.model_validate_json(json.dumps(fields(**changes)))
    (found,) = error.value.errors()
    assert found["loc"][0] in ("family_minimum", "group", "job")


def test_the_members_of_a_group_travel() -> None:
    made = descriptor({"members": sets.compressed(bitmap(1, 5))}, group="g")
    invited = made.invited()
    assert invited is not None
    assert np.flatnonzero(invited).tolist() == [1, 5]
    back = RoundDescriptor.model_validate_json(made.canonical())
    assert back == made
    other = descriptor({"members": sets.compressed(bitmap(1, 6))}, group="g")
    assert other.digest() != made.digest()


@pytest.mark.parametrize(
    ("members", "group"),
    [
        (None, "g"),
        (sets.compressed(bitmap(1)), None),
        (sets.compressed(bitmap()), "g"),
        (sets.compressed(b"\x01"), "g"),
        (sets.compressed(b"\x01\x10"), "g"),  # number 12 of 12
        (b"no zlib", "g"),
        (zlib.compress(bytes(10**6)), "g"),
        (sets.compressed(bitmap(1)) + b"more", "g"),
        (sets.compressed(bitmap(1))[:-2], "g"),
    ],
    ids=["none", "no group", "empty", "short", "stray", "text", "large", "longer", "cut"],
)
def test_members_that_are_no_bitmap_of_the_roster(members: bytes | None, group: str | None) -> None:
    changes = {} if members is None else {"members": members}
    with pytest.raises(ValidationError):
        descriptor(changes, **({} if group is None else {"group": group}))
    good = descriptor({"members": sets.compressed(bitmap(1))}, group="g")
    text = json.loads(good.canonical())
    text["query"]["group"] = group
    text["members"] = None if members is None else encode_binary(members)
    with pytest.raises(ValidationError):
        RoundDescriptor.model_validate_json(json.dumps(text))


def test_no_larger_bitmap_is_unpacked() -> None:
    small = {"members": sets.compressed(bitmap(1)), "roster_size": 2**26 + 1}
    with pytest.raises(ValidationError, match="at most 67108864"):
        descriptor(small, group="g")
