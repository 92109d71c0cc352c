"""The privacy report of a run: claimed and verified guarantees, for both stances.

What is public after a run, the fixed sentences, and the report of flipped pairs: pure epsilon for
an edge, delta 0. Spec: graph-random-matrix, sections 4.2 and 9.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from algorithms.contract import Stance
from algorithms.graph_random_matrix.flipping import (
    Choice,
    Flip,
    chosen_estimator,
    flip_of,
    resolved,
)
from algorithms.graph_random_matrix.parameters import (
    EDGE,
    Mode,
    Parameters,
    Settings,
    best_squared_cosine,
    settings_of,
    squared_cosine_of_flips,
)
from algorithms.graph_random_matrix.publication import Release
from algorithms.path_publishing.levelled_graph import WORD
from tacit.noise.gaussian_privacy import (
    distinguishing_advantage,
    gaussian_epsilon,
    projection_theorem_epsilon,
    zcdp_epsilon,
)
from tacit.report.builder import (
    EVALUATED,
    FOR_SUBMITTER,
    NO_FIGURE,
    NOISE_SOURCE,
    NOT_VERIFIED,
    ONE_RELEASE,
    OUTSIDE_BUDGET,
    RECIPIENT,
    RUN_TIME_UNSEEN,
    ReportBuilder,
)
from tacit.report.figures import amount, delta_amount, epsilon_amount
from tacit.report.model import (
    Claim,
    NoiseStatement,
    PrivacyReport,
    SensitivityStatement,
    VerifiedStatement,
)
from tacit.wire import format_exact

NAME: Final = "graph-random-matrix"
PLACES: Final = (1, 2, 4, 8, 16)
"""Eigenvectors, from 1, that a forecast mentions."""


@dataclass(frozen=True)
class Facts:
    """What is public after a run. release: None unless a matrix was published."""

    vertices: int
    declared: bool
    release: Release | None
    signal_below_noise: bool = False
    values_above_noise: int = 0


# Spec: graph-random-matrix, section 4.2.

FLOATING: Final = (
    "floating-point Gaussian noise: the low bits of a float can show what a value was not. No "
    "figure is stated."
)
NOT_PROTECTED: Final = (
    "The unit is one edge. A vertex with all its edges is not protected; k edges are protected as "
    "one is at sigma / k.",
    "Hubs: a vertex with many edges stands out, and its number of edges can be estimated.",
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
_SUBSPACE: Final = "The subspace iteration is not the source's; it stands next to its estimator."


def source_defects(settings: Settings) -> tuple[str, ...]:
    """Errors of the source, and what it leaves open."""
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
    """Caveats that follow from a run's own figures; used: directions that clusters rest on."""
    if facts is None:
        return ()
    held = () if facts.declared else (TAKEN,)
    above = facts.values_above_noise
    if facts.signal_below_noise:
        return (*held, BELOW)
    if mode != "publish" and above < used:
        return (*held, PARTLY.format(above=above, used=used))
    return held


# Spec: graph-random-matrix, sections 3.7 and 9. Made of public values only.

PUBLICATION: Final = (
    "flipping the edges of block models: Hehir, Slavkovic and Niu, 2022; of general graphs: "
    "arXiv 2309.06867. The amplification by shuffling of arXiv 2510.07136 is not used, since "
    "outputs name vertices"
)


def flip_report(params: Parameters, choice: Choice, facts: Facts | None) -> PrivacyReport:
    """Of a run, planned or done. Raises BadEpsilon."""
    law = flip_of(params)
    builder = ReportBuilder(NAME, "algorithms.path_publishing.levelled_graph", "sound", "edge")
    epsilon = Fraction(1) if params.epsilon is None else params.epsilon
    edge = "knows every other edge; one undirected edge more or less"
    held = () if facts is None else finding_caveats(params.mode, params.k, facts)
    return builder.report(
        "every pair of vertices flipped with one probability",
        {"mode": params.mode, "estimator": "flip", "k": params.k},
        method="the likelihood ratio of one coin, (1 - p) / p, is at most e^epsilon: p is rounded "
        "up to a multiple of 2^-64; all other coins are the same in neighbours",
        sensitivity=(
            SensitivityStatement(value="1", source="declared", part="pairs that an edge changes"),
        ),
        verified=(
            builder.laplace_line(
                "a",
                edge,
                epsilon,
                f"p = {law.threshold} / 2^64, and ln((1 - p) / p), rounded up, is "
                f"{epsilon_amount(law.epsilon)}",
                conditions=("the same vertices with and without the edge",),
            ),
        ),
        charged=builder.charge(epsilon),
        noise=(
            builder.noise("every pair of vertices", None, "flip").model_copy(
                update={"distribution": "coin", "probability": amount(law.probability)}
            ),
        ),
        public_parameters=(
            "the vertices and their order, and so their number",
            "every parameter",
        ),
        post_processing=(
            "the unbiased estimate of the adjacency matrix, its eigenvalues and vectors",
            "clusters by k-means on the vectors' rows, principal component centrality, ranking",
        ),
        not_protected=NOT_PROTECTED,
        voided_by=(
            "a seed given for the job: the coins can be repeated",
            "k or other parameters tuned on the true spectrum",
            "a pair flipped twice on its own: two releases, twice epsilon",
            "the evaluation published",
        ),
        assumptions=(
            "The coordinator keeps the graph and is trusted with it.",
            NOISE_SOURCE,
            "Parameters were chosen without looking at the graph.",
            "The vertices are public.",
            RUN_TIME_UNSEEN,
        ),
        caveats=(ONE_RELEASE, *held, *((EVALUATED,) if params.metrics is not None else ())),
        evaluation_attached=params.metrics is not None,
        error=_flip_error(params, law, facts),
        details=_flip_details(law, choice, facts),
    )


def _flip_error(params: Parameters, law: Flip, facts: Facts | None) -> dict[str, Any]:
    """The forecast, sharp for each eigenvalue: 1 - n v / lambda^2."""
    result: dict[str, Any] = {
        "basis": "squared cosine between an eigenvector and its estimate is 1 - n v / lambda^2, n "
        "the vertices: lost below sqrt(n v); at most that of lambda_i^2 = degree n / i, for any "
        "graph with the guessed mean degree",
        "mean_degree": amount(params.mean_degree),
        "entry_variance": law.variance,
        "noise_deviation": math.sqrt(law.variance),
    }
    if facts is None:
        return result
    n, degree = facts.vertices, float(params.mean_degree)
    best = {
        str(place): round(
            squared_cosine_of_flips(math.sqrt(degree * n / place), n * law.variance), 4
        )
        for place in PLACES
        if place <= params.k
    }
    return result | {"best_squared_cosine": best, "signal_below_noise": facts.signal_below_noise}


def _flip_details(law: Flip, choice: Choice, facts: Facts | None) -> dict[str, Any]:
    details: dict[str, Any] = {
        "method": choice.described,
        "not_of_the_source": True,
        "publication": PUBLICATION,
        "several_edges": "k edges together: k times epsilon",
        "evaluation_is_private": True,
        "flip": {
            "probability": f"{law.threshold}/{WORD}",
            "epsilon": epsilon_amount(law.epsilon),
        },
    }
    if facts is not None:
        details["vertices"] = facts.vertices
        details["vertices_declared"] = facts.declared
        details["flip"] |= {
            "bulk_edge": 2 * math.sqrt(facts.vertices * law.variance),
            "values_above_noise": facts.values_above_noise,
        }
    return details


# Spec: graph-random-matrix, sections 4 and 9; jobs, "Privacy report". Made of public values: the
# parameters, and after a run the number of vertices and the seed of the projection.

THEOREM: Final = "the source's Theorem 11.1, rebuilt"
GROUPS: Final = (2, 10, 100)


def spectrum_report(
    params: Parameters, stance: Stance, facts: Facts | None = None
) -> PrivacyReport:
    """The report of a run, planned or done. Raises what `settings_of` and `chosen_estimator` raise.

    Where the number of vertices decides between two estimators and is not known yet, the report is
    that of the subspace iteration, which needs a delta, and a caveat names the other.
    """
    vertices = None if facts is None else facts.vertices
    choice = chosen_estimator(params, stance, vertices)
    if choice.chosen == "flip":
        return flip_report(params, choice, facts)
    params = resolved(params, choice)
    settings = settings_of(params, stance, vertices)
    builder = ReportBuilder(NAME, "tacit tacit.noise.gaussian_privacy", stance, "edge")
    privacy = settings.privacy
    return builder.report(
        "Gaussian noise on a projected adjacency matrix"
        if settings.estimator == "range"
        else "noisy subspace iteration",
        _mechanism(params, settings),
        sensitivity=_sensitivity(settings, facts),
        claimed=_claim(params, settings, facts),
        verified=(_line(params, settings, facts, builder),),
        charged=builder.charge()
        if privacy is None
        else builder.charge(privacy.epsilon, privacy.delta),
        noise=(_noise(settings, facts, builder),),
        sampler_delta=None if privacy is None else delta_amount(privacy.sampler_delta),
        sampler_epsilon=None if privacy is None else "0",
        method="an edge changes two rows, by a squared L2 distance that is known exactly; discrete "
        "Gaussian noise on the integers then is rho-zCDP, which is converted to (epsilon, delta) "
        "by the infimum of Canonne, Kamath and Steinke (2020)",
        public_parameters=(
            "the vertices and their order, and so their number",
            "every parameter; the seed of the projection, and so the projection",
        ),
        post_processing=(
            "singular values and vectors of what is published",
            "clusters by k-means on the vectors' rows, principal component centrality, ranking",
        ),
        not_protected=NOT_PROTECTED,
        source_defects=source_defects(settings),
        voided_by=(
            "a seed given for the job: the noise can be repeated",
            "m, k or other parameters tuned on the true spectrum",
            "the projection's seed and the noise key drawn from one public stream",
            "noise used for two graphs, or for two versions of one",
            "the evaluation published",
        ),
        assumptions=assumptions(settings),
        caveats=caveats(params, settings, None if facts is None else facts.vertices)
        + finding_caveats(params.mode, params.k, facts)
        + ((UNDECIDED,) if choice.chosen is None else ()),
        evaluation_attached=params.metrics is not None,
        error=_error(settings, facts),
        details={**_details(settings, facts), "method": choice.described},
    )


def _mechanism(params: Parameters, settings: Settings) -> dict[str, Any]:
    found: dict[str, Any] = {"mode": params.mode, "estimator": settings.estimator, "k": params.k}
    if settings.estimator == "subspace":
        return found | {"iterations": settings.iterations}
    return found | {"columns": settings.columns, "projection": settings.kind}


def _sensitivity(settings: Settings, facts: Facts | None) -> tuple[SensitivityStatement, ...]:
    if settings.estimator == "subspace":
        part = "each step: the two longest rows of its public basis"
        return (SensitivityStatement(norm="l2", source="public-output", part=part),)
    if settings.kind == "gaussian":
        part = "the two longest rows of the public projection"
        found = None if facts is None else amount(Fraction(_realised(facts)))
        return (SensitivityStatement(value=found, norm="l2", source="public-output", part=part),)
    value = amount(Fraction(math.nextafter(EDGE, 2)))
    part = "the projected matrix, whose projection has rows of length 1"
    return (SensitivityStatement(value=value, norm="l2", source="declared", part=part),)


def _realised(facts: Facts) -> float:
    """The L2 sensitivity of A P, P as drawn."""
    assert facts.release is not None
    return math.sqrt(facts.release.largest_pair) * facts.release.projection.unit


def _claim(params: Parameters, settings: Settings, facts: Facts | None) -> Claim | None:
    if settings.estimator == "subspace":
        return None
    text = "one entry of the matrix; sigma >= sqrt(10 (eps + ln(1/(2 delta))) ln(n/delta)) / eps"
    if facts is None or settings.sigma is None:
        given = settings.privacy is None and params.sigma is None
        found = epsilon_amount(params.epsilon or Fraction(1)) if given else None
        text += "" if given else "; the epsilon follows from the number n of vertices"
    else:
        exact = projection_theorem_epsilon(
            float(settings.sigma), float(params.delta), facts.vertices
        )
        found = epsilon_amount(Fraction(exact))
        text += f", at this sigma and n = {facts.vertices}"
    return Claim(
        model="approximate-dp",
        epsilon=found,
        delta=delta_amount(params.delta),
        theorem=THEOREM,
        text=text,
    )


def _line(
    params: Parameters, settings: Settings, facts: Facts | None, builder: ReportBuilder
) -> VerifiedStatement:
    whole = f"{RECIPIENT} and knows every other edge; one undirected edge more or less"
    privacy = settings.privacy
    if privacy is None:
        reason = FLOATING + _in_real_arithmetic(params, settings, facts)
        return builder.line("a", whole, NO_FIGURE, reason=reason)
    return builder.line(
        "a",
        whole,
        {
            "model": "zcdp",
            "epsilon": epsilon_amount(privacy.epsilon),
            "delta": delta_amount(privacy.delta),
        },
        rho=amount(privacy.rho),
        conditions=("the same vertices with and without the edge",),
        reason="rho = 1 / sigma^2, and (epsilon, delta) from it; delta holds sampler_delta",
    )


def _in_real_arithmetic(params: Parameters, settings: Settings, facts: Facts | None) -> str:
    """What reals would give, from the rows of the projection that was drawn."""
    if facts is None or settings.sigma is None or facts.release is None:
        return ""
    realised = _realised(facts)
    rho = realised**2 / (2 * float(settings.sigma) ** 2)
    found = amount(Fraction(zcdp_epsilon(rho, float(params.delta))))
    return (
        f" In real arithmetic: an edge changes the projected matrix by at most {realised:.6g}, "
        f"which is epsilon {found} at delta {delta_amount(params.delta)}."
    )


def _noise(settings: Settings, facts: Facts | None, builder: ReportBuilder) -> NoiseStatement:
    part = "every entry of A P, rows of P of length 1"
    deviation = settings.sigma
    if settings.estimator == "subspace":
        part, deviation = "every entry of each step, by the longest rows of its basis", None
    elif settings.kind == "gaussian" and not builder.paper:
        part, deviation = "every entry of A P, by the longest rows of P", None
        if facts is not None and facts.release is not None:
            deviation = Fraction(facts.release.deviation)
    scale = None if deviation is None else _rounded_down(deviation)
    return builder.noise(part, None, "Gaussian").model_copy(update={"scale": scale})


def _rounded_down(value: Fraction) -> str:
    """An amount rounded down: noise is never stated larger than it is."""
    return format_exact(Fraction(math.floor(value * 10**9), 10**9))


def _error(settings: Settings, facts: Facts | None) -> dict[str, Any]:
    """From public values only."""
    if settings.estimator == "subspace":
        return {"basis": "none is known for the subspace iteration; signal_below_noise tells after"}
    found: dict[str, Any] = {
        "basis": "squared cosine between the i-th true eigenvector and its estimate, at most, for "
        "any graph with the guessed mean degree: its squared eigenvalues add up to degree times "
        "vertices; theory of spiked covariances",
        "mean_degree": amount(settings.mean_degree),
    }
    if facts is None or settings.sigma is None or settings.columns is None:
        return found | {"best_squared_cosine": None, "reason": "needs the number of vertices"}
    best = {
        str(place): round(
            best_squared_cosine(
                place,
                facts.vertices,
                settings.columns,
                float(settings.sigma),
                float(settings.mean_degree),
            ),
            4,
        )
        for place in PLACES
        if place <= settings.eigenvectors
    }
    return found | {"best_squared_cosine": best, "signal_below_noise": facts.signal_below_noise}


def _details(settings: Settings, facts: Facts | None) -> dict[str, Any]:
    details: dict[str, Any] = {
        "several_edges": "k edges together: as one edge at sigma / k",
        "evaluation_is_private": True,
        "spent": "the whole of rho in one release; asking again is another release",
    }
    if facts is not None:
        details["vertices"] = facts.vertices
        details["vertices_declared"] = facts.declared
    if settings.sigma is not None:
        details["sigma"] = _rounded_down(settings.sigma)
    privacy = settings.privacy
    if privacy is None:
        return details
    rho, delta, sigma = float(privacy.rho), float(privacy.delta), float(privacy.sigma)
    details |= {
        "rho": amount(privacy.rho),
        "exact_gaussian_epsilon": amount(Fraction(gaussian_epsilon(sigma, delta, EDGE))),
        "exact_gaussian_note": "of continuous Gaussian noise of this sigma, for information",
        "distinguishing_advantage": amount(Fraction(distinguishing_advantage(sigma, EDGE))),
        "epsilon_of_edges": {
            str(edges): amount(Fraction(zcdp_epsilon(edges**2 * rho, delta))) for edges in GROUPS
        },
    }
    return details
