"""The memory of a job: what is refused, and what is said of it. In a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

ALLOWED = 64 << 20
TRY = """
import numpy, sys
from coordinator.jobs.workers import execution

kept = []

def small():
    kept.append(numpy.ones(1 << 20))

def large():
    kept.append(numpy.ones(1 << 28))

def own_words():
    while True:
        try:
            kept.append(numpy.ones(1 << 20))
        except MemoryError:
            raise RuntimeError("can't start new thread") from None

def another_matter():
    raise RuntimeError("can't start new thread")

def cancelled():
    try:
        own_words()
    except RuntimeError:
        raise execution.Cancelled from None

for job in (small, large, own_words, another_matter, cancelled):
    try:
        with execution.memory_limit({allowed}):
            job()
        said = "done"
    except Exception as error:
        said = type(error).__name__
    kept.clear()
    print(job.__name__, said)
    numpy.ones(1 << 26)  # the limit is gone
"""
SAID = """small done
large MemoryExceeded
own_words MemoryExceeded
another_matter RuntimeError
cancelled Cancelled
"""


@pytest.mark.slow
def test_a_job_out_of_memory_says_so_whatever_words_its_library_has() -> None:
    code = TRY.format(allowed=ALLOWED)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == (SAID, 0), done.stderr
