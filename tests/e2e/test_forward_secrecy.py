"""What the report of a round says of its keys is what its descriptor says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tacit.wire import format_instant
from tests.coordinator.double import query
from tests.e2e.test_shapes import settle, site

KEYS: tuple[tuple[dict[str, Any], str], ...] = (
    ({}, "keys that open rounds until {until}, destroyed once the last of"),
    ({"seal_key_per_round": True}, "keys of this round alone"),
)


async def test_forward_secrecy_is_by_the_keys_of_the_round(tmp_path: Path) -> None:
    async with site(tmp_path) as it:
        await settle(it)
        for number, (settings, stated) in enumerate(KEYS):
            await it.house.restart(**settings)
            opened = await it.house.open(query(name=f"keys-{number}", min_participants=72))
            assert (await it.house.finish(opened))["state"] == "released"
            until = max(entry.seal.until for entry in opened.descriptor.aggregators)
            caveats = (await it.house.result(opened))["report"]["caveats"]
            (found,) = [line for line in caveats if line.startswith("Pieces are sealed")]
            assert stated.format(until=format_instant(until)) in found
