"""A service as the child of a command that started it: it ends with the command, however that ends,
and its log does not grow without end.

Standard input is a pipe that the command holds open and never writes to. Its end of file is the
command's end, of which a command that was killed can tell nobody: `python -m cli.services.child
SERVICE`. Standard output and error are the file `service.log` of the data directory.
"""

from __future__ import annotations

import os
import runpy
import select
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Final

LOG: Final = "service.log"
LOG_BYTES: Final = 10 * 2**20
LOGS_KEPT: Final = 5
"""`service.log.1` is the newest of those before."""
GRACE_S: Final = 15.0
"""How long a service may take to end in order."""
_LOOK_S: Final = 5.0


def main() -> None:
    """Run the service in this process."""
    log = Path(os.environ["TACIT_DATA_DIR"], LOG)
    threading.Thread(target=_attend, args=(log,), name="parent", daemon=True).start()
    service = sys.argv.pop(1)
    runpy.run_module(service, run_name="__main__", alter_sys=True)


def _attend(log: Path) -> None:
    """Rotate the log while the command lives, and end with it."""
    while not select.select([0], [], [], _LOOK_S)[0] or os.read(0, 1):
        rotate(log)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_S)
    os.kill(os.getpid(), signal.SIGKILL)


def rotate(log: Path, most_bytes: int = LOG_BYTES) -> None:
    """Begin a new file once this one is large: for all that writes to standard output and error,
    what the interpreter says at its end too, which no handler of a logger has."""
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
