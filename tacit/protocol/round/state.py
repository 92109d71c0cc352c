"""The states of a round."""

from enum import StrEnum


class RoundState(StrEnum):
    """`verified`: of proved rounds only (spec: validity, section 10)."""

    OPEN = "open"
    FROZEN = "frozen"
    VERIFIED = "verified"
    COMMITTED = "committed"
    RELEASED = "released"
    ABORTED = "aborted"
