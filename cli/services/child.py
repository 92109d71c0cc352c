"""Services as children of a command that started them: they end with it, however that ends, and
their logs do not grow without end.

Those that start together are forked from one process, which has imported what they share once; a
single one is that process itself. `python -m cli.services.child LIFE SERVICE...` reads how each is
started from standard input. LIFE is the end of a pipe that the command holds open and never writes
to. Its end of file is the command's end, of which a command that was killed can tell nobody.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import Any, Final

LOG: Final = "service.log"
LOG_BYTES: Final = 10 * 2**20
LOGS_KEPT: Final = 5
"""`service.log.1` is the newest of those before."""
_LOOK_S: Final = 5.0
GRACE_S: Final = 15.0
"""How long a service may take to end in order."""


def main() -> None:
    """Run the service in this process, or each in a fork of it; prints the forks' ids."""
    life, services = int(sys.argv[1]), sys.argv[2:]
    starts = json.load(sys.stdin)
    gc.disable()  # what is imported stays; each server collects once, when all is made
    for service in set(services):
        import_module(f"{service}.__main__")
    if len(starts) == 1:
        _run(life, starts[0])
        return
    gc.freeze()
    forks = []
    for start in starts:
        fork = os.fork()
        if not fork:
            _run(life, start)
            return
        forks.append(fork)
    print(json.dumps(forks))


def _run(life: int, start: dict[str, Any]) -> None:
    if os.getsid(0) != os.getpid():
        os.setsid()
    log = os.open(start["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    for end, number in ((life, 0), (log, 1), (log, 2)):
        os.dup2(end, number)
    os.closerange(3, max(life, log) + 1)
    os.environ.clear()
    os.environ.update(start["environment"])
    log_file = Path(start["log"])
    threading.Thread(target=_attend, args=(log_file,), name="parent", daemon=True).start()
    import_module(f"{start['service']}.__main__").run()


def _attend(log: Path) -> None:
    """Rotate the log while the command lives, and end with it."""
    while not select.select([0], [], [], _LOOK_S)[0] or os.read(0, 1):
        rotate(log)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_S)
    os.kill(os.getpid(), signal.SIGKILL)


def rotate(log: Path, most_bytes: int = LOG_BYTES) -> None:
    """Begin a new file once this one is large: for everything that writes to standard output and
    error, including the interpreter at its end, which no handler of a logger sees."""
    if os.fstat(2).st_size < most_bytes:
        return
    for number in range(LOGS_KEPT - 1, 0, -1):
        older = Path(f"{log}.{number}")
        if older.exists():
            older.replace(f"{log}.{number + 1}")
    log.replace(f"{log}.1")
    new = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    for descriptor in (1, 2):
        os.dup2(new, descriptor)
    os.close(new)


if __name__ == "__main__":
    main()
