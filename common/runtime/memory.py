"""Memory after large work: what glibc keeps for later is returned to the operating system.

Otherwise, after one enrolment of a million curators, a service would keep its peak permanently.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Final

_M_ARENA_MAX: Final = -8
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3


@cache
def _trim() -> object:
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


def give_back() -> None:
    """Return free memory, where the C library can (glibc); elsewhere nothing happens."""
    trim = _trim()
    if callable(trim):
        trim(0)


def return_large_blocks(kept_bytes: int) -> None:
    """From now on blocks above 2.5 megabytes go back to the system when they are freed (glibc): a
    peak of large bodies is not held for later ones. Blocks of a segment, two megabytes, are used
    again, as fresh pages cost several times what is written on them: `kept_bytes` at most stay free
    at the end of each of two heaps."""
    option = getattr(ctypes.CDLL(None), "mallopt", None)
    if callable(option):
        option(_M_MMAP_THRESHOLD, 5 << 19)
        option(_M_TRIM_THRESHOLD, kept_bytes)
        option(_M_ARENA_MAX, 2)
