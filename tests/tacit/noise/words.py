"""A source of words that a test chooses."""

from __future__ import annotations

import numpy as np


class Words:
    """Gives these words in their order; `left` are those that nobody took yet."""

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def words(self, count: int) -> np.ndarray:
        head, self.left = self.left[:count], self.left[count:]
        assert len(head) == count, "more words were drawn than foreseen"
        return np.array(head, dtype=np.uint64)
