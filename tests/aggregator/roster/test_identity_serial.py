"""What was in use is kept beside the database. Spec: keys, section 5.2."""

from __future__ import annotations

from pathlib import Path

from common.store.serial_file import SerialFile
from tacit.crypto.hybrid_signing import HybridIdentity
from tacit.wire import encode_binary
from tests.aggregator.conftest import Alliance, settings

KEYS = [HybridIdentity(bytes([90 + number]) * 64) for number in range(2)]
NEXT = KEYS[0].public.model_dump(mode="json")
BODY = {
    "secret": encode_binary(KEYS[0].to_bytes()),
    "following": KEYS[1].public.model_dump(mode="json"),
}


async def test_an_aggregator_keeps_the_number_too(alliance: Alliance, tmp_path: Path) -> None:
    async with alliance(1) as federation:
        [peer] = federation.peers
        assert (await peer.ask("PUT", "/v1/identity/next", KEYS[0].public)).status_code == 200
        file = SerialFile(settings(0, tmp_path).data_dir / "identity.serial")
        assert file.read() == 0
        assert (await peer.ask("POST", "/v1/identity/successor", BODY)).status_code == 200
        assert file.read() == 1
