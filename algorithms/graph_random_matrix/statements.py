"""The fixed words of the privacy report. Spec: graph-random-matrix, section 4.2."""

from __future__ import annotations

import math
from typing import Final

from algorithms.graph_random_matrix.facts import Facts
from algorithms.graph_random_matrix.parameters import Mode, Parameters
from algorithms.graph_random_matrix.settings import Settings
from tacit.report.builder import (
    EVALUATED,
    FOR_SUBMITTER,
    NOT_VERIFIED,
    OUTSIDE_BUDGET,
    RUN_TIME_UNSEEN,
)

FLOATING: Final = (
    "floating-point Gaussian noise: the low bits of a float can show what a value was not. No "
    "figure is stated."
)
NOT_PROTECTED: Final = (
    "The unit is one edge. A vertex with all its edges is not protected; k edges are protected as "
    "one is at sigma / k.",
    "Hubs: a vertex with many edges stands out, and about how many it has can be told.",
    "Membership: which vertices there are is published.",
    "What many edges have in common, such as clusters, is what the release shows.",
    FOR_SUBMITTER,
)

TAKEN: Final = (
    "The vertices were taken from the edges: that each of them has an edge is published. Declare "
    "the dataset's universe to protect that."
)
BELOW: Final = (
    "signal_below_noise: the largest singular value is one that noise alone would show. Clusters "
    "and rankings of this release mean nothing."
)
PARTLY: Final = (
    "values_above_noise: {above} of the {used} directions in use stand out from the noise; the "
    "others may be noise, and so may the clusters and ranks that rest on them."
)

UNDECIDED: Final = (
    "The number of vertices decides between two estimators (details, method): with few, pairs are "
    "flipped, which is epsilon at delta 0; what is stated here is of the other, the subspace "
    "iteration."
)

_TWO_ROWS: Final = (
    "The proof changes one entry; an undirected edge is two, in two rows: sqrt 2 times the "
    "sensitivity of one row."
)
_LOOSE: Final = (
    "The theorem is right but loose: it asks for more than ten times the noise of an exact "
    "calibration at epsilon 1 and three million vertices."
)
_EXPERIMENTS: Final = (
    "The experiments do not use it: sigma 0.1, 0.5 and 1 are epsilon 28,775, 1,163 and 300 by the "
    "theorem at 3.1 million vertices and delta 1e-6; 172, 17.9 and 7.8 by zCDP for rows of length "
    "1."
)
_GROWS: Final = (
    "That the noise does not grow with the number of vertices holds for one entry; all of it "
    "together grows like sigma sqrt(n), faster than the largest eigenvalue of sparse graphs."
)
_FIGURES: Final = (
    "The printed utility is out of reach of the published algorithm: squared eigenvalues add up to "
    "twice the number of edges, which bounds what noise of sigma 1 leaves of any vector, whatever "
    "the graph."
)
_HIDDEN: Final = (
    "Keeping the projection secret adds no protection in the worst case: many neighbours of a hub "
    "give its row away."
)
_LNPP: Final = (
    "The baseline LNPP has noise by the data's own eigengap, a local sensitivity: no epsilon holds."
)
_SUBSPACE: Final = "The subspace iteration is not the source's; it stands beside its estimator."


def source_defects(settings: Settings) -> tuple[str, ...]:
    """What the source has wrong, or leaves open."""
    held = (_TWO_ROWS, _LOOSE, _EXPERIMENTS, _GROWS, _FIGURES, _HIDDEN, _LNPP)
    return (_SUBSPACE, *held) if settings.estimator == "subspace" else held


def assumptions(settings: Settings) -> tuple[str, ...]:
    """The assumptions of the figures."""
    return (
        "The coordinator keeps the graph and is trusted with it.",
        "The noise key is secret and fresh, used for this release alone, and has nothing to do "
        "with the seed of the projection."
        if settings.estimator == "range"
        else "The noise key is secret and fresh, and used for this release alone.",
        "m, k and every other parameter were chosen without looking at the graph.",
        "The vertices are public.",
        "Edges are independent of one another as far as an observer knows.",
        RUN_TIME_UNSEEN,
    )


def caveats(params: Parameters, settings: Settings, vertices: int | None) -> tuple[str, ...]:
    """What a reader has to know; vertices: how many, once that is known."""
    held = ["This is one release: other releases from the same graph add up (rho adds)."]
    if settings.privacy is None:
        held += [NOT_VERIFIED, OUTSIDE_BUDGET]
    most = math.floor(1 / params.delta)
    if vertices is None:
        held.append(f"With more than {most} vertices delta is too large: it is above 1 / vertices.")
    elif vertices > most:
        held.append(
            f"delta is above 1 / vertices ({vertices} of them): it would allow to bare some edges "
            "altogether."
        )
    if params.metrics is not None:
        held.append(EVALUATED)
    return tuple(held)


def finding_caveats(mode: Mode, used: int, facts: Facts | None) -> tuple[str, ...]:
    """Caveats that a run's own figures ask for; used: directions that clusters rest on."""
    if facts is None:
        return ()
    held = () if facts.declared else (TAKEN,)
    above = facts.values_above_noise
    if facts.signal_below_noise:
        return (*held, BELOW)
    if mode != "publish" and above < used:
        return (*held, PARTLY.format(above=above, used=used))
    return held
