"""What is refused, and where."""

from __future__ import annotations

from tacit.errors import Invalid, TooLarge


class BadEpsilon(Invalid):
    """Outside its range, or given together with sigma."""

    name = "bad_epsilon"
    title = "Epsilon is not valid"


class BadDelta(Invalid):
    """Outside its range."""

    name = "bad_delta"
    title = "Delta is not valid"


class BadSigma(Invalid):
    """Not above 0, or beyond what the samplers serve."""

    name = "bad_sigma"
    title = "Sigma is not valid"


class BadColumns(Invalid):
    """Too few for k, too many for the vertices, or too many in total."""

    name = "bad_columns"
    title = "The number of columns is not valid"


class BadEigenvectors(Invalid):
    """Outside its range, or more than the columns carry."""

    name = "bad_eigenvectors"
    title = "The number of eigenvectors is not valid"


class GraphTooSmall(Invalid):
    """Fewer than three vertices, or no edge where the vertex set is taken from the edges."""

    name = "graph_too_small"
    title = "The graph is too small"


class GraphTooLarge(TooLarge):
    """More vertices than can be flipped pair by pair, at this epsilon."""

    name = "graph_too_large"
    title = "The graph is too large"

    def __init__(self, asked: int, most: int) -> None:
        super().__init__(
            f"{asked} vertices, at most {most} with the estimator flip; take subspace",
            pointer="/dataset",
            extra={"vertices": asked, "most_vertices": most},
        )
