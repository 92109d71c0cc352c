"""A coordinator process that kills itself at one step of the replacement of its identity."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from common.store.erasure import Erasure
from coordinator.__main__ import run
from coordinator.budget.ledger import Ledger
from coordinator.registry import own_identity
from coordinator.registry.aggregators import Identities


def dies(*_: Any, **__: Any) -> Any:
    """kill -9, by itself."""
    os.kill(os.getpid(), signal.SIGKILL)


def after(work: Callable[..., Any]) -> Callable[..., Any]:
    """Done, and then it dies."""

    async def run_it(*given: Any, **more: Any) -> Any:
        await work(*given, **more)
        return dies()

    return run_it


def break_at(step: str) -> None:
    """`replacing`: in the transaction; `replaced`: after it; then the same of the destruction of
    the old key, of the log, of the ledger's checkpoint, and before aggregators are told."""
    places: dict[str, tuple[Any, str, bool]] = {
        "replacing": (own_identity, "replace", True),
        "replaced": (own_identity, "sweep", False),
        "destroying": (own_identity, "destroy_identity", True),
        "destroyed": (Erasure, "erase", False),
        "erased": (Erasure, "erase", True),
        "signing": (Ledger, "checkpoint", False),
        "telling": (Identities, "tell", False),
    }
    holder, name, done = places[step]
    found = getattr(holder, name)
    # all of these also run at the start, where there is nothing to do yet
    setattr(holder, name, armed(found, after(found) if done else dies))


def armed(sound: Callable[..., Any], deadly: Callable[..., Any]) -> Callable[..., Any]:
    """Sound until the file `armed` is in the data directory."""

    async def choose(*given: Any, **more: Any) -> Any:
        if os.path.exists(os.path.join(os.environ["TACIT_DATA_DIR"], "armed")):
            return await deadly(*given, **more)
        return await sound(*given, **more)

    return choose


if __name__ == "__main__":
    break_at(sys.argv[1])
    run()
