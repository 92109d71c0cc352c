"""A service as the child of a command that started it: it ends with the command, however that ends.

Standard input is a pipe that the command holds open and never writes to. Its end of file is the
command's end, of which a command that was killed can tell nobody: `python -m cli.services.child
SERVICE`.
"""

from __future__ import annotations

import gc
import os
import runpy
import signal
import sys
import threading
import time
from typing import Final

GRACE_S: Final = 15.0
"""How long a service may take to end in order."""


def main() -> None:
    """Run the service in this process."""
    threading.Thread(target=_end_with_the_command, name="parent", daemon=True).start()
    service = sys.argv.pop(1)
    gc.disable()  # what is imported stays; the server collects once, when all is made
    runpy.run_module(service, run_name="__main__", alter_sys=True)


def _end_with_the_command() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_S)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
