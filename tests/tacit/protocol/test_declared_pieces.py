"""What is inside the seals of a declared contribution: words, or seeds that stand for them."""

import numpy as np
import pytest

from tacit.crypto.sharing import Additive, Shamir
from tacit.protocol.round.pieces import SHORT, DeclaredForm
from tacit.randomness import SEED_BYTES, SecureRandom


def form(sharing, d):
    seeds = sharing.uniform
    return DeclaredForm(sharing, d, seeds, seeds if d > SHORT else 0)


def opened(made, shares, count, hosted):
    """The words that every aggregator finds, after a look at what it received."""
    found = {}
    for index, share in enumerate(shares):
        rows = [share] if hosted else list(share)
        contents = [row.tobytes() for row in rows]
        each = count if hosted else 1
        assert {len(content) for content in contents} == {
            made.content_bytes(index, each, hosted=hosted)
        }
        found[index] = np.concatenate(
            [made.opened(index, content, each, hosted=hosted) for content in contents]
        )
    return found


@pytest.mark.parametrize("hosted", [False, True], ids=["lone", "hosted"])
@pytest.mark.parametrize("d", [1, SHORT, SHORT + 1])
@pytest.mark.parametrize("sharing", [Additive(3), Additive(1), Shamir(2, 3), Shamir(3, 5)])
def test_contributions_are_opened_as_they_were_split(sharing, d, hosted):
    values = np.random.default_rng(1).integers(-(2**40), 2**40, (5, d))
    made = form(sharing, d)
    shares = made.split(values, SecureRandom(), hosted=hosted)
    found = opened(made, shares, 5, hosted)
    assert (sharing.combine(found) == values).all()
    seeds = sharing.uniform if hosted or d > SHORT else 0
    sizes = [share.nbytes for share in shares]
    assert sizes[:seeds] == [SEED_BYTES * (1 if hosted else 5)] * seeds
    assert sizes[seeds:] == [values.nbytes] * (len(sizes) - seeds)


def test_two_curators_never_share_a_seed():
    """Else the difference of their dense pieces would be that of their values."""
    shares = form(Additive(3), SHORT + 1).split(
        np.zeros((64, SHORT + 1), np.int64), SecureRandom(), hosted=False
    )
    seeds = {row.tobytes() for share in shares[:2] for row in share}
    assert len(seeds) == 128
