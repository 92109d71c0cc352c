"""What several algorithms refuse."""

from __future__ import annotations

from tacit.errors import Invalid


class BadUniverse(Invalid):
    """No universe, one of a size that does not fit, or an item twice."""

    name = "bad_universe"
    title = "The universe of items is not valid"


class BadEpsilon(Invalid):
    """Outside its range, or too small for the noise that the data need."""

    name = "bad_epsilon"
    title = "Epsilon is not valid"


class MethodNeedsSound(Invalid):
    """A method that is not the source's, in stance `paper`."""

    name = "method_needs_sound"
    title = "The stance paper has the source's method only"


class ValueUnknown(Invalid):
    """A parameter names a value that no row has: it would change nothing without a word."""

    name = "value_unknown"
    title = "There is no such value"


class NotOverCurators(Invalid):
    """A choice of a job that one keeper can make, and curators cannot."""

    name = "not_over_curators"
    title = "Curators cannot answer this"
