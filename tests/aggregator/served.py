"""An aggregator process to kill: `python -m tests.aggregator.served VARIANT HOLD_MS`.

`sound` is ours, its commits held back for HOLD_MS; `broken` is a double that acknowledges what is
still waiting for its commit. A crash test is worth something if it catches the second. `dies-STEP`
is ours, and kills itself (-9) where a step of a seal key's life or of an identity's end begins.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import uvloop

from aggregator.app import create_app
from aggregator.pieces.intake import Intake, Item, Outcome, PiecesItem
from aggregator.pieces.unsealing import BatchItem
from aggregator.rounds import key_rotation
from aggregator.seal_keys import KeyDirectory, SealKeyring
from aggregator.settings import AggregatorSettings
from aggregator.store import seal_keys as seal_key_store
from common.runtime.logs import configure_logging
from common.store.erasure import Erasure
from common.store.transactions import Transaction
from common.web.server import make_server


class HeldIntake(Intake):
    """Ours, with every commit held for a while."""

    hold_s = 0.0

    async def apply(
        self, transaction: Transaction, items: Sequence[Item]
    ) -> Sequence[Any | Exception]:
        answers = await super().apply(transaction, items)
        await asyncio.sleep(self.hold_s)
        return answers


class BrokenIntake(HeldIntake):
    """Answers before the commit: what must never happen."""

    _pending: set[asyncio.Task[Any]]

    async def submit(self, item: Item) -> Any:
        if not isinstance(item, PiecesItem | BatchItem):
            return await super().submit(item)
        self._pending = getattr(self, "_pending", set())
        task = asyncio.create_task(super().submit(item))
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)
        if isinstance(item, BatchItem):
            return Outcome.STORED
        return [Outcome.STORED] * len(item.pieces)


def _die(*_: Any, **__: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def _dies_for_a_file(method: Callable[..., None]) -> Callable[..., None]:
    """Where a wrapping key is destroyed that is there; not where none was made yet."""

    def destroy(directory: KeyDirectory, number: int) -> None:
        if directory.read(number) is not None:
            _die()
        method(directory, number)

    return destroy


def _dies_at_unlink(path: Path, missing_ok: bool = False) -> None:
    if path.suffix == ".kek":
        _die()
    if path.exists() or not missing_ok:
        os.unlink(path)


def _dies_after(method: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    async def destroy(keyring: SealKeyring, number: int) -> None:
        await method(keyring, number)
        _die()

    return destroy


_STEPS: dict[str, Callable[[], None]] = {
    "file-made": lambda: setattr(seal_key_store, "add", _die),
    "row-made": lambda: setattr(KeyDirectory, "published", _die),
    "overwriting": lambda: setattr(KeyDirectory, "destroy", _dies_for_a_file(KeyDirectory.destroy)),
    "removing": lambda: setattr(Path, "unlink", _dies_at_unlink),
    "removed": lambda: setattr(seal_key_store, "delete_sessions", _die),
    "sessions-deleted": lambda: setattr(seal_key_store, "destroy", _die),
    "row-emptied": lambda: setattr(SealKeyring, "destroy", _dies_after(SealKeyring.destroy)),
    "identity-replacing": lambda: setattr(key_rotation, "replace", _die),
    "identity-replaced": lambda: setattr(key_rotation, "sweep_identities", _die),
    "identity-aborting": lambda: setattr(key_rotation, "_aborted", _die),
    "identity-aborted": lambda: setattr(key_rotation, "destroy_keys", _die),
    "identity-destroying": lambda: setattr(key_rotation, "destroy_identity", _die),
    "identity-destroyed": lambda: setattr(Erasure, "erase", _die),
}


def main() -> None:
    """Serve on a free port of the loopback address, and print it."""
    variant, hold_ms = sys.argv[1], float(sys.argv[2])
    if variant.startswith("dies-"):
        _STEPS[variant.removeprefix("dies-")]()
        variant = "sound"
    kind = {"sound": HeldIntake, "broken": BrokenIntake}[variant]
    kind.hold_s = hold_ms / 1000
    settings = AggregatorSettings()
    configure_logging(settings.log_level)
    server = make_server(create_app(settings, intake_type=kind), settings)

    async def run() -> None:
        serving = asyncio.create_task(server.serve())
        while not server.started:
            if serving.done():
                break
            await asyncio.sleep(0.01)
        print(server.address[1], flush=True)
        await serving

    uvloop.run(run())


if __name__ == "__main__":
    main()
