"""The report of the source's levelled graph: nothing is verified.

Spec: path-publishing, sections 4.1 to 4.5 and 9.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from algorithms.path_publishing import statements as say
from algorithms.path_publishing.parameters import PathPublishingParameters
from algorithms.path_publishing.relations import fake_probability
from algorithms.path_publishing.report_parts import Parts
from common.models.report import Charge, Claim, NoiseStatement, VerifiedStatement
from common.report.figures import amount, epsilon_amount

LN_2: Final = Fraction("0.693147180560")
"""Rounded up."""


def graph_path_parts(params: PathPublishingParameters) -> Parts:
    p2 = fake_probability(None if params.epsilon_e is None else float(params.epsilon_e))
    return Parts(
        mechanism="levelled graph",
        unit="path-edge",
        neighbouring="add-remove",
        claimed=_claim(params),
        verified=(
            VerifiedStatement(
                scenario="recipient",
                key="a",
                description="whoever reads the result and knows the map and all of the path but "
                "one edge",
                model="none",
                privacy_unit="path-edge",
                neighbouring="add-remove",
                epsilon="inf",
                delta="1",
                reason=say.NOTHING_HOLDS,
            ),
        ),
        charged=Charge(ledger="dataset", privacy_unit="path-edge", outside_budget=True),
        noise=_paper_noise(params),
        discloses=say.GRAPH_PATH_DISCLOSES,
        assumptions=(say.EXACT_MAP,),
        caveats=("Not differentially private; for reproduction only.", say.OUTSIDE),
        voided_by=(),
        accounting="none: the levels are a deterministic function of the path's order",
        defects=say.DEFECTS,
        error={"recovery": "exact", "direction": "rightly or undecided by the rule `certain`"},
        details={
            "g_only_delta": amount(Fraction(p2)),
            "g_only_delta_holds": "for G alone, simple paths, no copies: (0, p2)-DP; never for "
            "what is published",
            "discloses": list(say.GRAPH_PATH_DISCLOSES),
        },
        exact=False,
    )


def _claim(params: PathPublishingParameters) -> Claim | None:
    if params.epsilon_e is None:
        return None
    cost = params.epsilon_e + LN_2
    if params.epsilon_v is None:
        return Claim(
            model="pure-dp",
            epsilon=epsilon_amount(cost),
            delta="0",
            theorem="Lu's thesis, chapter 6, Lemma 6.2",
            text="epsilon_e + ln 2",
        )
    copies = Fraction(1) if params.epsilon_v == "auto" else params.epsilon_v
    assert not isinstance(copies, str)
    return Claim(
        model="pure-dp",
        epsilon=epsilon_amount(cost + copies),
        delta="0",
        theorem="Lu's thesis, chapter 6, Theorem 6.1",
        text="epsilon_v + epsilon_e + ln 2"
        + ("; epsilon_v is 1 with rings, 0 without" if params.epsilon_v == "auto" else ""),
    )


def _paper_noise(params: PathPublishingParameters) -> tuple[NoiseStatement, ...]:
    noise = []
    if params.epsilon_v is not None:
        noise.append(
            NoiseStatement(
                layer="coordinator",
                distribution="exponential mechanism over numbers of copies",
                part="copies of a vertex",
                sampler="float",
            )
        )
    if params.epsilon_e is not None:
        noise.append(
            NoiseStatement(
                layer="coordinator",
                distribution="coin",
                part="pairs without an edge",
                probability=amount(Fraction(fake_probability(float(params.epsilon_e)))),
                sampler="float",
            )
        )
    return tuple(noise)
