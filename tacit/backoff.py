"""How long to pause before the next attempt."""

import random
from typing import Final

BASE_DELAY_S: Final = 0.1
MAX_DELAY_S: Final = 10.0

_jitter = random.SystemRandom()


def backoff(attempt: int) -> float:
    """A random pause whose bound doubles with each attempt, so that clients do not retry in
    step."""
    return _jitter.uniform(0.5, 1.0) * min(MAX_DELAY_S, BASE_DELAY_S * 2.0**attempt)
