"""Memory after large work: what glibc keeps for later goes back to the operating system.

A service that lived through one enrolment of a million curators would hold its peak for ever.
"""

from __future__ import annotations

import ctypes
from functools import cache


@cache
def _trim() -> object:
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


def give_back() -> None:
    """Return free memory, where the C library can (glibc); elsewhere nothing happens."""
    trim = _trim()
    if callable(trim):
        trim(0)
