"""Services as children of a command that started them: they end with it, however that ends.

Those that start together are forked from one process, which has imported what they share once; a
single one is that process itself. `python -m cli.services.child LIFE SERVICE...` reads how each is
started from standard input. LIFE is the end of a pipe that the command holds open and never writes
to. Its end of file is the command's end, of which a command that was killed can tell nobody.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import threading
import time
from importlib import import_module
from typing import Any, Final

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
    threading.Thread(target=_end_with_the_command, name="parent", daemon=True).start()
    import_module(f"{start['service']}.__main__").run()


def _end_with_the_command() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_S)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
