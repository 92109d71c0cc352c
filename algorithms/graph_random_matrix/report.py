"""The privacy report of a run: claimed and verified guarantees, for both stances.

Those of flipped pairs and noisy degrees are in `pure_reports`. Spec: graph-random-matrix, sections
4.2 and 9.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Final

from algorithms.contract import Stance
from algorithms.graph_random_matrix.flipping import (
    chosen_estimator,
    resolved,
)
from algorithms.graph_random_matrix.parameters import (
    EDGE,
    Parameters,
    Settings,
    best_squared_cosine,
    settings_of,
)
from algorithms.graph_random_matrix.pure_reports import degrees_report, flip_report
from algorithms.graph_random_matrix.statements import (
    NAME,
    NO_SIGNAL,
    NOT_PROTECTED,
    PLACES,
    Facts,
    finding_caveats,
    with_expected_cosine,
)
from tacit.noise.gaussian_privacy import (
    distinguishing_advantage,
    gaussian_epsilon,
    projection_theorem_epsilon,
    zcdp_epsilon,
)
from tacit.report.builder import (
    EVALUATED,
    NO_FIGURE,
    NOT_VERIFIED,
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

FLOATING: Final = (
    "floating-point Gaussian noise: the low bits of a float can show what a value was not. No "
    "figure is stated."
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
    defects = (_TWO_ROWS, _LOOSE, _EXPERIMENTS, _GROWS, _FIGURES, _HIDDEN, _LNPP)
    return (_SUBSPACE, *defects) if settings.estimator == "subspace" else defects


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
    sentences = ["This is one release: other releases from the same graph add up (rho adds)."]
    if settings.privacy is None:
        sentences += [NOT_VERIFIED, OUTSIDE_BUDGET]
    most = math.floor(1 / params.delta)
    if vertices is None:
        sentences.append(
            f"With more than {most} vertices delta is too large: it is above 1 / vertices."
        )
    elif vertices > most:
        sentences.append(
            f"delta is above 1 / vertices ({vertices} of them): it would allow to bare some edges "
            "altogether."
        )
    if params.metrics is not None:
        sentences.append(EVALUATED)
    return tuple(sentences)


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
    edges = None if facts is None else facts.noisy_edges
    choice = chosen_estimator(params, stance, vertices, edges)
    if choice.chosen == "flip":
        return flip_report(params, choice, facts)
    if choice.chosen == "degrees":
        return degrees_report(params, choice, facts)
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
        + ((UNDECIDED,) if choice.chosen is None else ())
        + ((NO_SIGNAL,) if choice.described.get("no_signal_expected") else ()),
        evaluation_attached=params.metrics is not None,
        error=with_expected_cosine(_error(settings, facts), choice, settings.estimator, facts),
        details={**_details(settings, facts), "method": choice.described},
    )


def _mechanism(params: Parameters, settings: Settings) -> dict[str, Any]:
    mechanism: dict[str, Any] = {
        "mode": params.mode,
        "estimator": settings.estimator,
        "k": params.k,
    }
    if settings.estimator == "subspace":
        return mechanism | {"iterations": settings.iterations}
    return mechanism | {"columns": settings.columns, "projection": settings.kind}


def _sensitivity(settings: Settings, facts: Facts | None) -> tuple[SensitivityStatement, ...]:
    if settings.estimator == "subspace":
        part = "each step: the two longest rows of its public basis"
        return (SensitivityStatement(norm="l2", source="public-output", part=part),)
    if settings.kind == "gaussian":
        part = "the two longest rows of the public projection"
        realised = None if facts is None else amount(Fraction(_realised(facts)))
        return (SensitivityStatement(value=realised, norm="l2", source="public-output", part=part),)
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
        claims_epsilon = settings.privacy is None and params.sigma is None
        claimed = epsilon_amount(params.epsilon or Fraction(1)) if claims_epsilon else None
        text += "" if claims_epsilon else "; the epsilon follows from the number n of vertices"
    else:
        exact = projection_theorem_epsilon(
            float(settings.sigma), float(params.delta), facts.vertices
        )
        claimed = epsilon_amount(Fraction(exact))
        text += f", at this sigma and n = {facts.vertices}"
    return Claim(
        model="approximate-dp",
        epsilon=claimed,
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
    epsilon = amount(Fraction(zcdp_epsilon(rho, float(params.delta))))
    return (
        f" In real arithmetic: an edge changes the projected matrix by at most {realised:.6g}, "
        f"which is epsilon {epsilon} at delta {delta_amount(params.delta)}."
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
    error: dict[str, Any] = {
        "basis": "squared cosine between the i-th true eigenvector and its estimate, at most, for "
        "any graph with the guessed mean degree: its squared eigenvalues add up to degree times "
        "vertices; theory of spiked covariances",
        "mean_degree": amount(settings.mean_degree),
    }
    if facts is None or settings.sigma is None or settings.columns is None:
        return error | {"best_squared_cosine": None, "reason": "needs the number of vertices"}
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
    return error | {"best_squared_cosine": best, "signal_below_noise": facts.signal_below_noise}


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
