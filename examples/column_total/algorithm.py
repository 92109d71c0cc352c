"""The total of one column of a numeric table, with discrete Laplace noise."""

from fractions import Fraction
from typing import Final

import numpy as np
from pydantic import Field

from algorithms.contract import Algorithm, Context, Outcome, Stance
from algorithms.datasets.tables import NumericTable
from tacit.errors import Invalid
from tacit.noise import DiscreteLaplace, sampler_delta
from tacit.report.builder import NOISE_SOURCE, ReportBuilder, voided_by
from tacit.report.model import PrivacyReport
from tacit.wire import Exact, WireModel

STEPS: Final = 1000
"""Grid steps between 0 and the bound."""


class UnknownColumn(Invalid):
    name = "unknown_column"
    title = "The table has no such column"


class Parameters(WireModel):
    """Parameters of `column-total`."""

    column: str = Field(description="the column to add up")
    bound: Exact = Field(description="values are clipped to 0..bound; declared, not measured")
    epsilon: Exact = Field(Fraction(1), description="budget of the job")


def preview(params: Parameters, stance: Stance) -> PrivacyReport:
    """The report of the result, which public parameters decide."""
    builder = ReportBuilder("column-total", "tacit algorithms.column_total", stance, "record")
    return builder.report(
        "noisy total",
        {"steps": STEPS},
        verified=builder.neighbour_lines(params.epsilon, "one row more or less", "one row changed"),
        charged=builder.charge(params.epsilon),
        noise=(builder.noise("total", STEPS / params.epsilon),),
        sampler=sampler_delta(1, params.epsilon),
        method="one sum of sensitivity 1000 grid steps",
        public_parameters=("column, bound, epsilon",),
        voided_by=voided_by("a bound taken from the data"),
        assumptions=(NOISE_SOURCE,),
        caveats=builder.caveats(evaluated=False),
    )


def check(dataset: NumericTable, params: Parameters, stance: Stance) -> None:  # noqa: ARG001
    """Raises UnknownColumn."""
    if params.column not in dataset.columns:
        raise UnknownColumn(pointer="/params/column")


def run(dataset: NumericTable, params: Parameters, stance: Stance, context: Context) -> Outcome:
    """Clip, round to the grid, add up whole numbers, add noise."""
    check(dataset, params, stance)
    values = dataset.values[:, dataset.columns.index(params.column)]
    steps = np.rint(np.clip(values / float(params.bound), 0, 1) * STEPS).astype(np.int64)
    law = DiscreteLaplace(Fraction(STEPS) / params.epsilon)
    noise = int(law.draw(context.noise("total"), 1)[0])
    context.progress(1.0, "releasing")
    total = float((int(steps.sum()) + noise) * params.bound / STEPS)
    return Outcome(result={"total": total}, report=preview(params, stance))


ALGORITHM: Final = Algorithm(
    name="column-total",
    title="Total of a column",
    source="the Laplace mechanism",
    purpose="one noisy total",
    dataset_kind="numeric-table",
    params=Parameters,
    stances=("sound",),
    run=run,
    preview=preview,
    check=check,
    result={"total": "the noisy total, in the column's unit"},
    complexity="O(rows)",
)
