"""What is true of a run's privacy: claimed and verified, for both stances.

Spec: kmeans, sections 4 and 11; jobs, "Privacy report". Made of public parameters and published
values alone. Epsilons are exact and rounded up when written.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np

from algorithms.kmeans.parameters import KmeansParameters
from algorithms.kmeans.plan import LIFT_RADIUS, LIFT_SPLIT, ZONE_SPLIT, Plan
from algorithms.kmeans.steps import Release, State
from common.encoders.kmeans import PROJECTED, Floats, Grid, Query
from common.models.base import format_exact
from common.models.report import (
    AccountingStatement,
    Charge,
    Claim,
    MechanismStatement,
    NoiseStatement,
    PrivacyReport,
    SensitivityStatement,
    Subject,
    VerifiedStatement,
)
from common.noise import sampler_delta
from common.report.figures import ACCOUNTING_VERSION, amount, epsilon_amount

VERSION: Final = "1"
THEOREM: Final = "Lu's thesis, chapter 7, Theorem 7.5"

DEFECTS: Final = (
    "Zones: the published zone of a pass is an exact function of unprotected means (in the prior "
    "strategy |P - S| + r = |S - c|; in the posterior one P lies on the line from S to X at a "
    "share that r fixes). Who knows all other records recovers the last one from one published "
    "pass; the neighbour without it contradicts the equations. Delta is 1.",
    "Support: even with the zones hidden, the set where a sampled centre can lie moves with the "
    "data. With the old centre (0,0), records (0,0), (1,0) put it outside the convergence zone of "
    "the records (0,0), (1,0), (0.4,0) with probability 0.2355; those put it there with "
    "probability 0.",
    "Exact sums: the final noise touches counts only, so a centre lies on the ray of its exact "
    "sum. One cluster of (0.1,0.2), (0.3,0.4) always gives y/x = 1.5; with (0.6,0.2) added always "
    "0.8. In two dimensions and more delta is 1; in one the density ratio has no bound.",
    "The proof compares two outputs on one data set; differential privacy compares one output on "
    "two data sets.",
    "The start is k raw records, the scaling uses exact extremes, and the number of passes, hence "
    "the total that is claimed, depends on the data.",
    "Parallel composition over clusters fails in the posterior strategy: the controller of a "
    "cluster depends on the means of all.",
    "Noise scaled to local sensitivity, as the source's experiments have it, is not private.",
)


def job_subject() -> Subject:
    """The job's id and data set are filled in by whoever runs it."""
    return Subject(kind="job", id="", algorithm="kmeans", version=VERSION)


# ------------------------------------------------------------------------------------------ sound


def sound_report(
    params: KmeansParameters, grid: Grid, plan: Plan, state: State | None, found: Release | None
) -> PrivacyReport:
    """The report of a sound central run; without `state` and `found`, of one that is planned."""
    epsilon = plan.epsilon if state is None else state.spent
    unit = params.privacy_unit
    early = state is not None and epsilon < plan.epsilon
    return PrivacyReport(
        subject=job_subject(),
        stance="sound",
        mechanism=MechanismStatement(
            name="noisy synopsis and zone rounds",
            parameters={"mode": plan.mode, "rounds": plan.rounds, "queries": plan.queries},
        ),
        privacy_unit=unit,
        neighbouring="add-remove",
        sensitivity=_sensitivities(plan, () if state is None else state.asked),
        claimed=Claim(
            model="pure-dp",
            epsilon=epsilon_amount(epsilon),
            delta="0",
            text="this mechanism is not the source's: the claim is our own and equals what is "
            "verified",
        ),
        verified=_verified(params, epsilon, early),
        charged=Charge(
            ledger="dataset",
            privacy_unit=unit,
            epsilon=epsilon_amount(epsilon),
            delta="0",
            reserved=epsilon_amount(plan.epsilon),
        ),
        noise=_noise(plan, () if state is None else state.asked),
        sampler_delta=amount(min(sampler_delta(_draws(plan, state), epsilon), Fraction(1))),
        sampler_epsilon="0",
        accounting=AccountingStatement(
            method="basic composition of pure epsilon over adaptive queries; within a query the "
            "weighted L1 distance of its blocks",
            library="tacit algorithms.kmeans",
            version=ACCOUNTING_VERSION,
        ),
        public_parameters=_PUBLIC,
        post_processing=_POST_PROCESSING,
        not_protected=_not_protected(params),
        voided_by=(
            "bounds, n_hint, k or any other parameter chosen after looking at the data",
            "noise drawn from a source that somebody else can predict",
        ),
        assumptions=_assumptions(params),
        caveats=_caveats(params, state, early),
        error=_error(params, grid, plan, found),
        details=_details(params, plan, state),
    )


_PUBLIC: Final = (
    "every parameter of the job: bounds, n_hint, k, epsilon, mode, rounds, max_cells",
    "the number of columns, and their names",
    "public_seed, which drives the start of clusterings, packings and projections",
)
_POST_PROCESSING: Final = (
    "cells below three noise scales are dropped; weighted k-means of the rest gives centres and "
    "zone radii",
    "a noisy mean offset is shortened by 1 - d variance / length^2, at least 0, and limited to its "
    "zone",
    "centres are limited to the box and rounded to the grid; counts below 0 become 0",
    "of several zone rounds the inverse-variance mean of those that agree with the last",
)


def _verified(params: KmeansParameters, epsilon: Fraction, early: bool) -> tuple[Any, ...]:
    unit = params.privacy_unit
    conditions = (
        (
            "the run ended early by a rule on released values alone: the loss of this outcome; "
            "before the run the bound was what was reserved",
        )
        if early
        else ()
    )
    whole = (
        "one record more or less"
        if unit == "record"
        else f"all records of one curator, of which {params.contribution_bound} count"
    )
    return (
        VerifiedStatement(
            scenario="recipient",
            key="a",
            description=f"whoever reads the result; {whole}",
            model="pure-dp",
            privacy_unit=unit,
            neighbouring="add-remove",
            epsilon=epsilon_amount(epsilon),
            delta="0",
            conditions=conditions,
        ),
        VerifiedStatement(
            scenario="recipient",
            key="b",
            description=f"whoever reads the result; the data of one {unit} replaced by other data",
            model="pure-dp",
            privacy_unit=unit,
            neighbouring="replace",
            epsilon=epsilon_amount(2 * epsilon),
            delta="0",
            conditions=conditions,
            reason="a removal and an addition",
        ),
    )


def _sensitivities(plan: Plan, asked: Sequence[Query]) -> tuple[SensitivityStatement, ...]:
    """Of each query's parts, in ring units, for the privacy unit."""
    if asked:
        found = []
        for place, query in enumerate(asked):
            widest: dict[str, int] = {}
            for block in query.blocks:
                widest[block.name] = max(widest.get(block.name, 0), block.sensitivity)
            found += [
                SensitivityStatement(
                    value=amount(value * plan.records),
                    source="public-output" if name == "offsets" else "declared",
                    part=f"{query.kind} {place + 1}: {name}, at most",
                )
                for name, value in widest.items()
            ]
        return tuple(found)
    records = plan.records
    planned: list[SensitivityStatement] = []
    if plan.epsilon_marginals is not None:
        planned.append(_declared(PROJECTED * records, "marginal: bins"))
    if plan.epsilon_histogram is not None:
        planned.append(_declared(records, "hist: cells"))
    if plan.epsilon_lift is not None:
        radius = int(LIFT_RADIUS * plan.dimension * plan.steps)
        planned.append(_declared(radius * records, "lift: offsets"))
        planned.append(_declared(records, "lift: counts"))
    if plan.rounds:
        planned.append(SensitivityStatement(source="public-output", part="zone: offsets"))
        planned.append(_declared(records, "zone: counts"))
        planned.append(_declared(plan.levels * records, "zone: distances"))
    return tuple(planned)


def _declared(value: int, part: str) -> SensitivityStatement:
    return SensitivityStatement(value=amount(value), source="declared", part=part)


def _noise(plan: Plan, asked: Sequence[Query]) -> tuple[NoiseStatement, ...]:
    """One statement for each kind of block of each query; the largest scale of a kind."""
    found = []
    for place, query in enumerate(asked):
        largest: dict[str, Fraction] = {}
        for block in query.blocks:
            scale = block.scale(plan.records)
            largest[block.name] = max(largest.get(block.name, scale), scale)
        found += [
            NoiseStatement(
                layer="coordinator",
                distribution="discrete Laplace",
                part=f"{query.kind} {place + 1}: {name}, at most",
                scale=amount(scale),
                weight="1",
                draws=1,
            )
            for name, scale in largest.items()
        ]
    if not asked:
        found = [
            NoiseStatement(
                layer="coordinator", distribution="discrete Laplace", weight="1", draws=1
            )
        ]
    return tuple(found)


def _draws(plan: Plan, state: State | None) -> int:
    """Coordinates that carry noise."""
    if state is not None:
        return sum(query.length for query in state.asked)
    zones = plan.rounds * plan.clusters * (plan.dimension + 2)
    if plan.per_side is None:
        return zones
    if plan.epsilon_lift is None:
        return zones + int(plan.per_side**plan.dimension)
    lift = 3 * plan.clusters * (plan.dimension + 1)
    return zones + plan.per_side**PROJECTED + 2 * 128 + lift


def _not_protected(params: KmeansParameters) -> tuple[str, ...]:
    held = ["n_hint, bounds, k, the number and names of columns, public_seed"]
    if params.privacy_unit == "record":
        held.append(
            "The unit record hides one row. A person with several rows is protected once for each, "
            "not as one."
        )
    else:
        held.append("A person behind several curators is protected once for each, not as one.")
    held.append(
        "What a group has in common is what the centres are there to show; it is not hidden."
    )
    return tuple(held)


def _assumptions(params: KmeansParameters) -> tuple[str, ...]:
    held = [
        "The coordinator keeps the rows and is trusted with them; what is protected is what its "
        "result tells others.",
        "Bounds and n_hint were declared without looking at the data. Values outside the bounds "
        "are moved to them; how many were is not told.",
        "The noise comes from a secret random source.",
        "Run time, memory and progress are for the submitter; they are not protected and never "
        "published.",
    ]
    if params.privacy_unit == "curator":
        held.append("The column with the role curator names the owner of each row truly.")
    return tuple(held)


def _caveats(params: KmeansParameters, state: State | None, early: bool) -> tuple[str, ...]:
    held = [
        "This is one release: other releases from the same data add up.",
        "To the delta of every line add sampler_delta, for draws that are not quite exact.",
    ]
    if params.evaluate is not False:
        held.append("An evaluation against the true data is attached for the operator's eyes only.")
    if early:
        held.append("The run ended early: no step of the last round stood out from its noise.")
    if state is not None and state.rounds and state.rounds[-1].starved.any():
        held.append(
            "Clusters with too few records to tell from noise kept their centres: error.starved."
        )
    return tuple(held)


def _error(
    params: KmeansParameters, grid: Grid, plan: Plan, found: Release | None
) -> dict[str, Any] | None:
    """The noise of a centre's coordinate (standard deviation) in the unit of its column."""
    if not plan.rounds:
        assert plan.per_side is not None
        return {
            "basis": "no zone round: centres are as coarse as the cells of the noisy histogram",
            "cell_widths": [
                amount(Fraction(width)) for width in _half_sides(grid) * 2 / plan.per_side
            ],
        }
    if found is None or found.deviations is None:
        assert params.n_hint is not None
        count = max(params.n_hint / plan.clusters, 1.0)
        scale = plan.inflation * plan.dimension / float(plan.epsilon_round * ZONE_SPLIT[0])
        widest = np.sqrt(2) * scale / count * _half_sides(grid)
        return {
            "basis": "at most, for clusters of n_hint / k records and the widest zones",
            "standard_deviation": [amount(Fraction(value)) for value in widest],
        }
    return {
        "basis": "the noise of the last zone round and its noisy counts; for each cluster, for "
        "each column",
        "standard_deviation": [
            [amount(Fraction(value)) for value in deviation * _half_sides(grid)]
            for deviation in found.deviations
        ],
        "starved": list(found.starved),
    }


def _half_sides(grid: Grid) -> Floats:
    halves: Floats = (np.array(grid.upper) - np.array(grid.lower)) / 2
    return halves


def _details(params: KmeansParameters, plan: Plan, state: State | None) -> dict[str, Any]:
    details: dict[str, Any] = {
        "released": [
            "the noisy histogram (projected data: noisy marginals, histogram and lifted sums)"
            if plan.mode != "packing+zone"
            else "no synopsis: the start is data-free",
            "the noisy sums of every zone round, and all that follows from them",
        ],
        "trust": "trusted service: the coordinator holds the rows",
        "split": planned_split(plan),
    }
    if params.privacy_unit == "curator":
        details["contribution_bound"] = params.contribution_bound
    if state is not None:
        details["refund"] = epsilon_amount(plan.epsilon - state.spent)
    return details


def planned_split(plan: Plan) -> list[dict[str, Any]]:
    """Each query's budget: exact rationals as text, in the order in which they are asked."""
    split: list[dict[str, Any]] = []
    if plan.epsilon_marginals is not None:
        split.append({"kind": "marginal", "epsilon": format_exact(plan.epsilon_marginals)})
    if plan.epsilon_histogram is not None:
        split.append({"kind": "hist", "epsilon": format_exact(plan.epsilon_histogram)})
    if plan.epsilon_lift is not None:
        sums, counts = (format_exact(plan.epsilon_lift * share) for share in LIFT_SPLIT)
        split.append(
            {
                "kind": "lift",
                "epsilon": format_exact(plan.epsilon_lift),
                "e_s": sums,
                "e_c": counts,
            }
        )
    sums, counts, distances = (format_exact(plan.epsilon_round * share) for share in ZONE_SPLIT)
    for _ in range(plan.rounds):
        split.append(
            {
                "kind": "zone",
                "epsilon": format_exact(plan.epsilon_round),
                "e_s": sums,
                "e_c": counts,
                "e_v": distances,
            }
        )
    return split


# ------------------------------------------------------------------------------------------ paper


def paper_report(params: KmeansParameters, passes: int | None) -> PrivacyReport:
    """The report of a run of the source's algorithm; without `passes`, of one that is planned."""
    final = params.epsilon if params.final_epsilon is None else params.final_epsilon
    claimed = None if passes is None else epsilon_amount(final + passes * params.epsilon)
    return PrivacyReport(
        subject=job_subject(),
        stance="paper",
        mechanism=MechanismStatement(
            name="sampling zones",
            parameters={
                "strategy": params.strategy,
                "stop": params.stop,
                "measure": params.measure,
                "max_passes": params.max_passes,
            },
        ),
        privacy_unit=None,
        neighbouring=None,
        sensitivity=(SensitivityStatement(source="data-dependent"),),
        claimed=Claim(
            model="pure-dp",
            epsilon=claimed,
            delta="0",
            theorem=THEOREM,
            text="epsilon of the final counts plus epsilon of a step for each pass; the number of "
            "passes depends on the data and is known afterwards",
        ),
        verified=(
            VerifiedStatement(
                scenario="recipient",
                key="a",
                description="whoever reads the result",
                model="none",
                privacy_unit="record",
                neighbouring="add-remove",
                epsilon="inf",
                delta="1",
                reason="zones are exact functions of unprotected means; the support of a sampled "
                "centre moves with the data; final centres lie on the rays of exact sums: one "
                "cluster of (0.1,0.2), (0.3,0.4) always gives y/x = 1.5, with (0.6,0.2) added "
                "always 0.8",
            ),
        ),
        charged=Charge(ledger="dataset", privacy_unit="record", outside_budget=True),
        noise=(
            NoiseStatement(
                layer="coordinator",
                distribution="Laplace",
                part="final counts",
                scale=amount(1 / final),
                draws=1,
                sampler="float",
            ),
        ),
        accounting=AccountingStatement(
            method="none: nothing is verified",
            library="tacit algorithms.kmeans",
            version=ACCOUNTING_VERSION,
        ),
        public_parameters=("every parameter of the job",),
        post_processing=("centres are limited to the box of the data",),
        not_protected=("everything",),
        source_defects=DEFECTS,
        assumptions=(),
        caveats=(
            "NO PRIVACY: stance paper repeats the source's figures and protects nobody.",
            "This release lies outside the budget of its data set.",
        ),
        details={
            "released": ["zones and centres of each pass", "their number", "final centres"],
            "trust": "trusted service",
            "split": {
                "per_pass": format_exact(params.epsilon),
                "final": format_exact(final),
            },
        },
    )
