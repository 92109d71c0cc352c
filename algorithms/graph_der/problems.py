"""What is refused, and where."""

from __future__ import annotations

from tacit.errors import Invalid, TooLarge


class BadEpsilon(Invalid):
    """Outside its range, or too small for the noise of this many levels."""

    name = "bad_epsilon"
    title = "Epsilon is not valid"


class BadGroup(Invalid):
    """`k` outside its range, or more edges than the graph can have."""

    name = "bad_k"
    title = "The number of edges that are protected together is not valid"


class BadShares(Invalid):
    """Not three positive shares that sum to 1."""

    name = "bad_shares"
    title = "The shares of the budget are not valid"


class BadStep(Invalid):
    """Outside 1 to half the number of vertices."""

    name = "bad_step"
    title = "The grid step is not valid"


class BadDensity(Invalid):
    """Outside its range."""

    name = "bad_density_stop"
    title = "The density at which a region is not split is not valid"


class BadCells(Invalid):
    """A number of cells, or a guess at the edges, outside its range."""

    name = "bad_cells"
    title = "The number of cells is not valid"


class BadLabelling(Invalid):
    """The order of a vertex set that was not given."""

    name = "bad_labelling"
    title = "The labelling is not valid"


class LabellingDependsOnEdges(Invalid):
    """A labelling that gives edges away, outside any budget."""

    name = "labelling_depends_on_edges"
    title = "The labelling depends on the edges"


class BadVertices(Invalid):
    """Fewer than two vertices, or no edge to take them from."""

    name = "bad_universe"
    title = "The vertex set is not valid"


class GraphTooLarge(TooLarge):
    """More vertices than a dense matrix is kept of, or a grid that is too fine."""

    name = "too_large"
    title = "The graph is too large"
