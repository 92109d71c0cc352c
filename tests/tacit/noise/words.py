"""Sources of words that a test chooses, or counts."""

from __future__ import annotations

import numpy as np

from tacit.randomness import SeededRandom


class Words:
    """Gives these words in their order; `left` are those that nobody took yet."""

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def words(self, count: int) -> np.ndarray:
        head, self.left = self.left[:count], self.left[count:]
        assert len(head) == count, "more words were drawn than foreseen"
        return np.array(head, dtype=np.uint64)


class Recording:
    """Words of one value, and how many were asked for at a time."""

    def __init__(self, word: int) -> None:
        self.word, self.asked = word, list[int]()

    def words(self, count: int) -> np.ndarray:
        self.asked.append(count)
        return np.full(count, self.word, np.uint64)


class Counting:
    """Seeded words, and how many were asked for."""

    def __init__(self, seed: int) -> None:
        self.inner, self.asked = SeededRandom(seed), 0

    def words(self, count: int) -> np.ndarray:
        self.asked += count
        return self.inner.words(count)
