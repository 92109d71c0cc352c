"""Draws the plots of one job, in a process of its own: values on standard input, pictures as a zip
on standard output. It imports no service, has no settings, and ends with the process that started
it.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import zipfile
from typing import Final

from algorithms import catalogue
from algorithms.contract import Plot
from algorithms.drawing import drawn
from common.runtime.process import end_with_parent, leave_no_core

MEMORY_BYTES: Final = 2 << 30
NICE: Final = 10


def draw() -> None:
    """Draw what is requested: {"algorithm", "plots": {name: values}}."""
    end_with_parent(int(sys.argv[1]))
    leave_no_core()
    os.setpriority(os.PRIO_PROCESS, 0, NICE)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    request = json.load(sys.stdin)
    algorithm = catalogue.find(request["algorithm"])
    with answer, zipfile.ZipFile(answer, "w") as archive:
        for name, values in request["plots"].items():
            picture = drawn(algorithm, Plot(name, values))
            archive.writestr(f"{name}.svg", picture.svg)
            archive.writestr(f"{name}.png", picture.png)
