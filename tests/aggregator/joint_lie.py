"""The one lie of a lone curator that no proof shows: a wrong public share for one aggregator.

Each aggregator derives joint randomness from the public share that it was given and its own part.
A liar can therefore have one of them use other randomness than the rest, and make a proof for the
mixture: the wires are then a sum of shares under different randomness. Where all bits are 1, every
product of the circuit is 0 under any randomness, so that all proofs hold. Only the comparison of
joint randomness seeds fails, and at that aggregator alone. Spec: validity, section 10, step 5.
"""

from __future__ import annotations

import numpy as np

from tacit.protocol.round.pieces import pack
from tacit.query.proofs import ContributionProof
from tacit.randomness import NoiseSource
from tacit.validity.arithmetic import SEED_BYTES
from tacit.validity.field import Elements, Rows
from tacit.validity.prio3 import Contributions, Prio3, Usage
from tacit.validity.proof import _wires, to_coset


def only_the_seed_differs(
    proof: ContributionProof,
    context: bytes,
    measurements: Elements,
    misled: int,
    source: NoiseSource,
) -> tuple[Rows, ...]:
    """Plaintexts (B, length) for each aggregator of measurements (limbs, n, B) whose bits are all
    1; the aggregator `misled` gets another public share."""
    prio3 = proof.prio3
    field, length = prio3.circuit.field, prio3.circuit.measurement_length
    nonces, randomness = prio3.draw_randomness(source, measurements.shape[2])
    made = prio3.shard(context, measurements, nonces, randomness)
    wrong = made.public_shares.copy()
    other = (misled + 1) % prio3.shares
    wrong[:, SEED_BYTES * other] ^= 1

    helpers = [rows[:, :SEED_BYTES] for rows in made.input_shares[1:]]
    explicit, _ = field.decode(made.input_shares[0][:, :-SEED_BYTES])
    shares = [explicit[:, :length]]
    shares += [
        prio3._measurement_share(context, index, seeds) for index, seeds in enumerate(helpers, 1)
    ]
    joint = [
        np.split(
            prio3._joint_randomness(
                context,
                prio3._joint_seeds(context, wrong if index == misled else made.public_shares),
            ),
            prio3.proofs,
            axis=1,
        )
        for index in range(prio3.shares)
    ]
    drawn = prio3._expand(
        context,
        Usage.PROVE_RANDOMNESS,
        randomness[:, -SEED_BYTES:],
        bytes((prio3.proofs,)),
        prio3.proofs * prio3.circuit.prove_randomness_length,
    )
    proofs = np.concatenate(
        [
            _proof_of(prio3, shares, [own[place] for own in joint], seeds)
            for place, seeds in enumerate(np.split(drawn, prio3.proofs, axis=1))
        ],
        axis=1,
    )
    for index, seeds in enumerate(helpers, 1):
        proofs = field.subtract(proofs, prio3._proof_shares(context, index, seeds))
    encoded = field.encode(np.concatenate((shares[0], proofs), axis=1))
    first = np.concatenate((encoded, made.input_shares[0][:, -SEED_BYTES:]), axis=1)

    honest = Contributions(made.public_shares, (first, *made.input_shares[1:]))
    found = list(pack(nonces, honest))
    found[misled] = pack(nonces, Contributions(wrong, honest.input_shares))[misled]
    return tuple(found)


def _proof_of(
    prio3: Prio3, shares: list[Elements], joint: list[Elements], seeds: Elements
) -> Elements:
    """A proof of the wires that come of shares with the randomness of each."""
    circuit, field = prio3.circuit, prio3.circuit.field
    inputs = circuit.inputs(shares[0], joint[0], prio3.shares)
    for share, own in zip(shares[1:], joint[1:], strict=True):
        inputs = field.add(inputs, circuit.inputs(share, own, prio3.shares))
    table = _wires(inputs, seeds, circuit.points)
    values = np.empty((field.limbs, 2 * circuit.points, table.shape[3]), np.uint64)
    values[:, 0::2] = circuit.gadget.evaluate(field, table)
    values[:, 1::2] = circuit.gadget.evaluate(field, to_coset(field, table))
    return np.concatenate((seeds, values[:, :-1]), axis=1)
