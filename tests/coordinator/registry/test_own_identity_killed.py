"""kill -9 at each step of the replacement of the coordinator's identity, and then on.

Spec: keys, sections 5.2 and 9, check 10.
"""

from __future__ import annotations

import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from tacit.crypto.signing import HybridIdentity, fingerprint
from tacit.protocol.identities import IdentityChain
from tacit.wire import encode_binary
from tests.coordinator.jobs.test_surviving import Process

KEYS = [HybridIdentity(bytes([70 + number]) * 64) for number in range(2)]
STEPS = ("replacing", "replaced", "destroying", "destroyed", "erased", "signing", "telling")


class Dying(Process):
    """It kills itself at a step, once it is armed."""

    def died(self) -> None:
        assert self._process.wait(40) == -signal.SIGKILL


def public(number: int) -> dict[str, Any]:
    return KEYS[number].public.model_dump(mode="json")


def files_with(directory: Path, secret: bytes) -> list[str]:
    return [
        path.name for path in directory.rglob("*") if path.is_file() and secret in path.read_bytes()
    ]


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_a_replacement_that_is_killed_is_finished_by_the_same_command(
    tmp_path: Path, step: str
) -> None:
    it, arms = Dying(tmp_path), tmp_path / "armed"
    it.start(f"{__package__}.dying", step)
    try:
        assert it.ask("PUT", "/v1/identity/next", public(0)).status_code == 200
        with closing(sqlite3.connect(tmp_path / "coordinator.db")) as database:
            [secret] = database.execute("SELECT secret FROM identity").fetchone()
        assert files_with(tmp_path, secret)  # the control
        body = {"secret": encode_binary(KEYS[0].to_bytes()), "following": public(1)}
        arms.touch()
        with pytest.raises(httpx.TransportError):
            it.ask("POST", "/v1/identity/successor", body)
        it.died()
        arms.unlink()
        it.start()
        answer = it.ask("POST", "/v1/identity/successor", body)
        assert answer.status_code == 200, answer.text
        assert answer.json()["serial"] == 1
        chain = it.http.get("/.well-known/tacit-coordinator/identity").content
        found = IdentityChain.model_validate_json(chain)
        assert [each.statement.serial for each in found.documents] == [0, 1]
        assert len(found.links) == 1
        shown = it.http.get("/.well-known/tacit-coordinator").json()
        assert shown["fingerprint"] == fingerprint(KEYS[0].public.ed25519).hex()
        assert it.ask("GET", "/v1/budget/verification").json()["verified"]
        for part in (secret, secret[:32]):
            assert files_with(tmp_path, part) == []
    finally:
        it.stop()
        it.http.close()
