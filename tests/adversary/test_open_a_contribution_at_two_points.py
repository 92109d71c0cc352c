"""All but one aggregator, and the coordinator, have the last one verify a contribution twice.

Under two verify keys an honest aggregator shows its share at two points. Together they eliminate
the seed that blinds it, and of all values that a contribution may have one is left. So there is one
verify key and one set of candidates for a round, ever; pieces open in one round only; and what a
restored aggregator has forgotten it cannot open again.
"""

from __future__ import annotations

import numpy as np

from aggregator.context import Aggregator
from aggregator.rounds.restoring import MARKER
from tacit import sets
from tacit.crypto.signing import Signed
from tacit.protocol.round.messages import AcceptedSet, RelayedKeyShares, VerificationRequest
from tacit.protocol.round.pieces import proof_context
from tacit.query.proofs import proof_plan
from tacit.query.query import Query
from tacit.validity.field import Elements, Rows
from tests.aggregator.proved import keyed, proved
from tests.aggregator.rounds import test_restoring
from tests.aggregator.rounds.test_restoring import Site
from tests.aggregator.rounds.test_state_machine import refused

site = test_restoring.site

THIRTEEN_BITS = proved(bounds=["0", "8191"], max_readings=1)
TWO = proved(aggregators=2)


class Unruly:
    """An aggregator of index 0 without the rule: it verifies under any key it is given."""

    def __init__(self, query: Query, share: Rows, nonce: Rows) -> None:
        self.prio3 = proof_plan(query).of(1).prio3
        self.share, self.nonce = share, nonce

    def verify(self, key: bytes, shares: Rows | None = None) -> list[list[int]]:
        """Verifier shares of its own input share, or of others: lists of numbers."""
        rows = self.share if shares is None else shares
        nonces = np.repeat(self.nonce, len(rows), axis=0)
        empty = np.zeros((len(rows), 0), np.uint8)
        done = self.prio3.verify(key, proof_context(bytes(32)), 0, nonces, empty, rows)
        field = self.prio3.circuit.field
        found: list[list[int]] = field.integers(field.words(done.verifier_shares)).T.tolist()
        return found


def shown(victim: Unruly, key: bytes) -> tuple[int, list[int], int]:
    """What a key shows: the wire's value at its point, and which combination of the measurement
    share and of the seed that is. The query is public, so anybody can try it on unit vectors."""
    circuit = victim.prio3.circuit
    length = circuit.measurement_length + circuit.proof_length
    units = circuit.field.small(np.eye(length, dtype=np.uint64))
    answers = victim.verify(key, circuit.field.encode(units))
    zeros = circuit.field.small(np.zeros((length, 1)))
    (nothing,) = victim.verify(key, circuit.field.encode(zeros))
    weights = [(answer[1] - nothing[1]) % circuit.field.prime for answer in answers]
    (own,) = victim.verify(key)
    bits = circuit.measurement_length
    return (own[1] - nothing[1]) % circuit.field.prime, weights[:bits], weights[bits]


def left(query: Query, known: Elements, victim: Unruly, keys: list[bytes]) -> list[int]:
    """The values that fit to what the victim shows, given the corrupt aggregators' shares."""
    prime = victim.prio3.circuit.field.prime
    (one, a, seed_a), (other, b, seed_b) = (shown(victim, key) for key in keys)
    combined = [(x * seed_b - y * seed_a) % prime for x, y in zip(a, b, strict=True)]
    target = (one * seed_b - other * seed_a) % prime
    shift = sum(int(c) * int(k) for c, k in zip(combined, known[0, :, 0], strict=True))
    values = np.arange(8192)[:, np.newaxis]
    bits = proof_plan(query).of(1).function.encode(values)[0].astype(object)
    sums = (np.array(combined, object)[:, np.newaxis] * bits).sum(axis=0)
    return np.flatnonzero((sums - shift) % prime == target).tolist()


def test_two_points_show_the_value_and_one_shows_nothing() -> None:
    plan = proof_plan(THIRTEEN_BITS).of(1)
    prio3, rng = plan.prio3, np.random.default_rng(5)
    nonce, randomness = (
        rng.integers(0, 256, (1, count), dtype=np.uint8) for count in (16, prio3.randomness_bytes)
    )
    secret = 4711
    made = prio3.shard(
        proof_context(bytes(32)), plan.function.encode(np.array([[secret]])), nonce, randomness
    )
    victim = Unruly(THIRTEEN_BITS, made.input_shares[0], nonce)
    context = proof_context(bytes(32))
    field = prio3.circuit.field
    known = field.add(
        prio3._measurement_share(context, 1, made.input_shares[1]),
        prio3._measurement_share(context, 2, made.input_shares[2]),
    )
    keys = [bytes([value]) * 32 for value in (1, 2)]
    assert left(THIRTEEN_BITS, known, victim, keys) == [secret]
    assert len(left(THIRTEEN_BITS, known, victim, [keys[0], keys[0]])) == 8192


async def test_no_sequence_of_requests_shows_two(site: Site) -> None:
    federation = site.federation
    lone = await federation.lone(3)
    await site.back_up()
    current = await keyed(federation, TWO)
    other = await keyed(federation, TWO)
    for sender in lone:
        await current.prove(sender, np.array([1]))
    accepted = await current.freeze()
    verifications = await current.verify(accepted)
    victim, corrupt = federation.peers
    check = (await current.relay_keys(0)).json()["key_check"]

    # another key for the same round
    path = current.path("verification-keys")
    foreign = RelayedKeyShares(shares=other.key_shares(0).shares)
    refused(await victim.coordinate("POST", path, foreign), 409, "verify_key_fixed")
    # other candidates: the corrupt aggregator signs a second set
    members = np.zeros(current.descriptor.roster_size, np.bool_)
    members[[0, 1]] = True
    lone_two = sets.compressed(sets.pack(members))
    false = accepted[1].statement.model_copy(update={"lone": lone_two})
    identity = corrupt.part(Aggregator).identities.current
    signed: Signed[AcceptedSet] = identity.sign(false.label, false)
    request = VerificationRequest(accepted=(accepted[0], signed))
    answer = await victim.coordinate("POST", current.path("verification"), request)
    refused(answer, 409, "candidates_fixed")
    # the same pieces in another round
    piece = current.proved_piece(lone[0], 0, bytes(current.plaintexts(np.array([1]))[0]))
    refused(await other.send(lone[0], 0, piece), 400, "seal_broken")
    # it is restarted
    await site.restart()
    assert (await current.relay_keys(0)).json()["key_check"] == check
    answer = await victim.coordinate("POST", current.path("verification"), request)
    refused(answer, 409, "candidates_fixed")
    assert await current.verify(accepted) == verifications

    # a backup of before the round is put back: it has forgotten all of it
    await site.put_back()
    answer = await victim.coordinate("POST", "/v1/rounds", current.signed)
    refused(answer, 422, "descriptor_refused")


async def test_a_backup_of_a_frozen_round_verifies_nothing(site: Site) -> None:
    """Restored to before the verification, it could be given other candidates."""
    federation = site.federation
    current = await keyed(federation, TWO)
    for sender in await federation.lone(0):
        await current.prove(sender, np.array([1]))
    await current.freeze()
    await site.first.aclose()
    (site.data / MARKER).touch()
    await site.start()
    assert (await site.state(current))[0] == "aborted"
    accepted = VerificationRequest(accepted=())
    peer = federation.peers[0]
    answer = await peer.coordinate("POST", current.path("verification"), accepted)
    refused(answer, 410, "round_closed")
