"""Columns over roster numbers grow with the roster."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Kind = TypeVar("Kind", bound=np.generic)


def widened(array: NDArray[Kind], size: int, axis: int = 0) -> NDArray[Kind]:
    """The array with zeros up to `size` along an axis. What is never written takes no memory: the
    system gives out pages of zeros at the first write only."""
    shape = list(array.shape)
    shape[axis] = size
    wide = np.zeros(shape, array.dtype)
    wide[tuple(slice(0, length) for length in array.shape)] = array
    return wide
