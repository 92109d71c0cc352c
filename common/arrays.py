"""Arrays that grow with what they count."""

from __future__ import annotations

from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

Item = TypeVar("Item", bound=np.generic)

_LEAST: Final = 64


def grown(values: NDArray[Item], size: int) -> NDArray[Item]:
    """The same values with capacity for `size`, new ones zero. At least doubles, so that many
    small steps copy little: the system allocates memory only when it is written."""
    if size <= values.size:
        return values
    longer = np.zeros(max(size, 2 * values.size, _LEAST), values.dtype)
    longer[: values.size] = values
    return longer
