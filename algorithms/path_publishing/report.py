"""The privacy report of a run, for each mode. Made of public parameters alone.

With its fixed sentences. Spec: path-publishing, sections 4 and 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

from algorithms.contract import Stance, by_cosine, with_verdict, without_verdict
from algorithms.path_publishing.levelled_graph import epsilon_of, fake_probability, wrong_threshold
from algorithms.path_publishing.parameters import Mode, Parameters, check_parameters
from tacit.report.builder import (
    NOTHING_HOLDS,
    OUTSIDE_BUDGET,
    RECIPIENT,
    ReportBuilder,
    pure_dp,
)
from tacit.report.figures import amount
from tacit.report.model import Charge, Claim, Neighbouring, NoiseStatement, PrivacyReport, Unit
from tacit.wire import format_exact

PUBLIC: Final = ("every parameter of the job",)
EXACT: Final = "the path is read without error"
EXACT_MAP: Final = "Users hold the exact map of which the publication was made."
KNOWN_REST: Final = "Edges off the path are not secret: an adversary knows them anyway."
SECOND_PATH: Final = (
    "another path in the same map published in this mode: what is off the one is on the other"
)
GENUINE_KEYS: Final = "The recipients' public keys are genuine and their private keys secret."
TRUSTED: Final = "The coordinator, or who runs the job, sees map and path in the clear."
EVALUATION: Final = (
    "An evaluation against the true path is attached visible only to the operator; it is not "
    "private in any sense."
)
NO_PROTECTION: Final = (
    "A pair seen in G is certainly no step of the path: the ratio is infinite (4.3). Numbers of "
    "copies show rings with certainty (4.2). The levels are a function of the path's order, and "
    "replaying the algorithm found the missing edge in 97 to 100 of 100 measured cases (4.4)."
)

GRAPH_PATH_DISCLOSES: Final = (
    "G: every edge of the map off the path is in it, and every pair that is not in it is no such "
    "edge.",
    "The levels: anyone who sorts by them reads half of the path's edges or more, without any map.",
    "The direction of the path, on purpose (Rule 5), and how often vertices appear.",
)
COMPLEMENT_DISCLOSES: Final = (
    "Every edge of the map off the path, with certainty and to everyone.",
    "The vertices and their number.",
    "That a pair which is not published is either a step of the path or no edge.",
)
RANDOMIZED_DISCLOSES: Final = (
    "The vertices and their number.",
    "Several pairs together: another path changes many pairs at once.",
    "The map is no secret key: it has no part in the protection.",
)
SEALED_DISCLOSES: Final = (
    "The length of the path, up to 1,024 bytes of its text, and the time.",
    "Nothing is hidden from a recipient, nor from anyone who gets a recipient's key later.",
)

DEFECTS: Final = (
    "Lemma 6.1: the degree term is the same for all numbers of copies and cancels, so that low "
    "degrees get no more copies. Where a count of visits differs the ratio is infinite: a vertex "
    "of a ring never shows one copy. Copies are inserted last, and recognisable.",
    "Lemma 6.1, copies: each inherits all edges of its base, so that one edge is seen in every "
    "pair of copies. They make it easier, not harder, to find the missing edge.",
    "Lemma 6.2: bounds the ratio where the pair is in H only. Where it is in G the ratio is "
    "infinite. The best that holds for G alone is (0, p2)-DP with p2 of at least 1/2.",
    "Lemma 6.2: fake edges in G rule decoys out, and a larger epsilon_e draws more of them; what "
    "would conceal a missing edge are pairs in H.",
    "Theorem 6.1: the levels are not post-processing. They are drawn from the path's order.",
    "Algorithm 6.4 as printed never inserts the last vertex; Corollary 6.1's O(|V|) forgets to sum "
    "over the vertices; Proposition 6.2 should read ceil(n/2).",
)


# Made of public parameters alone. Spec: path-publishing, sections 4 and 9; jobs, "Privacy report".

NAME: Final = "path-publishing"
LN_2: Final = Fraction("0.693147180560")
"""Rounded up."""
RECOVERY: Final[dict[tuple[int, int], tuple[float, ...]]] = {
    (6, 10): (0.236, 0.567, 0.804, 0.929, 0.979, 0.990, 0.998),
    (8, 14): (0.182, 0.542, 0.815, 0.926, 0.974, 0.986, 0.998),
    (8, 20): (0.049, 0.342, 0.702, 0.868, 0.956, 0.981, 0.996),
}
"""Measured on random maps: how often the path is found at these epsilons."""
RECOVERY_EPSILONS: Final = (1, 2, 3, 4, 5, 6, 8)


def path_report(params: Parameters, stance: Stance) -> PrivacyReport:
    """The report of a run, planned or done. Raises what `check_parameters` raises."""
    mode = check_parameters(params, stance)
    report = _OF_MODE[mode](params)
    evaluated = mode == "graph-path" or (params.evaluate and mode != "sealed")
    return report.model_copy(
        update={
            "assumptions": (*report.assumptions, TRUSTED),
            "caveats": (*report.caveats, *((EVALUATION,) if evaluated else ())),
            "evaluation_attached": evaluated,
            "details": {"mode": mode, **report.details},
        }
    )


def _builder(
    unit: Unit | None, neighbouring: Neighbouring | None, stance: Stance = "sound"
) -> ReportBuilder:
    return ReportBuilder(NAME, "tacit algorithms.path_publishing", stance, unit, neighbouring)


def _exact(value: Fraction | str | None) -> str | None:
    return format_exact(value) if isinstance(value, Fraction) else value


# ------------------------------------------------------------------------------------- sound modes


def _complement(params: Parameters) -> PrivacyReport:
    builder = _builder("path-edge", "same-rest")
    cost = params.epsilon_dir or Fraction(0)
    return builder.report(
        "the map's edges off the path",
        {"epsilon_dir": _exact(params.epsilon_dir), "layout": params.layout},
        verified=(
            builder.line(
                "a",
                f"{RECIPIENT}; any set of path edges, inputs with the same vertices and the same "
                "edges off the path",
                pure_dp(cost),
                conditions=(KNOWN_REST.rstrip("."),),
                reason="the output is a function of the vertices and the edges off the path alone"
                + (" and of one noisy bit" if cost else ""),
            ),
        ),
        charged=builder.charge(cost),
        noise=_direction_noise(params),
        sampler=Fraction(0),
        method="same bytes for all inputs that agree in V and E minus E_P; the direction by "
        "randomised response",
        public_parameters=PUBLIC,
        not_protected=COMPLEMENT_DISCLOSES,
        voided_by=(SECOND_PATH,),
        assumptions=(EXACT_MAP, KNOWN_REST),
        caveats=("Does not protect edges off the path.",),
        error=with_verdict(
            {"recovery": "exact", "direction": _direction_error(params)}, "useful", EXACT
        ),
        details={"discloses": list(COMPLEMENT_DISCLOSES)},
    )


def _randomized(params: Parameters) -> PrivacyReport:
    assert params.epsilon is not None
    builder = _builder("vertex-pair", "replace")
    cost = params.epsilon + (params.epsilon_dir or Fraction(0))
    threshold = wrong_threshold(params.epsilon)
    label = "label of a pair: wrong with this probability, a fair coin without an edge"
    return builder.report(
        "randomised response on the status of each pair",
        {"epsilon": _exact(params.epsilon), "epsilon_dir": _exact(params.epsilon_dir)},
        verified=(
            builder.line(
                "a",
                f"{RECIPIENT}; the status of one pair (step, other edge, none)",
                pure_dp(cost),
            ),
            builder.line(
                "b",
                f"{RECIPIENT}; one edge of the path is missing, or stands at a pair that is no "
                "edge otherwise",
                pure_dp(cost),
                privacy_unit="path-edge",
            ),
        ),
        charged=builder.charge(cost),
        noise=(_response(label, threshold), *_direction_noise(params)),
        sampler=Fraction(0),
        method="one pair, one label: ratios e^epsilon and at most (1 + e^epsilon) / 2, decided by "
        "64-bit integers; the direction adds its own",
        public_parameters=PUBLIC,
        not_protected=RANDOMIZED_DISCLOSES,
        voided_by=("another publication from the same network: its epsilon adds",),
        assumptions=(EXACT_MAP,),
        caveats=(
            "k changed pairs cost k epsilon: another path of n vertices may differ in 2(n - 1).",
        ),
        error=_error_of_recovery(params, params.epsilon),
        details={
            "epsilon_of_threshold": amount(epsilon_of(threshold)),
            "discloses": list(RANDOMIZED_DISCLOSES),
        },
    )


def _sealed(params: Parameters) -> PrivacyReport:
    builder = _builder(None, None)
    return builder.report(
        "authenticated encryption",
        {"recipients": len(params.recipients)},
        verified=(
            builder.line(
                "a",
                "everyone without a recipient's private key, whatever they know of the map",
                {"model": "computational", "epsilon": None, "delta": None},
                conditions=(GENUINE_KEYS.rstrip("."),),
                reason="confidentiality and integrity against chosen ciphertexts (IND-CCA); not "
                "differential privacy",
            ),
        ),
        charged=Charge(ledger="none"),
        sampler=Fraction(0),
        method="none: HPKE (RFC 9180: X-Wing, HKDF-SHA256, AES-256-GCM, or for keys of 32 bytes "
        "X25519, HKDF-SHA256, ChaCha20-Poly1305) and ChaCha20-Poly1305 under a fresh key of the "
        "operating system",
        public_parameters=("the recipients' public keys, where the job's parameters are shown",),
        not_protected=(
            *SEALED_DISCLOSES,
            f"The number of recipients: {len(params.recipients)}.",
        ),
        voided_by=("a recipient's private key that gets out, at any time",),
        assumptions=(GENUINE_KEYS,),
        caveats=("Trust lies in how the keys were distributed.",),
        error=with_verdict({"recovery": "exact", "direction": "exact"}, "useful", EXACT),
    )


def _response(part: str, wrong: int) -> NoiseStatement:
    """A label that is wrong once in 2^64 / `wrong` times."""
    return NoiseStatement(
        layer="coordinator",
        distribution="randomised response",
        part=part,
        probability=amount(Fraction(wrong, 1 << 64)),
        draws=1,
    )


def _direction_noise(params: Parameters) -> tuple[NoiseStatement, ...]:
    if params.epsilon_dir is None:
        return ()
    part = "direction of the path: wrong with this probability"
    return (_response(part, wrong_threshold(params.epsilon_dir)),)


def _direction_error(params: Parameters) -> str:
    if params.epsilon_dir is None:
        return "not published"
    return f"wrong with probability {1 / (1 + math.exp(float(params.epsilon_dir))):.3g}"


def _error_of_recovery(params: Parameters, epsilon: Fraction) -> dict[str, Any]:
    """The verdict is that of the largest tested map: the path of a larger one is found less
    often."""
    estimates = _recovery_estimates(epsilon)
    error = {
        "recovery": "a holder of the map gets the likeliest path, which may be wrong; shares "
        "of random maps in which it is the true one, without its direction",
        "estimated_success": estimates,
        "direction": _direction_error(params),
    }
    share = estimates[-1]["share"]
    if share is None:
        return without_verdict(error, "measured for epsilons of 1 to 8 alone")
    size, edges = estimates[-1]["vertices"], estimates[-1]["edges"]
    figure = f"the path is found in {share} of random maps of {size} vertices and {edges} edges"
    return with_verdict(error, by_cosine(float(share)), figure)


def _recovery_estimates(epsilon: Fraction) -> list[dict[str, Any]]:
    """Measured shares at this epsilon, interpolated between measured values; null outside them."""
    value = float(epsilon)
    result = []
    for (size, edges), rates in RECOVERY.items():
        share = None
        for at in range(len(rates) - 1):
            low, high = RECOVERY_EPSILONS[at : at + 2]
            if low <= value <= high:
                part = (value - low) / (high - low)
                share = f"{rates[at] + part * (rates[at + 1] - rates[at]):.2f}"
        result.append({"vertices": size, "edges": edges, "share": share})
    return result


# ---------------------------------------------------------------- the source's levelled graph


def _graph_path(params: Parameters) -> PrivacyReport:
    """Nothing is verified (sections 4.1 to 4.5)."""
    builder = _builder("path-edge", "add-remove", "paper")
    p2 = fake_probability(None if params.epsilon_e is None else float(params.epsilon_e))
    return builder.report(
        "levelled graph",
        {
            "epsilon_v": _exact(params.epsilon_v),
            "epsilon_e": _exact(params.epsilon_e),
            "split": params.split,
            "search_budget": params.search_budget,
        },
        claimed=_claim(params),
        verified=(
            builder.line(
                "a",
                f"{RECIPIENT} and knows the map and all of the path but one edge",
                NOTHING_HOLDS,
                reason=NO_PROTECTION,
            ),
        ),
        charged=builder.charge(),
        noise=_paper_noise(params),
        method="none: the levels are a deterministic function of the path's order",
        public_parameters=PUBLIC,
        not_protected=GRAPH_PATH_DISCLOSES,
        source_defects=DEFECTS,
        assumptions=(EXACT_MAP,),
        caveats=("Not differentially private; for reproduction only.", OUTSIDE_BUDGET),
        error={"recovery": "exact", "direction": "rightly or undecided by the rule `certain`"},
        details={
            "g_only_delta": amount(Fraction(p2)),
            "g_only_delta_holds": "for G alone, simple paths, no copies: (0, p2)-DP; never for "
            "what is published",
            "discloses": list(GRAPH_PATH_DISCLOSES),
        },
    )


def _claim(params: Parameters) -> Claim | None:
    if params.epsilon_e is None:
        return None
    cost = params.epsilon_e + LN_2
    theorem, text = "Lemma 6.2", "epsilon_e + ln 2"
    if params.epsilon_v is not None:
        theorem, text = "Theorem 6.1", f"epsilon_v + {text}"
        if params.epsilon_v == "auto":
            cost, text = cost + 1, f"{text}; epsilon_v is 1 with rings, 0 without"
        else:
            assert not isinstance(params.epsilon_v, str)
            cost += params.epsilon_v
    return Claim(**pure_dp(cost), theorem=f"Lu's thesis, chapter 6, {theorem}", text=text)


def _paper_noise(params: Parameters) -> tuple[NoiseStatement, ...]:
    copies = NoiseStatement(
        layer="coordinator",
        distribution="exponential mechanism over numbers of copies",
        part="copies of a vertex",
        sampler="float",
    )
    noise = () if params.epsilon_v is None else (copies,)
    if params.epsilon_e is None:
        return noise
    coin = NoiseStatement(
        layer="coordinator",
        distribution="coin",
        part="pairs without an edge",
        probability=amount(Fraction(fake_probability(float(params.epsilon_e)))),
        sampler="float",
    )
    return (*noise, coin)


_OF_MODE: Final[dict[Mode, Callable[[Parameters], PrivacyReport]]] = {
    "graph-path": _graph_path,
    "complement": _complement,
    "randomized": _randomized,
    "sealed": _sealed,
}
