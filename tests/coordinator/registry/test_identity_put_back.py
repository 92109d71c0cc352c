"""A store of before a replacement is no store to start from. Spec: keys, section 5.2."""

from __future__ import annotations

import pytest

from common.store.serial_file import SerialFile
from common.web.app import StartFailed
from tacit.crypto.hybrid_signing import HybridIdentity
from tacit.wire import encode_binary
from tests.coordinator.conftest import Houses

KEYS = [HybridIdentity(bytes([90 + number]) * 64) for number in range(2)]
NEXT = KEYS[0].public.model_dump(mode="json")
BODY = {
    "secret": encode_binary(KEYS[0].to_bytes()),
    "following": KEYS[1].public.model_dump(mode="json"),
}


async def test_a_store_of_before_a_replacement_does_not_start(house: Houses) -> None:
    """The coordinator's database, put back under a directory that knows better."""
    async with house(0) as it:
        assert (await it.ask("PUT", "/v1/identity/next", NEXT)).status_code == 200
        await it.stop()
        folder = it.settings.data_dir
        before = {path.name: path.read_bytes() for path in folder.glob("*.db*")}
        await it.start()
        answer = await it.ask("POST", "/v1/identity/successor", BODY)
        assert answer.status_code == 200, answer.text
        await it.restart()  # the newer one starts
        await it.stop()
        newer = {path.name: path.read_bytes() for path in folder.glob("*.db*")}
        for path in folder.glob("*.db*"):
            path.unlink()
        for name, content in before.items():
            (folder / name).write_bytes(content)
        with pytest.raises(StartFailed, match="identity_superseded"):
            await it.start()
        for name, content in newer.items():
            (folder / name).write_bytes(content)
        await it.start()
        assert SerialFile(folder / "identity.serial").read() == 1
