"""(K,C)_L on trajectories: Table 5.2 and Figure 5.5 of Chen's thesis.

Spec: trajectory-kcl, sections 5 and 8. The source's data are not public and its figures are lost:
stand-ins are generated, and what is expected is recomputed or said in the source's text.
"""

from __future__ import annotations

import io
import json
import time
from dataclasses import dataclass, replace
from fractions import Fraction
from importlib.util import find_spec
from typing import Final

from algorithms.contract import SequentialContext
from algorithms.datasets.trajectories import read_ndjson
from algorithms.trajectory_kcl.algorithm import (
    Anonymised,
    anonymise,
    frequent_losses,
    instance_loss,
)
from algorithms.trajectory_kcl.checker import check
from algorithms.trajectory_kcl.mining import Frequent, maximal_frequent, mine
from algorithms.trajectory_kcl.parameters import Method, Model, PairTable, Utility, code
from algorithms.trajectory_kcl.suppression import build
from reproduction.experiment import Experiment, Outcome, Row, Run, marked
from reproduction.trajectory_kcl_data import Routes, city, routes_like
from simulation.plots import Line, Panel, Plot

SOURCE: Final = "Chen, chapter 5"
SENSITIVE: Final = (("diagnosis", "HIV"), ("diagnosis", "Hepatitis"))
TABLE_51: Final = (
    ("a1 d2 b3 e4 f6 e8", "HIV"),
    ("d2 c5 f6 c7 e9", "Fever"),
    ("b3 c7 e8", "Hepatitis"),
    ("b3 e4 f6 e8", "Flu"),
    ("a1 d2 c5 f6 c7", "HIV"),
    ("c5 f6 e9", "Hepatitis"),
    ("f6 c7 e8", "Fever"),
    ("a1 d2 f6 c7 e9", "Flu"),
)
TABLE_52: Final = "b3e4f6e8; d2c5f6c7e9; c7e8; b3e4f6e8; d2c5f6c7; c5f6e9; f6c7e8; d2f6c7e9"
FULL_MODEL: Final = Model(30, Fraction(3, 5), 3)
_UTILITIES: Final[tuple[Utility, ...]] = ("instances", "mfs")
_CONTEXT: Final = SequentialContext()


# --------------------------------------------------------------------------------------- table 5.2


def table_51() -> PairTable:
    """Table 5.1."""
    records = [
        {"path": [[pair[0], int(pair[1:])] for pair in path.split()], "sensitive": {"diagnosis": d}}
        for path, d in TABLE_51
    ]
    text = "".join(json.dumps(record) + "\n" for record in records)
    return code(read_ndjson(io.BytesIO(text.encode())), SENSITIVE).table


def table_52(run: Run) -> Outcome:  # noqa: ARG001 - nothing is drawn
    """The worked example: Table 5.1 becomes Table 5.2 under (2, 50 %)_2."""
    table = table_51()
    model = Model(2, Fraction(1, 2), 2)
    mined = [_name(table, each) for each in mine(table, model, _CONTEXT).minimal]
    rows = [
        Row("V(T) of Table 5.1", "a1 d2b3 d2e4 d2e8 b3c7", "printed", " ".join(mined)),
        Row("violating sequences, L = 2", 12, "recomputed", check(table, model).violating),
        Row(
            "violating sequences, L = 3",
            38,
            "recomputed",
            check(table, replace(model, length=3)).violating,
        ),
    ]
    before = maximal_frequent(table, 2)
    rows.append(Row("maximal frequent sequences, K' = 2", 6, "printed", len(before.where)))
    left = table
    for utility in _UTILITIES:
        found = suppressed(table, model, "local", utility, 2)
        left = found.table
        paths = "; ".join(_name(left, left.path(row)) for row in range(left.records))
        rows.append(Row(f"Table 5.2, {utility}", TABLE_52, "printed", paths))
        order = " ".join(_name(table, (each.pair,)) for each in found.operations)
        rows.append(Row(f"order of suppressions, {utility}", "d2 b3 a1", "recomputed", order))
    rows += [
        Row("instance loss", 5 / 34, "recomputed", instance_loss(table, left), 1e-12),
        Row("MFS loss", 1 / 6, "recomputed", lost_frequent(before, left), 1e-12),
        Row("violating sequences left", 0, "printed", check(left, model).violating),
    ]
    for utility, (instances, lost) in zip(_UTILITIES, ((10, 4), (12, 3)), strict=True):
        found = suppressed(table, model, "global", utility, 2)
        removed = sum(each.instances for each in found.operations)
        rows.append(Row(f"KCL-Global, {utility}: instances", instances, "recomputed", removed))
        share = lost_frequent(before, found.table)
        rows.append(Row(f"KCL-Global, {utility}: MFS loss", lost / 6, "recomputed", share, 1e-12))
    limits = [check(left, replace(model, length=length)).violating for length in (3, 6)]
    known = {_ids(left, pair) for pair in ("d2", "c5", "e9")}
    fitting = sum(known <= set(left.path(row)) for row in range(left.records))
    rows += [
        Row("Table 5.2 does not hide: sequences violating at L = 3", 3, "recomputed", limits[0]),
        Row("and at L = 6", 7, "recomputed", limits[1]),
        Row("records that fit d2, c5, e9", 1, "recomputed", fitting),
    ]
    return Outcome(tuple(rows))


def _name(table: PairTable, sequence: tuple[int, ...]) -> str:
    return "".join(f"{table.locations[pair]}{int(table.times[pair])}" for pair in sequence)


def _ids(table: PairTable, name: str) -> int:
    return next(pair for pair in range(table.pairs) if _name(table, (pair,)) == name)


def suppressed(
    table: PairTable, model: Model, method: Method, utility: Utility, least: int | None = None
) -> Anonymised:
    """The sound form; `least` is K', for utility mfs."""
    return anonymise(table, model, _CONTEXT, method=method, utility=utility, least_frequent=least)


def lost_frequent(before: Frequent, after: PairTable) -> float:
    """The share of U(T) that is not in U(T')."""
    losses = frequent_losses(before, maximal_frequent(after, before.least))
    return float(losses["mfs_loss"] or 0.0)


def is_quick(run: Run) -> bool:
    """Whether a smaller form is asked for."""
    return run.effort.divisor > 1


def generated(run: Run, routes: Routes) -> PairTable:
    """A generated table, the same for the same seed."""
    data = routes_like(routes, run.source("trajectories", repr(routes)))
    return code(data, routes.sensitive_values).table


# -------------------------------------------------------------------------------------- figure 5.5


def figure_55(run: Run) -> Outcome:
    """Seconds over the number of records (4,000 pairs) and of pairs (a million records)."""
    quick = is_quick(run)
    sizes = [n // 100 if quick else n for n in (400_000, 800_000, 1_200_000)]
    dimensions = [d // 50 if quick else d for d in (4_000, 6_000, 8_000)]
    million = 8_000 if quick else 1_000_000
    _compile()
    timed = {}
    cases = [(size, dimensions[0]) for size in sizes] + [(million, d) for d in dimensions]
    for place, (records, dimension) in enumerate(cases):
        timed[records, dimension] = _timed(run, records, dimension)
        run.progress((place + 1) / len(cases))
    lines = []
    for name, chosen in (
        ("records", [(size, dimensions[0]) for size in sizes]),
        ("pairs", [(million, d) for d in dimensions]),
    ):
        at = tuple(float(case[0] if name == "records" else case[1]) for case in chosen)
        stages = ("mining", "suppressing", "checking")
        lines.append(
            Panel(
                f"{dimensions[0]:,} pairs" if name == "records" else f"{million:,} records",
                name,
                "seconds",
                tuple(
                    Line(stage, at, tuple(timed[case].seconds[stage] for case in chosen))
                    for stage in stages
                ),
                "linear",
                "linear",
            )
        )
    rows = [
        Row("violating sequences left", 0, "recomputed", sum(each.left for each in timed.values())),
        *(
            Row(
                f"{records:,} records, {dimension:,} pairs: seconds",
                None,
                "quoted",
                each.total,
            )
            for (records, dimension), each in timed.items()
        ),
    ]
    if not quick:
        largest = timed[million, dimensions[-1]].total
        rows.append(
            Row("a million records, 8,000 pairs: below 300 s", True, "trend", largest < 300)
        )
    plot = Plot("chen-fig-5.5", "Scalability (local, K = 30, C = 60 %, L = 3)", tuple(lines))
    notes = ("Suppression keeps instances, not MFS; reading and writing are not in the figures.",)
    data = ("trajectories: generated, the source's are not public",)
    return Outcome(tuple(marked(rows, stand_in=True)), (plot,), data, notes)


def _compile() -> None:
    """Compile the kernel before it is timed; it takes seconds."""
    table = table_51()
    model = Model(2, Fraction(1, 2), 2)
    if find_spec("numba") is not None:
        from algorithms.trajectory_kcl.compiled import CompiledKernel

        CompiledKernel(build(table, model, mine(table, model, _CONTEXT), None).state)


@dataclass(frozen=True)
class _Timed:
    seconds: dict[str, float]
    left: int

    @property
    def total(self) -> float:
        return sum(self.seconds.values())


def _timed(run: Run, records: int, dimension: int) -> _Timed:
    """One run; seconds by stage, from its progress reports."""
    hours = 24
    routes = replace(city(records), blocks=dimension // hours, routes=dimension * 300 // 624)
    table = generated(run, routes)
    marks: list[tuple[float, str]] = []

    def mark(_share: float, stage: str) -> None:
        marks.append((time.perf_counter(), stage))

    start = time.perf_counter()
    found = anonymise(table, FULL_MODEL, SequentialContext(on_progress=mark))
    marks.append((time.perf_counter(), "end"))
    seconds = {"mining": 0.0, "suppressing": 0.0, "checking": 0.0}
    before = start
    stage = "mining"
    for now, following in marks:
        seconds[stage] += now - before
        before = now
        stage = following if following in seconds else "mining"
        if following == "indexing":
            stage = "suppressing"
    return _Timed(seconds, check(found.table, FULL_MODEL).violating)


EXPERIMENTS: Final = (
    Experiment(
        "chen-table-5.2", f"{SOURCE}, Tables 5.1 and 5.2", "the worked example", 1, table_52
    ),
    Experiment("chen-fig-5.5", f"{SOURCE}, Figure 5.5", "seconds over size", 300, figure_55),
)
