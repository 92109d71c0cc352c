"""From a dataset to what is published: code, mine, suppress, check.

Spec: trajectory-kcl, sections 2 and 3.5.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from algorithms.contract import Context, Outcome, Stance
from algorithms.datasets.trajectories import Trajectories
from algorithms.trajectory_kcl.checker import Verdict, check
from algorithms.trajectory_kcl.evaluation import evaluate, instance_loss
from algorithms.trajectory_kcl.frequent import Frequent, maximal_frequent
from algorithms.trajectory_kcl.incidence import alive, build
from algorithms.trajectory_kcl.mining import check_size, mine
from algorithms.trajectory_kcl.paper import LiteralRun
from algorithms.trajectory_kcl.parameters import Method, Model, Parameters, Utility
from algorithms.trajectory_kcl.pictures import plots
from algorithms.trajectory_kcl.publication import shuffled, trajectories_file
from algorithms.trajectory_kcl.report import privacy_report, verification
from algorithms.trajectory_kcl.suppression import Greedy, Operation
from algorithms.trajectory_kcl.table import PairTable, check_values, code

MINED: Final = 0.35
SUPPRESSED: Final = 0.8
CHECKED: Final = 0.9


@dataclass(frozen=True, eq=False)
class Anonymised:
    """A table after suppression, what was done, and the result of the check."""

    table: PairTable
    operations: tuple[Operation, ...]
    verdict: Verdict
    frequent: Frequent | None


def anonymise(
    table: PairTable,
    model: Model,
    context: Context,
    *,
    stance: Stance = "sound",
    method: Method = "local",
    utility: Utility = "instances",
    least_frequent: int | None = None,
) -> Anonymised:
    """Suppress until the model holds, and check. `least_frequent` is K', for utility mfs.

    The sound form starts over if the check finds anything, which is not known to happen.
    Raises TooManySequences.
    """
    check_size(table, model)
    frequent = None
    if utility == "mfs":
        assert least_frequent is not None
        frequent = maximal_frequent(table, least_frequent, _beat(context, 0.0, "frequent"))
    checking = _beat(context, SUPPRESSED, "checking")
    if stance == "paper":
        run = LiteralRun(
            table, model, utility, method, frequent, _beat(context, 0.1, "suppressing")
        )
        done = run.run()
        left = table.kept(run.alive())
        return Anonymised(left, tuple(done), check(left, model, checking), frequent)
    left, operations = table, []
    tracked = frequent
    while True:
        left, done = _suppressed(left, model, context, method, utility, tracked)
        operations += done
        verdict = check(left, model, checking)
        if verdict.holds:
            return Anonymised(left, tuple(operations), verdict, frequent)
        if not done:
            raise RuntimeError("the check finds a violating sequence that mining does not")
        if least_frequent is not None:
            tracked = maximal_frequent(left, least_frequent, checking)


def _suppressed(
    table: PairTable,
    model: Model,
    context: Context,
    method: Method,
    utility: Utility,
    frequent: Frequent | None,
) -> tuple[PairTable, list[Operation]]:
    """One round of mining and suppression."""
    mined = mine(table, model, context, MINED)
    incidence = build(table, model, mined, frequent, _beat(context, MINED, "indexing"))

    def beat(share: float) -> None:
        context.progress(MINED + (SUPPRESSED - MINED) * share, "suppressing")

    done = Greedy(incidence, utility, method, beat).run()
    return table.kept(alive(table, incidence.state)), done


def _beat(context: Context, share: float, stage: str) -> Callable[[], None]:
    return lambda: context.progress(share, stage)


def run(dataset: Trajectories, params: Parameters, stance: Stance, context: Context) -> Outcome:
    """The job. Raises MissingSensitive, BadGrid, TooManySequences."""
    coded = code(dataset, params.sensitive_values, params.grid)
    before = coded.table
    check_values(before)
    found = anonymise(
        before,
        params.model,
        context,
        stance=stance,
        method=params.method,
        utility=params.utility,
        least_frequent=params.Kprime,
    )
    after = found.table
    order = shuffled(after.records, context.noise("rows"))
    empty = int((after.lengths == 0).sum())
    if params.empty_paths == "drop":
        order = order[after.lengths[order] > 0]
    counts = suppressed_counts(found.operations, empty)
    file = trajectories_file(after, dataset.attributes, order, _beat(context, CHECKED, "writing"))
    result: dict[str, Any] = {
        "records": len(order),
        "instances": len(after.items),
        "suppressed": counts,
        "instance_loss": instance_loss(before, after),
        "verification": verification(found.verdict, params),
        "violations": [
            {
                "sequence": [[after.locations[pair], after.times[pair]] for pair in each.pairs],
                "records": each.records,
            }
            for each in found.verdict.examples
        ],
    }
    compared = None
    if params.metrics is not None:
        beat = _beat(context, CHECKED, "evaluating")
        compared = evaluate(before, after, params.metrics, params.Kprime, coded.merged, beat)
    context.progress(1.0, "releasing")
    return Outcome(
        result=result,
        report=privacy_report(params, stance, found.verdict, counts),
        files=(file,),
        plots=plots(after, np.sort(order)),
        evaluation=compared,
    )


def suppressed_counts(operations: tuple[Operation, ...], empty: int) -> dict[str, int]:
    """Instances suppressed, in total and by kind of operation; operations; empty paths."""
    instances: Counter[str] = Counter()
    for each in operations:
        instances[each.kind] += each.instances
    kinds = Counter(each.kind for each in operations)
    return {
        "instances": instances["local"] + instances["global"],
        "instances_local": instances["local"],
        "instances_global": instances["global"],
        "local_ops": kinds["local"],
        "global_ops": kinds["global"],
        "empty_paths": empty,
    }
