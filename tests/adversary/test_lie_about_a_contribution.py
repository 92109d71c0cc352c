"""Curators move a proved sum by more than the query allows them.

Each sends something else than a share of a value in the declared range with its proof: a number far
outside, a bit that is none, a proof of something else, different things to different aggregators.
Every aggregator leaves out exactly these, gives the same reasons, and the sum of the others is
exact to the unit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tacit import sets
from tacit.protocol.proved_rounds import contradictions
from tacit.protocol.round.messages import ProofReason
from tacit.protocol.round.pieces import proof_context
from tacit.query.proofs import proof_plan
from tacit.validity.field import Elements
from tacit.validity.functions import ProvedVector
from tests.aggregator.double import Federation, Sender
from tests.aggregator.joint_lie import only_the_seed_differs
from tests.aggregator.pieces.test_pieces import problem
from tests.aggregator.proved import ProvedRound, keyed, proved

HISTOGRAM: dict[str, Any] = {"function": "histogram", "edges": ["0", "2", "5", "10"]}
HONEST: dict[str, list[list[int]]] = {"sum": [[3], [20]], "histogram": [[1, 0, 1], [0, 0, 0]]}
Lie = Callable[[ProvedRound, np.ndarray[Any, Any]], list[bytearray]]
NONCE = 16


def measured(current: ProvedRound, value: np.ndarray[Any, Any]) -> Elements:
    """The honest measurement."""
    return proof_plan(current.descriptor.query).of(1).function.encode(value[np.newaxis])


def element(number: int) -> Lie:
    """One element of the measurement is another number."""

    def lie(current: ProvedRound, value: np.ndarray[Any, Any]) -> list[bytearray]:
        elements = measured(current, value)
        elements[0, 0, 0] = number % proof_plan(current.descriptor.query).prime
        return current.shared(elements)

    return lie


def flipped(aggregator: int, byte: int) -> Lie:
    """One bit of what an aggregator gets is another one; `byte` may count from the end."""

    def lie(current: ProvedRound, value: np.ndarray[Any, Any]) -> list[bytearray]:
        plain = current.plaintexts(value)
        plain[aggregator][byte] ^= 1
        return plain

    return lie


def other_context(current: ProvedRound, value: np.ndarray[Any, Any]) -> list[bytearray]:
    """A proof made for another round."""
    return current.plaintexts(value, context=proof_context(bytes(32)))


def spliced(current: ProvedRound, value: np.ndarray[Any, Any]) -> list[bytearray]:
    """The measurement of one contribution with the proof of another."""
    one, other = current.plaintexts(value), current.plaintexts(value)
    prio3 = proof_plan(current.descriptor.query).of(1).prio3
    start = NONCE + prio3.public_share_bytes
    end = start + prio3.circuit.measurement_length * 8
    one[0][end:] = other[0][end:]
    return one


def all_zero(current: ProvedRound, value: np.ndarray[Any, Any]) -> list[bytearray]:
    """Nothing but zeros in the long share."""
    plain = current.plaintexts(value)
    plain[0][NONCE:] = bytes(len(plain[0]) - NONCE)
    return plain


LIES: dict[str, Lie] = {
    "a bit of 2": element(2),
    "a million": element(10**6),
    "minus one": element(-1),
    "a half": element((2**64 - 2**32 + 2) // 2),
    "a measurement share": flipped(0, NONCE),
    "the last value of the proof": flipped(0, -8),
    "a helper's seed": flipped(1, -1),
    "a nonce at one aggregator": flipped(2, 0),
    "a nonce at the first": flipped(0, 3),
    "another round's": other_context,
    "another contribution's proof": spliced,
    "zeros": all_zero,
}
JOINT: dict[str, Lie] = {
    "a public share at one aggregator": flipped(1, NONCE + 70),
    "a blind": flipped(0, -1),
    "a helper's blind": flipped(2, -1),
}


async def refused_alike(
    current: ProvedRound, senders: list[Sender], lies: dict[str, Lie], honest: list[list[int]]
) -> None:
    for sender, value in zip(senders, honest, strict=False):
        await current.prove(sender, np.array(value))
    for sender, lie in zip(senders[len(honest) :], lies.values(), strict=True):
        await current.deliver(sender, lie(current, np.array(honest[0])))
    accepted, verdicts = await current.verdicts()
    assert len({str(item.statement.reasons) for item in verdicts}) == 1
    items = len(senders)
    refused = np.zeros(items, np.bool_)
    for bitmap in verdicts[0].statement.reasons.values():
        refused |= sets.unpack(bitmap, items)
    passed = [name for name, out in zip(lies, refused[len(honest) :], strict=True) if not out]
    assert not passed, f"accepted: {passed}"
    assert not refused[: len(honest)].any()
    total, manifest = await current.opened(accepted, verdicts)
    assert total.tolist() == np.array(honest).sum(axis=0).tolist()
    assert manifest.count == len(honest)


async def test_no_lie_about_a_sum_is_counted(pair: Federation) -> None:
    lies = {**LIES, "a nonce at one aggregator": flipped(1, 0)}
    senders = await pair.lone(len(lies) + 2)
    current = await keyed(pair, proved(aggregators=2))
    await refused_alike(current, senders, lies, HONEST["sum"])


async def test_no_lie_about_a_histogram_is_counted(trio: Federation) -> None:
    # the public share is before the long share, and a blind behind it
    lies = {
        **LIES,
        **JOINT,
        "a measurement share": flipped(0, NONCE + 200),
        "the last value of the proof": flipped(0, -40),
    }
    senders = await trio.lone(len(lies) + 2)
    current = await keyed(trio, proved(**HISTOGRAM))
    await refused_alike(current, senders, lies, HONEST["histogram"])


@pytest.mark.parametrize("misled", [0, 2])
async def test_a_lie_that_only_joint_randomness_shows_is_not_counted(
    trio: Federation, misled: int
) -> None:
    """One aggregator refuses it, the others see a proof that holds: nobody of them lied, and the
    round goes on without it."""
    senders = await trio.lone(4)
    current = await keyed(trio, proved(function="histogram", edges=["0", "10"]))
    for sender, value in zip(senders, [0, 1, 2], strict=False):
        await current.prove(sender, np.array([value]))
    plan = proof_plan(current.descriptor.query)
    plain = only_the_seed_differs(
        plan.of(1),
        proof_context(current.descriptor.digest()),
        plan.of(1).function.encode(np.array([[2]])),
        misled,
        trio.random,
    )
    await current.deliver(senders[3], [bytes(rows[0]) for rows in plain])
    accepted = await current.freeze()
    verifications = await current.verify(accepted)
    await current.exchange()
    verdicts = await current.decide(verifications)
    reasons = [item.statement.reasons for item in verdicts]
    fourth = {ProofReason.JOINT_RANDOMNESS: b"\x08"}
    assert reasons == [fourth if index == misled else {} for index in range(3)]
    made = [item.statement for item in verifications]
    assert list(contradictions(made, [item.statement for item in verdicts])) == []
    total, manifest = await current.opened(accepted, verdicts)
    assert (total.tolist(), manifest.count) == ([3], 3)


async def test_a_host_lies_for_a_whole_part_and_loses_it(trio: Federation) -> None:
    lone, host = await trio.lone(2), await trio.host("gateway", 12)
    current = await keyed(trio, proved())
    for sender, value in zip(lone, HONEST["sum"], strict=True):
        await current.prove(sender, np.array(value))
    plan = proof_plan(current.descriptor.query)
    elements = plan.of(12).function.encode(np.array([[240]]))
    elements[0, 0, 0] = 50
    for index, plain in enumerate(current.shared(elements, 12)):
        body = current.part(host, index, bytes(plain))
        assert (await current.send_batch(host, index, body)).status_code == 201
    total, manifest = await current.proved_release()
    assert (total.tolist(), manifest.count, manifest.parts) == ([23], 2, ())


DAY: dict[str, Any] = {
    "function": "vector_sum",
    "dimension": 4,
    "coordinates": "slots",
    "bounds": ["-10", "10"],
    "resolution": "0.1",
    "max_readings": 4,
    "window_bound": "20",
    "collusion": {"curators": 0, "aggregators": 2},
    "mechanism": "distributed",
}
"""Readings reach 400 ring units in one slot, windows 200."""
NORMS: dict[str, dict[str, Any]] = {
    "L1": {"noise": "laplace", "epsilon": "1000"},
    "L2": {"noise": "gaussian", "rho": "100"},
    "L2, Field128": {"noise": "gaussian", "rho": "100", "resolution": "0.00001"},
}


def beyond(function: ProvedVector, values: list[int]) -> Elements:
    """The bits of entries whose norm may pass the bound, with the largest norm that one can
    claim."""
    (block,) = function.blocks
    of_block = np.array([values])
    numbers = (
        [of_block + block.top] if block.l2 else [np.maximum(of_block, 0), np.maximum(-of_block, 0)]
    )
    bits = [block.entry.encode(number)[:, 0, place] for number in numbers for place in range(4)]
    claimed = min(block.weight.top, sum(abs(value) ** (1 + block.l2) for value in values))
    bits.append(block.weight.encode(np.array([claimed], dtype=object))[:, 0])
    return function.circuit.field.small(np.concatenate(bits)[:, np.newaxis])


@pytest.mark.parametrize(
    "norm", ["L2", *(pytest.param(norm, marks=pytest.mark.slow) for norm in NORMS if norm != "L2")]
)
async def test_a_window_beyond_its_bound_is_not_counted(trio: Federation, norm: str) -> None:
    """Each entry within its range, the window too long, by one unit or by all entries: of a lone
    curator and of a host's part, which is held to n'W. What is at the bound is counted."""
    senders, host = await trio.lone(4), await trio.host("gateway", 3)
    liars = await trio.host("liars", 3)
    asked = proved(**{**DAY, **NORMS[norm]})
    current = await keyed(trio, asked)
    plan = proof_plan(current.descriptor.query)
    lone, part = plan.of(1).function, plan.of(3).function
    assert isinstance(lone, ProvedVector)
    assert isinstance(part, ProvedVector)
    assert plan.word_bytes == (16 if norm == "L2, Field128" else 8)
    w = lone.blocks[0].bound
    assert (lone.blocks[0].top, part.blocks[0].bound) == (w, 3 * w)
    full = [w, 0, 0, 0]
    mixed = [w // 2, -(w // 4), 0, w // 4]
    for sender, values in zip(senders, (full, mixed), strict=False):
        assert (beyond(lone, values) == lone.encode(np.array([values]))).all()
        await current.deliver(sender, current.shared(beyond(lone, values)))
    for sender, values in zip(senders[2:], ([w, 1, 0, 0], [w, -w, w, w]), strict=True):
        await current.deliver(sender, current.shared(beyond(lone, values)))
    for sender, values in ((host, [3 * w, 0, 0, 0]), (liars, [3 * w, 0, 0, -1])):
        made = current.shared(beyond(part, values), 3)
        for index, plain in enumerate(made):
            body = current.part(sender, index, bytes(plain))
            assert (await current.send_batch(sender, index, body)).status_code == 201
    accepted, verdicts = await current.verdicts()
    assert len({str(item.statement.reasons) for item in verdicts}) == 1
    assert set(verdicts[0].statement.reasons) == {ProofReason.PROOF}
    total, manifest = await current.opened(accepted, verdicts)
    assert manifest.count == 2 + 3
    expected = np.array(full) + np.array(mixed) + np.array([3 * w, 0, 0, 0])
    # Three draws stay near: Laplace of scale W / 1000 each, Gaussian of deviation W / 14.
    assert np.abs(total - expected).max() < w


async def test_what_is_no_field_element_or_too_long_is_not_taken(pair: Federation) -> None:
    (sender,), host = await pair.lone(1), await pair.host("gateway", 12)
    current = await keyed(pair, proved(aggregators=2))
    honest = current.plaintexts(np.array([3]))
    large = bytearray(honest[0])
    large[NONCE : NONCE + 8] = b"\xff" * 8
    wrong = [bytes(honest[0]) + bytes(8), bytes(honest[0])[:-8], bytes(honest[1])]
    for content, name in [(bytes(large), "out_of_field"), *((x, "wrong_length") for x in wrong)]:
        piece = current.proved_piece(sender, 0, content)
        answer = await current.send(sender, 0, piece)
        assert (answer.status_code, problem(answer)) == (400, name)
    lone_like = current.part(host, 0, bytes(honest[0]))
    answer = await current.send_batch(host, 0, lone_like)
    assert answer.status_code == 400
    total = bytearray(current.plaintexts(np.array([3]), 12)[0])
    total[NONCE : NONCE + 8] = b"\xff" * 8
    answer = await current.send_batch(host, 0, current.part(host, 0, bytes(total)))
    assert answer.status_code == 400
