"""Every function of a proved round, for lone curators and for hosts' parts; sums are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aggregator.rounds import verifier_shares
from tacit.crypto.sealing import Span
from tests.aggregator.conftest import Alliance
from tests.aggregator.double import Federation
from tests.aggregator.proved import keyed, proved

TWO = {"aggregators": 2}
FUNCTIONS: dict[str, tuple[dict[str, Any], list[list[int]]]] = {
    "negative sum": ({"bounds": ["-10", "3"]}, [[-20], [6], [0]]),
    "variance of two": (
        {"function": "variance", "bounds": ["-5", "5"]},
        [[0, 0, 0], [-1, 41, 2], [5, 25, 1]],
    ),
    "wide variance": (
        {"function": "variance", "bounds": ["-400000", "400000"], "max_readings": 4},
        [[0, 0, 0], [-400000, 400000**2, 1], [10, 50, 2]],
    ),
    "histogram": ({"function": "histogram", "edges": ["0", "5", "10"]}, [[0, 0], [2, 0], [1, 1]]),
    "vector": (
        {
            "function": "vector_sum",
            "dimension": 3,
            "coordinates": "values",
            "l1_bound": "20",
            "bounds": ["-10", "10"],
        },
        [[0, 0, 0], [-10, 10, 0], [20, -20, 0]],
    ),
}
NOISY = {"mechanism": "distributed", "epsilon": "1"}
LAYERS: dict[str, dict[str, Any]] = {
    "exact": {},
    "curator": {**NOISY, "layer": "curator", "collusion": {"curators": 1, "aggregators": 0}},
    "both": {**NOISY, "layer": "both", "collusion": {"curators": 1, "aggregators": 1}},
    "two-layer": {
        "mechanism": "two-layer",
        "epsilon_u": "1",
        "epsilon_s": "1",
        "pr_u": "1",
        "pr_s": "1",
    },
}


FEW = ("negative sum", "vector")


@pytest.mark.parametrize(
    "name", [*FEW, *(pytest.param(n, marks=pytest.mark.slow) for n in FUNCTIONS if n not in FEW)]
)
async def test_every_function(pair: Federation, name: str) -> None:
    """Layer `curator` with noise of 0, whose bounds the offset takes away again."""
    changes, values = FUNCTIONS[name]
    lone = await pair.lone(3)
    host = await pair.host("gateway", 16)
    # the noise of squares this large is beyond the sampler
    for layer in ("exact",) if name == "wide variance" else ("exact", "curator"):
        current = await keyed(pair, proved(**TWO, **{**changes, **LAYERS[layer]}))
        for sender, value in zip(lone, values, strict=True):
            await current.prove(sender, np.array(value))
        hosted = np.array([values[place % 3] for place in range(16)])
        await current.prove_parts(host, hosted)
        total, manifest = await current.proved_release()
        expected = np.array(values).sum(axis=0) + hosted.sum(axis=0)
        assert total.tolist() == expected.tolist()
        assert manifest.count == 19


@pytest.mark.parametrize("layer", ["both", "two-layer"])
async def test_aggregators_add_noise_in_the_field(pair: Federation, layer: str) -> None:
    """A sum of draws of scale 20 is 0 three times in fewer than 1 of 100,000 runs."""
    lone = await pair.lone(2)
    seen = set()
    for _ in range(3):
        current = await keyed(pair, proved(**TWO, **LAYERS[layer]))
        for sender, value in zip(lone, (20, 7), strict=True):
            await current.prove(sender, np.array([value]))
        total, _ = await current.proved_release()
        error = int(total[0]) - 27
        assert abs(error) < 20 * 60, "Laplace draws of scale 20"
        seen.add(error)
    assert seen != {0}


async def test_small_tables_and_blocks_give_the_same(
    alliance: Alliance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers come out of order, in rows of their own, and many passes read them."""
    monkeypatch.setattr(verifier_shares, "TABLE_BYTES", 50)
    monkeypatch.setattr(verifier_shares, "READ_BYTES", 300)
    monkeypatch.setattr(verifier_shares, "AT_ONCE", 2)
    async with alliance(2) as federation:
        lone = await federation.lone(9)
        current = await keyed(federation, proved(**TWO))
        for place in (4, 1, 8, 0, 2, 7, 3, 6, 5):
            await current.prove(lone[place], np.array([place]))
        total, manifest = await current.proved_release()
        assert (total.tolist(), manifest.count) == ([36], 9)


async def test_parts_of_as_many_curators_are_verified_together(
    alliance: Alliance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three runs of equal parts, the first in two reads; a part that lies spoils no other."""
    monkeypatch.setattr(verifier_shares, "AT_ONCE", 2)
    async with alliance(2) as federation:
        sizes = (16, 16, 16, 8, 16, 16)
        hosts = [await federation.host(f"host-{n}", size) for n, size in enumerate(sizes)]
        current = await keyed(federation, proved(**TWO))
        for place, host in enumerate(hosts):
            plain = current.plaintexts(np.array([sizes[place]]), sizes[place])
            if place == 1:
                plain[0][16] ^= 1
            for index, content in enumerate(plain):
                body = current.part(host, index, bytes(content))
                assert (await current.send_batch(host, index, body)).status_code == 201
        total, manifest = await current.proved_release()
        assert (total.tolist(), manifest.count) == ([72], 72)
        assert manifest.parts is not None
        assert [part.first for part in manifest.parts] == [
            host.first for place, host in enumerate(hosts) if place != 1
        ]


@pytest.mark.parametrize("sizes", [(4096, 904), (5000,)])
async def test_a_part_is_as_long_as_the_query_asks(
    pair: Federation, sizes: tuple[int, ...]
) -> None:
    """A host of 5,000: two parts or one, each refused where the other is asked for; half of the
    curators of the last stay away."""
    lengths = {2: None, 1: 8192}
    host = await pair.host("gateway", 5000)
    assert host.first % 8192 == 0
    asked = proved(**TWO, part_length=lengths[len(sizes)])
    current = await keyed(pair, asked)
    for place, size in enumerate(sizes):
        present = np.ones(size, np.bool_)
        present[::2] = place < len(sizes) - 1
        curators = int(present.sum())
        for index, plain in enumerate(current.plaintexts(np.array([curators]), curators)):
            body = current.part(host, index, bytes(plain), present, place)
            assert (await current.send_batch(host, index, body)).status_code == 201
    total, manifest = await current.proved_release()
    assert (total.tolist(), manifest.count) == ([5000 - sizes[-1] // 2], 5000 - sizes[-1] // 2)

    other = await keyed(pair, proved(**TWO, part_length=lengths[3 - len(sizes)]))
    plain = other.plaintexts(np.array([904]), 904)[0]
    present = np.arange(sizes[0]) < 904
    span = Span(host.first // 8192, host.first, sizes[0])
    body = other.part(host, 0, bytes(plain), present, span=span)
    answer = await other.send_batch(host, 0, body)
    refused = "wrong_round" if len(sizes) == 2 else "seal_broken"
    assert answer.status_code == 400, answer.text
    assert answer.json()["type"].endswith(f":{refused}")


@pytest.mark.slow  # numba compiles for three seconds
async def test_many_are_verified_by_compiled_arithmetic(
    alliance: Alliance, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba")
    monkeypatch.setattr(verifier_shares, "MANY", 1)
    async with alliance(2) as federation:
        lone = await federation.lone(3)
        current = await keyed(federation, proved(**TWO))
        for place, sender in enumerate(lone):
            await current.prove(sender, np.array([place]))
        total, manifest = await current.proved_release()
        assert (total.tolist(), manifest.count) == ([3], 3)


async def test_a_part_that_one_aggregator_lacks_is_left_out_whole(pair: Federation) -> None:
    lone = await pair.lone(2)
    host = await pair.host("gateway", 16)
    left = await pair.host("leaver", 16)
    current = await keyed(pair, proved(**TWO))
    for sender in lone:
        await current.prove(sender, np.array([5]))
    for index, plain in enumerate(current.plaintexts(np.array([16]), 16)):
        if index == 0:
            body = current.part(host, index, bytes(plain))
            assert (await current.send_batch(host, index, body)).status_code == 201
    await current.prove_parts(left, np.ones((16, 1), np.int64))
    answer = await pair.peers[1].ask("DELETE", f"/v1/parties/{left.id}")
    assert answer.status_code in (200, 204), answer.text
    total, manifest = await current.proved_release()
    assert (total.tolist(), manifest.count, manifest.parts) == ([10], 2, ())
