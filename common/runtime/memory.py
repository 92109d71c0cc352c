"""Memory after large work: what glibc keeps for later is returned to the operating system.

Otherwise, after one enrolment of a million curators, a service would keep its peak permanently.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Final

_M_MMAP_THRESHOLD: Final = -3


@cache
def _trim() -> object:
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


def give_back() -> None:
    """Return free memory, where the C library can (glibc); elsewhere nothing happens."""
    trim = _trim()
    if callable(trim):
        trim(0)


def return_large_blocks() -> None:
    """From now on blocks of a megabyte and more go back to the system when they are freed (glibc):
    a peak of large bodies is not held for later ones, for some page faults more."""
    option = getattr(ctypes.CDLL(None), "mallopt", None)
    if callable(option):
        option(_M_MMAP_THRESHOLD, 1 << 20)
