"""Packed shares come back as they were, open in one place of one round, and have one length.

What is inside the seals of a declared contribution: words, or seeds that stand for them.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.crypto.sealing import SealBroken, open_octets, seal_octets
from tacit.crypto.sharing import Additive, Shamir
from tacit.protocol import sealing_sessions
from tacit.protocol.round.pieces import (
    SHORT,
    DeclaredForm,
    Shares,
    WrongShareLength,
    in_field,
    pack,
    piece_context,
    proof_context,
    rows_of,
    unpack,
)
from tacit.protocol.round.pieces import split as split_pieces
from tacit.query.proofs import ContributionProof
from tacit.randomness import SEED_BYTES, SecureRandom, SeededRandom
from tacit.validity.functions import ProvedSum, ReadingBounds, proved_histogram
from tacit.validity.prio3 import Outcome

KEY = bytes(range(32))
DIGEST = b"d" * 32
PLACE = (DIGEST, "meter-1", "north", 0, 376)
SUM = ProvedSum(ReadingBounds(0, 8191, 1))
HISTOGRAM = proved_histogram(100, 1)


def split(function, shares, coordinates, seed=1):
    """(scheme, plaintexts for each aggregator) of coordinates (B, d)."""
    prio3 = function.prio3(shares)
    nonces, randomness = prio3.draw_randomness(SeededRandom(seed), len(coordinates))
    found = prio3.shard(proof_context(DIGEST), function.encode(coordinates), nonces, randomness)
    return prio3, pack(nonces, found)


@pytest.mark.parametrize("function", [SUM, HISTOGRAM], ids=["sum", "histogram"])
@pytest.mark.parametrize("shares", [2, 5])
def test_unpacked_shares_verify_and_add_up(function, shares):
    dimension = function.circuit.output_length
    coordinates = np.eye(7, dimension, dtype=np.int64)
    prio3, plaintexts = split(function, shares, coordinates)
    found = []
    for index, rows in enumerate(plaintexts):
        opened = rows_of(prio3, index, [bytes(row) for row in rows])
        assert (opened == rows).all()
        taken = unpack(prio3, index, opened)
        assert in_field(prio3, index, taken).all()
        found.append(
            prio3.verify(
                KEY,
                proof_context(DIGEST),
                index,
                taken.nonces,
                taken.public_shares,
                taken.input_shares,
            )
        )
    decision = prio3.decide(proof_context(DIGEST), [each.verifier_shares for each in found])
    counted = np.ones(7, np.bool_)
    for each in found:
        counted &= prio3.outcomes(each, decision) == Outcome.ACCEPTED
    assert counted.all()
    total = prio3.unshard_centred([prio3.aggregate(each.output_shares, counted) for each in found])
    assert total == coordinates.sum(axis=0).tolist()


def test_a_proof_of_another_round_does_not_hold():
    prio3, plaintexts = split(SUM, 2, np.array([[5], [6]]))
    taken = [unpack(prio3, index, rows) for index, rows in enumerate(plaintexts)]
    elsewhere = proof_context(b"e" * 32)
    shares = [
        prio3.verify(KEY, elsewhere, index, one.nonces, one.public_shares, one.input_shares)
        for index, one in enumerate(taken)
    ]
    decision = prio3.decide(elsewhere, [each.verifier_shares for each in shares])
    assert not decision.proved.any()


def test_words_that_are_no_field_elements_are_found_in_the_share_that_holds_them():
    prio3, (explicit, seeds) = split(SUM, 2, np.array([[5], [6], [7]]))
    prime = prio3.circuit.field.prime
    for place in (16, explicit.shape[1] - 8):
        for word in (prime, 2**64 - 1):
            changed = explicit.copy()
            changed[1, place : place + 8] = np.frombuffer(word.to_bytes(8, "little"), np.uint8)
            found = in_field(prio3, 0, unpack(prio3, 0, changed))
            assert found.tolist() == [True, False, True]
    seeds = np.full_like(seeds, 255)  # any seed is one
    assert in_field(prio3, 1, unpack(prio3, 1, seeds)).all()


@given(st.integers(0, 500))
def test_a_wrong_length_is_refused(length):
    prio3 = SUM.prio3(2)
    for index in (0, 1):
        if length != prio3.share_bytes(index):
            with pytest.raises(WrongShareLength):
                rows_of(prio3, index, [bytes(prio3.share_bytes(index)), bytes(length)])
            with pytest.raises(WrongShareLength):
                unpack(prio3, index, np.zeros((2, length), np.uint8))


@pytest.mark.parametrize(
    ("field", "value"),
    [(0, b"e" * 32), (1, "meter-2"), (2, "south"), (3, 1), (4, 377)],
    ids=["round", "curator", "aggregator", "index", "length"],
)
def test_a_readdressed_piece_does_not_open(field, value):
    nonce, sealed = seal_octets(KEY, bytes(376), piece_context(*PLACE))
    assert open_octets(KEY, nonce, sealed, piece_context(*PLACE)) == bytes(376)
    place = [*PLACE]
    place[field] = value
    with pytest.raises(SealBroken):
        open_octets(KEY, nonce, sealed, piece_context(*place))


def test_neighbouring_fields_cannot_flow_together_nor_a_declared_piece_pass_for_a_proved_one():
    assert piece_context(b"", "a", "bc", 1, 23) != piece_context(b"", "ab", "c", 12, 3)
    assert piece_context(*PLACE) != sealing_sessions.piece_context(*PLACE)


@pytest.mark.parametrize("drawn", [None, [7, -7, 3, -100]])
def test_noise_is_clamped_to_its_bound_and_none_stays_none(drawn):
    """The contributions of 5 that are sent, with noise of at most 4 either way."""
    bounds = () if drawn is None else (4,)
    function = ProvedSum(ReadingBounds(0, 10, 1), bounds)
    proof = ContributionProof(function, function.prio3(2))
    values = np.full((4, 1), 5, np.int64)
    noise = None if drawn is None else np.array(drawn, np.int64)[:, np.newaxis]
    plaintexts = split_pieces(proof, DIGEST, values, noise, SeededRandom(1))
    prio3 = proof.prio3
    taken = [unpack(prio3, index, rows) for index, rows in enumerate(plaintexts)]
    assert taken[0] != Shares(**vars(taken[0])), "told apart without comparing arrays"
    done = [
        prio3.verify(
            KEY, proof_context(DIGEST), index, one.nonces, one.public_shares, one.input_shares
        )
        for index, one in enumerate(taken)
    ]
    for place, expected in enumerate([5, 5, 5, 5] if drawn is None else [9, 1, 8, 1]):
        one = np.arange(4) == place
        total = prio3.unshard_centred([prio3.aggregate(each.output_shares, one) for each in done])
        assert total[0] + function.offset[0] == expected


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
