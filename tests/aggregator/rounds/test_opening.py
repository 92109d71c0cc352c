"""Into a round: the aggregator's policy at its edges, its own entry, and shared noise."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from aggregator.context import Aggregator
from aggregator.errors import PolicyRefused
from aggregator.pieces.peer_seals import public_keys
from aggregator.rounds import opening
from common.runtime.clock import ManualClock
from tacit.protocol.round.agreement import DescriptorRefused
from tacit.protocol.round.descriptor import AggregatorEntry, RoundDescriptor
from tacit.protocol.round.pieces import Contribution
from tacit.protocol.sealing_sessions import SEAL_KEY_LABEL
from tacit.query.disclosure import DisclosureRule
from tests.aggregator.conftest import Alliance
from tests.aggregator.double import Federation, Round, query, vector
from tests.aggregator.pieces.test_pieces import problem
from tests.aggregator.rounds.test_state_machine import refused

EXACT: dict[str, Any] = {"aggregators": 2, "mechanism": "exact"}
NOISY: dict[str, Any] = {"aggregators": 2, "mechanism": "distributed", "epsilon": "1"}
PAPER: dict[str, Any] = {
    "mechanism": "two-layer",
    "stance": "paper",
    **{"epsilon_u": "1", "epsilon_s": "1", "pr_u": "0.5", "pr_s": "0.5"},
}
SHAMIR: dict[str, Any] = {**NOISY, "aggregators": 3, "sharing": "shamir", "threshold": 2}


def aggregator_of(federation: Federation, index: int = 0) -> Aggregator:
    return federation.peers[index].part(Aggregator)


def ground(aggregator: Aggregator, descriptor: RoundDescriptor, **settings: Any) -> str | None:
    """Why a policy with these settings refuses; None if it does not."""
    changed = aggregator.settings.model_copy(update=settings)
    try:
        opening.check_policy(replace(aggregator, settings=changed), descriptor)
    except (PolicyRefused, DescriptorRefused) as error:
        return str(error.detail)
    return None


async def test_a_round_meets_the_policy_exactly_at_its_limits(pair: Federation) -> None:
    aggregator = aggregator_of(pair)
    await pair.lone(3)
    asked = vector(4, **EXACT, min_participants=5, n_max=1000)
    plain = (await pair.descriptor(asked)).statement
    for setting, fits, breaks, words in (
        ("policy_min_participants", 5, 6, "fewer participants"),
        ("policy_max_curators", 1000, 999, "n_max is above"),
        ("policy_max_roster", 3, 2, "the roster is larger"),
        ("policy_max_dimension", 4, 3, "the vector is longer"),
        ("policy_max_round_s", 300, 299, "the deadline is too far away"),
        ("round_max_body_bytes", 96, 95, "a host's batch is longer"),
    ):
        assert ground(aggregator, plain, **{setting: fits}) is None
        assert words in (ground(aggregator, plain, **{setting: breaks}) or "")
    over = plain.model_copy(update={"deadline": pair.now})
    assert ground(aggregator, over) == "the deadline is over"
    last = plain.model_copy(update={"deadline": pair.now + timedelta(microseconds=1)})
    assert ground(aggregator, last) is None


async def test_exact_rounds_and_the_paper_stance_need_their_switches(pair: Federation) -> None:
    aggregator = aggregator_of(pair)
    await pair.lone(1)
    cases = [
        (EXACT, "exact_rule", "this aggregator opens no sum without noise"),
        ({**EXACT, **PAPER}, "allow_paper", "the paper stance is not allowed"),
        (NOISY, None, None),
    ]
    switches = ("exact_rule", "allow_paper")
    for asked, needed, words in cases:
        descriptor = (await pair.descriptor(query(**asked))).statement
        for on in (set(), {switches[0]}, {switches[1]}, set(switches)):
            settings: dict[str, Any] = {"allow_paper": "allow_paper" in on}
            settings["exact_rule"] = (
                DisclosureRule(min_participants=2) if "exact_rule" in on else None
            )
            wanted = None if needed is None or needed in on else words
            assert ground(aggregator, descriptor, **settings) == wanted


@pytest.mark.parametrize(
    ("rule", "fits"),
    [
        ({"min_participants": 15}, False),
        ({"min_participants": 14, "max_share": "0.15"}, False),
        ({"min_participants": 15, "max_share": "0.16"}, False),
        ({"min_participants": 15, "max_share": "0.15"}, True),
        ({"min_participants": 100, "max_share": "0.1", "top": 3}, True),
    ],
)
async def test_a_weaker_rule_is_refused(pair: Federation, rule: dict[str, Any], fits: bool) -> None:
    least = DisclosureRule(min_participants=15, max_share=Fraction("0.15"))
    asked = {**EXACT, "validity": "proved", "min_participants": 100, "rule": rule}
    await pair.lone(1)
    descriptor = (await pair.descriptor(query(**asked))).statement
    words = None if fits else "the rule is weaker than this aggregator's"
    assert ground(aggregator_of(pair), descriptor, exact_rule=least) == words


async def test_what_promises_nothing_is_refused(alliance: Alliance) -> None:
    """A sum that could wrap, a coin that leaves most rounds without noise, and operators."""
    wraps = {**NOISY, "bounds": ["0", "2305843.009"], "max_readings": 4000}
    wraps |= {"epsilon": "116", "privacy_unit": "record"}
    coin = {**PAPER, "stance": "sound", "epsilon_u": "7.5", "epsilon_s": "2.5"}
    coin |= {"pr_u": "0.0001", "pr_s": "0.01"}
    together = {**NOISY, "collusion": {"aggregators": 1}}
    async with alliance(2, operator="everyone") as pair:
        await pair.lone(1)
        for asked, name in (
            (wraps, "descriptor_refused"),
            ({**EXACT, **coin}, "policy_refused"),
            (together, "policy_refused"),
        ):
            answer = await pair.peers[0].coordinate(
                "POST", "/v1/rounds", await pair.descriptor(query(**asked))
            )
            assert problem(answer) == name, answer.text
        signed = await pair.descriptor(query(**EXACT), deployment="elsewhere")
        answer = await pair.peers[0].coordinate("POST", "/v1/rounds", signed)
        refused(answer, 422, "descriptor_refused")
        assert answer.json()["detail"] == "the round belongs to another deployment"


async def test_a_promise_is_kept_for_its_query_and_operators_only(pair: Federation) -> None:
    aggregator = aggregator_of(pair)
    await pair.lone(1)
    asked = query(**{**NOISY, "collusion": {"aggregators": 1}})
    kept = (await pair.descriptor(asked)).statement
    first, second = kept.aggregators
    alone = second.model_copy(update={"operator": first.operator})
    together = kept.model_copy(update={"aggregators": (first, alone)})
    for _ in range(2):
        await opening._check_promise_once(aggregator, kept)
        with pytest.raises(PolicyRefused):
            await opening._check_promise_once(aggregator, together)
    assert len(aggregator.promises) == 1


async def test_the_entry_of_an_aggregator_is_its_own(pair: Federation) -> None:
    aggregator, other = aggregator_of(pair), aggregator_of(pair, 1)
    await pair.lone(1)
    plain = (await pair.descriptor(query(**EXACT))).statement
    first, second = plain.aggregators
    own = await opening._own_entry(aggregator, plain)
    assert own == await aggregator.seal_keyring.of(first.seal.number)

    async def reason(entry: AggregatorEntry) -> str:
        changed = plain.model_copy(update={"aggregators": (entry, second)})
        with pytest.raises(DescriptorRefused) as found:
            await opening._own_entry(aggregator, changed)
        return str(found.value.detail)

    def seal_key(**changes: Any) -> AggregatorEntry:
        statement = first.seal.model_copy(update=changes)
        signed = aggregator.identities.current.sign(SEAL_KEY_LABEL, statement)
        return first.model_copy(update={"seal_key": signed})

    not_its_own = "the entry of this aggregator is not its own"
    assert await reason(first.model_copy(update={"id": "x"})) == (
        "this aggregator is not one of the round"
    )
    assert await reason(first.model_copy(update={"operator": "x"})) == not_its_own
    theirs = {"identity_key": other.identities.current.public_key}
    assert await reason(first.model_copy(update=theirs)) == not_its_own
    assert await reason(seal_key(public_key_hash=bytes(32))) == (
        "the seal key of this aggregator is not its own"
    )
    assert await reason(seal_key(number=3)) == "the seal key of this aggregator is not in use"


async def test_a_seal_key_is_good_until_its_grace_is_over(
    alliance: Alliance, clock: ManualClock
) -> None:
    async with alliance(1, seal_key_s=3600, seal_key_grace_s=60) as federation:
        aggregator = aggregator_of(federation)
        plain = (await federation.descriptor(query(), roster_size=1)).statement
        seal = plain.aggregators[0].seal
        clock.advance(seal.until + timedelta(seconds=59) - clock.now())
        assert (await opening._own_entry(aggregator, plain)).signed.statement == seal
        clock.advance(timedelta(seconds=1))
        with pytest.raises(DescriptorRefused, match="expired"):
            await opening._own_entry(aggregator, plain)


async def test_a_round_is_new_once(trio: Federation) -> None:
    """Also for a process that finds it in the store between its check and its transaction."""
    await trio.lone(1)
    aggregator = aggregator_of(trio)
    for asked in (SHAMIR, {**EXACT, "aggregators": 3}):
        signed = await trio.descriptor(query(**asked))
        first, new = await opening.open_round(aggregator, signed)
        assert new
        assert ("contribution" in json.loads(first)) == (asked is SHAMIR)
        assert await opening.open_round(aggregator, signed) == (first, False)
        digest = signed.statement.digest()
        own = await opening._own_entry(aggregator, signed.statement)
        again = await opening._open(aggregator, signed, digest, own)
        assert again == (first, False)
        other = await trio.descriptor(query(**asked, name="other"), round=signed.statement.round)
        answer = await trio.peers[0].coordinate("POST", "/v1/rounds", other)
        refused(answer, 409, "round_conflict")


async def test_an_opening_reads_once_and_writes_once(trio: Federation) -> None:
    """One reading before anything is checked, and one transaction that adds the round."""
    await trio.lone(1)
    aggregator = aggregator_of(trio)
    for _ in range(2):  # the first loads the key
        signed = await trio.descriptor(query(**{**EXACT, "aggregators": 3}))
        before = replace(aggregator.database.counts)
        await opening.open_round(aggregator, signed)
    counts = aggregator.database.counts
    assert (counts.reading - before.reading, counts.writing - before.writing) == (1, 1)


async def relay(current: Round, index: int, *relayed: tuple[str, Any]) -> Any:
    """Aggregators' shares for number `index`, as the coordinator passes them on."""
    body = [
        {"aggregator": name, "piece": json.loads(piece.model_dump_json())}
        for name, piece in relayed
    ]
    return await current.federation.peers[index].coordinate(
        "POST", current.path("contributions"), json.dumps(body).encode()
    )


async def drawn(federation: Federation, current: Round, index: int) -> Contribution:
    """Another draw of an aggregator's noise, shared and sealed for the round."""
    aggregator, descriptor = aggregator_of(federation, index), current.descriptor
    own = await aggregator.seal_keyring.of(descriptor.aggregators[index].seal.number)
    public = await public_keys(aggregator, descriptor)
    return opening._share_noise(aggregator, descriptor, descriptor.digest(), own, public)


async def test_only_another_aggregators_own_share_is_taken(trio: Federation) -> None:
    await trio.lone(2)
    exact = await trio.open(query(**{**EXACT, "aggregators": 3}))
    current = await trio.open(vector(2, **SHAMIR))
    shares = await drawn(trio, current, 0)
    assert len(shares.pieces) == 3
    own = await drawn(trio, current, 1)
    good = shares.pieces[1]
    bad = {
        "not of the round": ("stranger", good),
        "its own": ("aggregator-1", own.pieces[1]),
        "under another name": ("aggregator-2", good),
        "of another session": (
            "aggregator-0",
            good.model_copy(update={"session": bytes(16), "announce": None}),
        ),
    }
    for relayed in bad.values():
        refused(await relay(current, 1, relayed), 422, "contribution_refused")
    refused(await relay(exact, 1, ("aggregator-0", good)), 422, "contribution_refused")
    for sealed in (good.sealed[:-8], good.sealed + bytes(8), good.sealed[:-1]):
        cut = good.model_copy(update={"sealed": sealed})
        refused(await relay(current, 1, ("aggregator-0", cut)), 400, "wrong_length")
    wrong = ("aggregator-0", shares.pieces[2])
    refused(await relay(current, 1, wrong), 400, "seal_broken")


async def test_a_share_is_held_once_and_known_after_the_sum(trio: Federation) -> None:
    lone = await trio.lone(2)
    signed = await trio.descriptor(query(**SHAMIR))
    current = Round(trio, signed)
    opened = [
        json.loads((await peer.coordinate("POST", "/v1/rounds", signed)).content)
        for peer in trio.peers
    ]
    made = [Contribution.model_validate_json(json.dumps(item["contribution"])) for item in opened]
    mine = [(f"aggregator-{index}", made[index].pieces[1]) for index in range(3)]
    assert (await relay(current, 1)).json() == {"contributions": [1]}
    assert (await relay(current, 1, mine[0])).json() == {"contributions": [0, 1]}
    assert (await relay(current, 1, mine[0])).json() == {"contributions": [0, 1]}
    other = ("aggregator-0", (await drawn(trio, current, 0)).pieces[1])
    refused(await relay(current, 1, other), 409, "piece_conflict")
    refused(await relay(current, 1, mine[2], other), 409, "piece_conflict")
    shown = await trio.peers[1].coordinate("GET", current.path())
    assert shown.json()["contributions"] == [0, 1]
    for index in (0, 2):
        for place in {0, 1, 2} - {index}:
            piece = (f"aggregator-{place}", made[place].pieces[index])
            assert (await relay(current, index, piece)).status_code == 200
    for sender in lone:
        await current.contribute(sender, np.array([[5]]))
    accepted = await current.freeze((0, 1))

    async def after() -> None:
        assert (await relay(current, 1, mine[0])).json() == {"contributions": [0, 1]}
        for late in ([mine[2]], [other], [mine[0], mine[2]], [mine[0], other]):
            answer = await relay(current, 1, *late)
            refused(answer, 410, "round_closed")
            assert answer.json()["included"] is False

    await after()
    manifest, commitments = await current.commit(accepted)
    await current.reveal(manifest, commitments)
    await after()  # its sealed bytes are destroyed: the nonces are known
