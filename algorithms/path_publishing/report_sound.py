"""The reports of the sound modes. Spec: path-publishing, sections 4.7 and 9."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final

from algorithms.path_publishing import statements as say
from algorithms.path_publishing.coins import epsilon_of, wrong_threshold
from algorithms.path_publishing.parameters import PathPublishingParameters
from algorithms.path_publishing.report_parts import (
    Parts,
    charge,
    direction_error,
    direction_noise,
)
from common.models.report import Charge, NoiseStatement, Unit, VerifiedStatement
from common.report.figures import amount, epsilon_amount

RECOVERY: Final[dict[tuple[int, int], tuple[float, ...]]] = {
    (6, 10): (0.236, 0.567, 0.804, 0.929, 0.979, 0.990, 0.998),
    (8, 14): (0.182, 0.542, 0.815, 0.926, 0.974, 0.986, 0.998),
    (8, 20): (0.049, 0.342, 0.702, 0.868, 0.956, 0.981, 0.996),
}
"""Measured on random maps: how often the path is found at these epsilons."""
RECOVERY_EPSILONS: Final = (1, 2, 3, 4, 5, 6, 8)


def complement_parts(params: PathPublishingParameters) -> Parts:
    cost = params.epsilon_dir or Fraction(0)
    return Parts(
        mechanism="the map's edges off the path",
        unit="path-edge",
        neighbouring="same-rest",
        verified=(
            VerifiedStatement(
                scenario="recipient",
                key="a",
                description="whoever reads the result; any set of path edges, inputs with the same "
                "vertices and the same edges off the path",
                model="pure-dp",
                privacy_unit="path-edge",
                neighbouring="same-rest",
                epsilon=epsilon_amount(cost),
                delta="0",
                conditions=(say.KNOWN_REST.rstrip("."),),
                reason="the output is a function of the vertices and the edges off the path alone"
                + (" and of one noisy bit" if cost else ""),
            ),
        ),
        charged=charge("path-edge", cost),
        noise=direction_noise(params),
        discloses=say.COMPLEMENT_DISCLOSES,
        assumptions=(say.EXACT_MAP, say.KNOWN_REST),
        caveats=("Does not protect edges off the path.",),
        voided_by=(say.SECOND_PATH,),
        accounting="same bytes for all inputs that agree in V and E minus E_P; the direction by "
        "randomised response",
        error={"recovery": "exact", "direction": direction_error(params)},
        details={"discloses": list(say.COMPLEMENT_DISCLOSES)},
    )


def randomized_parts(params: PathPublishingParameters) -> Parts:
    assert params.epsilon is not None
    cost = params.epsilon + (params.epsilon_dir or Fraction(0))
    threshold = wrong_threshold(params.epsilon)
    return Parts(
        mechanism="randomised response on the status of each pair",
        unit="vertex-pair",
        neighbouring="replace",
        verified=(
            _pair_line("a", "vertex-pair", "the status of one pair (step, other edge, none)", cost),
            _pair_line(
                "b",
                "path-edge",
                "one edge of the path is missing, or stands at a pair that is no edge otherwise",
                cost,
            ),
        ),
        charged=charge("vertex-pair", cost),
        noise=(
            NoiseStatement(
                layer="coordinator",
                distribution="randomised response",
                part="label of a pair: wrong with this probability, a fair coin without an edge",
                probability=amount(Fraction(threshold, 1 << 64)),
                draws=1,
            ),
            *direction_noise(params),
        ),
        discloses=say.RANDOMIZED_DISCLOSES,
        assumptions=(say.EXACT_MAP,),
        caveats=(
            "k changed pairs cost k epsilon: another path of n vertices may differ in 2(n - 1).",
        ),
        voided_by=("another publication from the same network: its epsilon adds",),
        accounting="one pair, one label: ratios e^epsilon and at most (1 + e^epsilon) / 2, decided "
        "by 64-bit integers; the direction adds its own",
        error={
            "recovery": "a holder of the map gets the likeliest path, which may be wrong; shares "
            "of random maps in which it is the true one, without its direction",
            "estimated_success": recovery_estimates(params.epsilon),
            "direction": direction_error(params),
        },
        details={
            "epsilon_of_threshold": amount(epsilon_of(threshold)),
            "discloses": list(say.RANDOMIZED_DISCLOSES),
        },
    )


def recovery_estimates(epsilon: Fraction) -> list[dict[str, Any]]:
    """Measured shares at this epsilon, between those that were measured; null outside."""
    value = float(epsilon)
    found = []
    for (size, edges), rates in RECOVERY.items():
        share = None
        for at in range(len(rates) - 1):
            low, high = RECOVERY_EPSILONS[at : at + 2]
            if low <= value <= high:
                part = (value - low) / (high - low)
                share = f"{rates[at] + part * (rates[at + 1] - rates[at]):.2f}"
        found.append({"vertices": size, "edges": edges, "share": share})
    return found


def sealed_parts(params: PathPublishingParameters) -> Parts:
    return Parts(
        mechanism="authenticated encryption",
        unit=None,
        neighbouring=None,
        verified=(
            VerifiedStatement(
                scenario="recipient",
                key="a",
                description="everybody without a recipient's private key, whatever they know of "
                "the map",
                model="computational",
                epsilon=None,
                delta=None,
                conditions=(say.GENUINE_KEYS.rstrip("."),),
                reason="confidentiality and integrity against chosen ciphertexts (IND-CCA); not "
                "differential privacy",
            ),
        ),
        charged=Charge(ledger="none"),
        discloses=(*say.SEALED_DISCLOSES, f"The number of recipients: {len(params.recipients)}."),
        assumptions=(say.GENUINE_KEYS,),
        caveats=("Trust lies in how the keys were distributed.",),
        voided_by=("a recipient's private key that gets out, at any time",),
        accounting="none: HPKE (RFC 9180: X25519, HKDF-SHA256, ChaCha20-Poly1305) and "
        "ChaCha20-Poly1305 under a fresh key of the operating system",
        error={"recovery": "exact", "direction": "exact"},
        public=("the recipients' public keys, where the job's parameters are shown",),
    )


def _pair_line(key: str, unit: Unit, whole: str, cost: Fraction) -> VerifiedStatement:
    return VerifiedStatement(
        scenario="recipient",
        key=key,
        description=f"whoever reads the result; {whole}",
        model="pure-dp",
        privacy_unit=unit,
        neighbouring="replace",
        epsilon=epsilon_amount(cost),
        delta="0",
    )
