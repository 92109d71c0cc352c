"""The noise audit at an aggregator: who adds no noise is proposed, nobody else, nothing twice.

Draws are seeded. The chance that a compliant curator is proposed for missing noise in one of these
runs is at most the alpha of the looks (0.05, by Azuma's inequality in truth far below), for a far
value at most 10^-3.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sqlalchemy import text

from aggregator.app import create_app
from aggregator.audit import (
    CHUNK,
    FAR_ALPHA,
    RECORD,
    Listener,
    audit_of,
    audited,
    empty,
    joined,
    unexplained,
    with_round,
)
from aggregator.context import Aggregator
from common.runtime.clock import ManualClock
from tacit.accounting.screening import NoiseAudit, rounds_to_tell
from tacit.noise.discrete_laplace import DiscreteLaplace
from tacit.query.fields import Window
from tacit.query.query import Query
from tacit.randomness import SeededRandom
from tests.aggregator.conftest import Running
from tests.aggregator.conftest import settings as aggregator_settings
from tests.aggregator.double import Federation, Round, Sender, manifest_request, query, vector
from tests.aggregator.pieces.test_pieces import problem
from tests.property_examples import examples

SCALE = Fraction(20_000)
"""Of `query()`: bounds 0..5, four readings, resolution 0.001, epsilon 1."""
Values = Callable[[Sender, int], NDArray[np.int64]]


async def commit_round(
    federation: Federation, senders: list[Sender], values: Values, t: int, asked: Query
) -> Round:
    """Round number t, over a window of its own, to its commitment."""
    start = federation.now - timedelta(hours=t + 1)
    window = Window(start=start, end=start + timedelta(hours=1))
    current = await federation.open(asked, window=window)
    for sender in senders:
        await current.contribute(sender, values(sender, t))
    await current.commit(await current.freeze())
    return current


def compliant(seed: int) -> Values:
    """Data that drifts, and noise of the query's scale."""
    source, noise = SeededRandom(seed), DiscreteLaplace(SCALE)

    def values(sender: Sender, t: int) -> NDArray[np.int64]:
        count = len(sender.curators)
        return (noise.draw(source, count) + 40 * t + np.arange(count))[:, None]

    return values


async def look(federation: Federation, alpha: float | None = None) -> dict[str, Any]:
    asked = {} if alpha is None else {"params": {"alpha": alpha}}
    answer = await federation.peers[0].ask("GET", "/v1/audit/noise", **asked)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def proposed(found: dict[str, Any], reason: str) -> list[tuple[str, str, int]]:
    return [
        (item["curator"], item["party"], item["number"])
        for item in found["proposals"]
        if reason in item["reason"]
    ]


async def test_who_adds_no_noise_is_proposed_and_nobody_else(single: Federation) -> None:
    """Two silent curators among 9, one of them hosted: found at the second look, after the number
    of rounds that the first look's answer leads to expect."""
    lone = await single.lone(3)
    host = await single.host("gateway", 6)
    honest = compliant(51)

    def values(sender: Sender, t: int) -> NDArray[np.int64]:
        drawn = honest(sender, t)
        if sender is host:
            drawn[5] = 1234
        return np.full_like(drawn, 77_777) if sender is lone[1] else drawn

    needed = rounds_to_tell(0.05 / (9 * 2 * 3), 0.1)
    for t in range(needed):
        await commit_round(single, [*lone, host], values, t, query())
        if t == 0:
            found = await look(single)
            assert (found["look"]["number"], found["proposals"]) == (1, [])
    found = await look(single)
    assert found["look"]["number"] == 2
    assert found["look"]["alpha_each"] == pytest.approx(0.05 / (9 * 2 * 3))
    (family,) = found["families"]
    assert (family["part"], family["scale"], family["curators"]) == ("sum", "20000", 9)
    assert (family["rounds"], family["rounds_to_tell"]) == (needed, needed)
    assert family["characteristic"] == pytest.approx(0.1, abs=1e-3)
    assert found["proposed"] == {"silent": 2, "far": 0}
    assert proposed(found, "less noise") == [
        (lone[1].id, lone[1].id, lone[1].first),
        ("gateway.5", "gateway", host.first + 5),
    ]
    for item in found["proposals"]:
        figures = item["figures"]
        assert figures["strength"] == pytest.approx(1)
        assert (figures["rounds"], figures["threshold"] < 1) == (needed, True)
    assert "only an operator" in found["cannot"]


async def test_looks_spend_alpha_and_outlive_a_restart(
    tmp_path: Path, clock: ManualClock, running: Running
) -> None:
    """A new round or another alpha is a new look; nothing new is the same look again."""
    own = aggregator_settings(0, tmp_path)
    async with running(create_app(own, clock=clock)) as client:
        federation = await Federation(client, now=clock.now()).pair()
        host = await federation.host("gateway", 8)
        await commit_round(federation, [host], compliant(53), 0, query())
        first = await look(federation)
        assert first["look"]["alpha_each"] == pytest.approx(0.05 / (8 * 1 * 2))
        assert await look(federation) == first
        other = await look(federation, 1e-6)
        assert other["look"]["number"] == 2
        assert other["look"]["alpha_each"] == pytest.approx(1e-6 / (8 * 2 * 3))
        assert other["families"][0]["rounds_to_tell"] > first["families"][0]["rounds_to_tell"]
    async with running(create_app(own, clock=clock)) as client:
        federation.peers[0].client = client
        assert await look(federation, 1e-6) == other
        await commit_round(federation, [host], compliant(54), 1, query())
        third = await look(federation, 1e-6)
        assert third["look"]["number"] == 3
        assert third["look"]["alpha_each"] == pytest.approx(1e-6 / (8 * 3 * 4))
        assert third["families"][0]["rounds"] == 2


@pytest.mark.usefixtures("database_url")
async def test_a_commitment_that_fails_counts_nothing(single: Federation) -> None:
    """The store breaks in the middle of the transaction: neither a commitment nor a count stays,
    and the next attempt counts once. So does a repeated request, and an abort takes nothing off."""
    host = await single.host("gateway", 8)
    current = await single.open(query())
    await current.contribute(host, compliant(55)(host, 0))
    accepted = await current.freeze()
    peer = single.peers[0]
    database = peer.part(Aggregator).database

    async def rename(old: str, new: str) -> None:
        async with database.begin() as transaction:
            await transaction.execute(text(f"ALTER TABLE {old} RENAME TO {new}"))

    await rename("audit_chunk", "elsewhere")
    with pytest.raises(AssertionError, match=r"write_failed"):
        await current.commit(accepted)
    await rename("elsewhere", "audit_chunk")
    shown = (await peer.coordinate("GET", current.path())).json()
    assert shown["state"] == "frozen"
    assert (await look(single))["families"] == []
    manifest, _ = await current.commit(accepted)
    request = manifest_request(manifest, accepted)
    again = await peer.coordinate("POST", current.path("commitment"), request)
    assert again.status_code == 200
    await peer.coordinate("POST", current.path("abort"), {"reason": "test"})
    (family,) = (await look(single))["families"]
    assert (family["rounds"], family["curators"]) == (1, 8)


async def test_only_the_operator_looks(single: Federation) -> None:
    (sender,) = await single.lone(1)
    peer = single.peers[0]
    for token in (sender.tokens[0], peer.coordinator_token):
        answer = await peer.ask("GET", "/v1/audit/noise", token=token)
        assert (answer.status_code, problem(answer)) == (403, "scope_missing")
    assert (await peer.client.get("/v1/audit/noise")).status_code == 401
    for alpha in ("0", "1", "-0.1", "nan", "inf", "x"):
        answer = await peer.ask("GET", "/v1/audit/noise", params={"alpha": alpha})
        assert answer.status_code == 422, alpha
    assert (await look(single))["look"]["number"] == 1  # nothing of that was a look


async def test_numbers_across_chunks_and_nothing_but_sums_is_stored(single: Federation) -> None:
    ids = [f"gateway.{index}" for index in range(128)]
    host = await single.enrol(single.sender("gateway", ids, first=CHUNK - 64))
    late = await single.host("late", 3)
    asked = query(function="mean")
    assert [item.part for item in audited(asked)] == ["sum", "count"]
    for t in range(2):
        senders = [host] if t else [host, late]
        await commit_round(
            single, senders, lambda sender, _: np.ones((len(sender.curators), 2), int), t, asked
        )
    found = await look(single)
    assert [(item["part"], item["curators"]) for item in found["families"]] == [
        ("sum", 131),
        ("count", 131),
    ]
    assert found["tests"] == 262
    database = single.peers[0].part(Aggregator).database
    async with database.reading() as transaction:
        rows = await transaction.execute(text("SELECT chunk, records FROM audit_chunk"))
        held = [(chunk, np.frombuffer(body, RECORD)) for chunk, body in rows]
    assert sorted(chunk for chunk, _ in held) == [0, 0, 1, 1]
    for chunk, records in held:
        seen = np.flatnonzero(records["rounds"])
        expected = range(CHUNK - 64, CHUNK) if chunk == 0 else range(67)
        assert seen.tolist() == list(expected)
        assert set(records["rounds"][seen[:64]].tolist()) == {2}
        assert records.size == CHUNK


async def test_only_who_is_summed_is_counted(single: Federation) -> None:
    """Some hosted curators send nothing, a lone one leaves before the freeze; each sum is added to
    its own number: value i gives the angle of i."""
    lone = await single.lone(2)
    host = await single.host("gateway", 100)
    current = await single.open(query())
    values = np.arange(100)[:, None]
    present = np.arange(100) % 3 == 1
    (words,) = current.split(values)
    for body in current.batches(host, 0, words, present):
        assert (await current.send_batch(host, 0, body)).status_code == 201
    for sender in lone:
        await current.contribute(sender, np.array([[sender.first]]))
    assert (await single.peers[0].ask("DELETE", f"/v1/parties/{lone[1].id}")).is_success
    _, manifest = await current.release()
    assert manifest.count == 34
    database = single.peers[0].part(Aggregator).database
    async with database.reading() as transaction:
        body = (await transaction.execute(text("SELECT records FROM audit_chunk"))).scalar_one()
    records = np.frombuffer(body, RECORD)
    seen = np.flatnonzero(records["rounds"])
    assert seen.tolist() == [lone[0].first, *(host.first + np.flatnonzero(present))]
    angle = np.append(lone[0].first, np.flatnonzero(present)) * 2 * np.pi
    angle /= int(NoiseAudit.of_scales([SCALE]).period[0])
    assert np.allclose(records["cosines"][seen], np.cos(angle), rtol=0, atol=1e-12)
    assert np.allclose(records["sines"][seen], np.sin(angle), rtol=0, atol=1e-12)


# --- pure steps ----------------------------------------------------------------------------------


def test_the_first_coordinate_of_each_part_is_audited() -> None:
    local: dict[str, Any] = {
        "aggregators": 1,
        "mechanism": "local",
        "sharing": "none",
        "epsilon_i": "1",
    }
    (one,) = audited(query(**local))
    assert (one.place, one.part, one.scale) == (0, "sum", SCALE)
    (first,) = audited(vector(24, **local))
    assert (first.place, first.scale) == (0, 4 * SCALE)  # l1_bound 20, four readings
    variance = audited(query(function="variance", resolution="0.05", **local))
    assert [(item.place, item.part) for item in variance] == [
        (0, "sum"),
        (1, "squares"),
        (2, "count"),
    ]
    assert variance[2].scale == 12  # four readings, a third of epsilon
    blocks = [
        {"name": f"b{i}", "dimension": 3, "l1_bound": "1", "resolution": "0.001"} for i in range(6)
    ]
    many = query(function="vector_sum", coordinates="values", blocks=blocks, **local)
    assert [item.place for item in audited(many)] == [0, 3, 6, 9]
    assert audited(query(stance="paper", **local)) == ()
    assert audited(query(aggregators=2)) == ()


def test_a_listener_keeps_the_audited_values_in_order_and_copies_them() -> None:
    items = audited(query(function="mean"))
    listener = Listener(items)
    block = np.array([[5, 1], [2**64 - 3, 2]], np.uint64)
    listener(np.array([9, 4]), block)
    block[:] = 0
    listener(np.array([1]), np.array([[8, 3]], np.uint64))
    noisy = listener.heard()
    assert noisy.numbers.tolist() == [1, 4, 9]
    assert noisy.values.tolist() == [[8, 3], [-3, 2], [5, 1]]
    assert Listener(()).heard().numbers.size == 0


@examples(40)
@given(
    st.lists(
        st.dictionaries(st.integers(0, 60), st.integers(-(2**61), 2**61), min_size=1, max_size=8),
        min_size=1,
        max_size=6,
    ),
    st.fractions(Fraction(1, 10), 10**6),
)
def test_records_add_up_to_the_audit(rounds: list[dict[int, int]], scale: Fraction) -> None:
    """Packed and added round by round, the sums are those that the mathematics takes."""
    records = empty()
    expected = NoiseAudit.of_scales([scale] * CHUNK)
    for values in rounds:
        places = np.array(sorted(values))
        noisy = np.array([values[place] for place in sorted(values)], np.int64)
        records = with_round(records, scale, places, noisy, np.zeros(noisy.size))
        records = np.frombuffer(records.tobytes(), RECORD)
        wide, seen = np.zeros(CHUNK, np.int64), np.zeros(CHUNK, np.bool_)
        wide[places], seen[places] = noisy, True
        expected = expected.plus(wide, seen)
    found = audit_of(records, scale)
    assert np.array_equal(found.rounds, expected.rounds)
    assert np.array_equal(found.strength, expected.strength)
    assert np.array_equal(found.phi, expected.phi)


def test_screenings_share_one_alpha() -> None:
    """What the tenth screening asks for is what alpha / 110 asks for."""
    values = np.arange(-50, 51)  # with one value above them: median 0.5, its deviation 25.5
    distance = 0.5 + 6 * 1.4826 * 25.5 + 10 * math.log(2 * 102 * 110 / FAR_ALPHA)
    for beyond, far in ((-2, False), (2, True)):
        found = unexplained(np.append(values, int(distance + beyond)), Fraction(10), 10)
        assert bool(found[-1] > 0) is far
        assert not found[:-1].any()
    with pytest.raises(ValueError):
        unexplained(values, Fraction(10), 0)


def test_alpha_is_divided_by_all_rows_of_all_families() -> None:
    one, other = NoiseAudit.of_scales([SCALE] * 3), NoiseAudit.of_scales([Fraction(8)] * 2)
    assert joined([one, other]).verdict(0.05, 1).alpha_each == 0.05 / (5 * 2)
    assert joined([]).verdict(0.05, 1).flagged.size == 0
