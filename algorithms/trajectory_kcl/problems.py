"""What is refused. Spec: trajectory-kcl, section 2 (names in small letters, as on the wire)."""

from __future__ import annotations

from tacit.errors import Invalid


class BadK(Invalid):
    name = "bad_k"
    title = "K is a whole number from 1"


class BadC(Invalid):
    name = "bad_c"
    title = "C is a rational between 0 and 1"


class BadL(Invalid):
    name = "bad_l"
    title = 'L is a whole number from 1, or "all"'


class KprimeRequired(Invalid):
    name = "kprime_required"
    title = "The utility mfs needs Kprime, the least support of a frequent sequence"


class MissingSensitive(Invalid):
    name = "missing_sensitive"
    title = "A record lacks an attribute that sensitive_values names"


class BadGrid(Invalid):
    name = "bad_grid"
    title = "The grid does not fit the points"


class TooManySequences(Invalid):
    """Before they are enumerated: their number, or the memory that they would take."""

    name = "too_many_sequences"
    title = "Too many sequences: choose a smaller L, a coarser grid, or split long paths"

    def __init__(self, detail: str) -> None:
        super().__init__(detail, pointer="/params/L")
