"""Proved rounds over HTTP: sums are exact, whoever lies is left out and named by all."""

from __future__ import annotations

import numpy as np

from tacit.protocol.round import ProofReason
from tests.aggregator.conftest import Alliance
from tests.aggregator.proved import keyed, proved


async def test_lone_curators_and_a_liar(alliance: Alliance) -> None:
    async with alliance(3) as federation:
        lone = await federation.lone(6)
        current = await keyed(federation, proved())
        for value, sender in enumerate(lone[:5]):
            await current.prove(sender, np.array([value]))
        field = np.frombuffer(bytes(8), "<u8")
        del field

        def flip(plain: list[bytearray]) -> None:
            plain[0][16] ^= 1  # the first word of the measurement, shared

        await current.prove(lone[5], np.array([20]), flip)
        accepted, verdicts = await current.verdicts()
        refused = [item.statement.reasons for item in verdicts]
        assert refused == [{ProofReason.PROOF: b"\x20"}] * 3
        total, manifest = await current.opened(accepted, verdicts)
        assert total.tolist() == [0 + 1 + 2 + 3 + 4]
        assert manifest.count == 5
