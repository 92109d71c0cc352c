"""(K,C)_L on trajectories: what is lost, Figures 5.2 to 5.4 of Chen's thesis.

Spec: trajectory-kcl, section 5. The source's data are not public and its figures are lost:
stand-ins are generated, and what is expected is recomputed or said in the source's text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np

from algorithms.trajectory_kcl.algorithm import instance_loss
from algorithms.trajectory_kcl.parameters import Method, Model, PairTable
from reproduction.experiment import Experiment, Outcome, Row, Run, marked, trend
from reproduction.trajectory_kcl import (
    FULL_MODEL,
    SOURCE,
    generated,
    is_quick,
    lost_frequent,
    suppressed,
)
from reproduction.trajectory_kcl_data import city, metro
from simulation.plots import Line, Panel, Plot

_FREQUENT: Final = 800
_WIDER: Final = 0.05
_WHOLE_PATHS: Final = 8


@dataclass(frozen=True)
class _Set:
    """A stand-in; K in proportion to the records of a route, K' to all records."""

    name: str
    table: PairTable
    per_route: float
    share: float

    def frequent(self, full: float) -> int:
        return max(round(full * self.share), 2)

    def least(self, full: float) -> int:
        return max(round(full * self.per_route), 2)


SCHEMES: Final = ("KCL-Local", "KCL-Global", "Trad-Local", "Trad-Global")


def _sets(run: Run) -> tuple[_Set, ...]:
    """City80K-like and STM460K-like; quick: fewer routes, and a quarter of the records of each."""
    found = []
    for name, full, fewer in (
        ("City80K-like", city(longest=_WHOLE_PATHS), 15),
        ("STM460K-like", metro(longest=_WHOLE_PATHS), 40),
    ):
        routes, per_route, share = full, 1.0, 1.0
        if is_quick(run):
            per_route, share = 0.25, 0.25 / fewer
            routes = replace(full, records=round(full.records * share), routes=full.routes // fewer)
        found.append(_Set(name, generated(run, routes), per_route, share))
    return tuple(found)


def _places(run: Run, *full: float) -> tuple[float, ...]:
    """All places of an axis; quick: every second one."""
    return full[::2] if is_quick(run) else full


def _scheme(name: str, model: Model, *, confidence: bool) -> tuple[Model, Method]:
    """The model of a scheme, and its method; `confidence`: the traditional one bounds it too."""
    if name.startswith("Trad"):
        model = replace(model, length=None)
        if not confidence:
            model = replace(model, confidence=Fraction(1))
    return model, "local" if name.endswith("Local") else "global"


def _losses(each: _Set, model: Model, method: Method) -> tuple[float, float, int]:
    """Instance loss of the run that keeps instances, MFS loss of the one that keeps MFS, and how
    many violating sequences the two tables have."""
    kept = suppressed(each.table, model, method, "instances")
    least = each.frequent(_FREQUENT)
    frequent = suppressed(each.table, model, method, "mfs", least)
    assert frequent.frequent is not None
    left = kept.verdict.violating + frequent.verdict.violating
    return (
        instance_loss(each.table, kept.table),
        lost_frequent(frequent.frequent, frequent.table),
        left,
    )


def _sweep(
    run: Run,
    figure: str,
    title: str,
    label: str,
    places: tuple[float, ...],
    model_at: Callable[[_Set, float], Model],
    *,
    confidence: bool,
) -> tuple[dict[tuple[str, str, str], list[float]], int, tuple[Plot, ...]]:
    """Losses by (set, scheme, metric) over the places; total violating sequences; a plot per
    set."""
    sets = _sets(run)
    found: dict[tuple[str, str, str], list[float]] = {}
    left = 0
    step_done = run.counted(len(sets) * len(SCHEMES) * len(places))
    for each in sets:
        for scheme in SCHEMES:
            for place in places:
                model, method = _scheme(scheme, model_at(each, place), confidence=confidence)
                instances, frequent, bad = _losses(each, model, method)
                found.setdefault((each.name, scheme, "instances"), []).append(instances)
                found.setdefault((each.name, scheme, "mfs"), []).append(frequent)
                left += bad
                step_done()
    plots = tuple(
        Plot(
            f"{figure}-{each.name.partition('-')[0].lower()}",
            f"{title}, {each.name}",
            tuple(
                Panel(
                    metric,
                    label,
                    "utility loss",
                    tuple(
                        Line(scheme, places, tuple(found[each.name, scheme, metric]))
                        for scheme in SCHEMES
                    ),
                    "linear",
                    "linear",
                )
                for metric in ("instances", "mfs")
            ),
        )
        for each in sets
    )
    return found, left, plots


def _local_wins(found: dict[tuple[str, str, str], list[float]]) -> list[Row]:
    """Local against global suppression, by data set and metric."""
    rows = []
    for name in ("City80K-like", "STM460K-like"):
        for metric in ("instances", "mfs"):
            local, other = (float(np.mean(found[name, s, metric])) for s in SCHEMES[:2])
            if metric == "instances":
                rows.append(
                    Row(f"{name}, {metric}: local loses less", True, "trend", local < other)
                )
            improvement = 1 - local / other if other else 0.0
            quoted = {"instances": "75", "mfs": "68"}[metric]
            said = f" (STM460K: {quoted} %)" if name.startswith("STM") else ""
            rows.append(Row(f"{name}, {metric}: improvement{said}", None, "quoted", improvement))
    return rows


_DATA: Final = ("trajectories: generated, the source's are not public",)
_NOTES: Final = (
    "Stand-ins: routes_like. Paths are cut to routes of 8 points, so that L = all can be "
    "enumerated. The source's curves are not printed as numbers.",
    "MFS loss is the share of U(T) that is no longer in U(T').",
)


def figure_52(run: Run) -> Outcome:
    """Loss over K, four schemes; then the spec's own figures on whole routes."""
    found, left, plots = _sweep(
        run,
        "chen-fig-5.2",
        "Utility loss over K (L = 3, C = 60 %)",
        "K of the full size",
        _places(run, 10.0, 20.0, 30.0, 40.0, 50.0),
        lambda each, place: replace(FULL_MODEL, least=each.least(place)),
        confidence=False,
    )
    rows = [Row("violating sequences left, all runs", 0, "recomputed", left), *_local_wins(found)]
    near = [
        found["STM460K-like", "KCL-Local", "instances"],
        found["STM460K-like", "Trad-Local", "instances"],
    ]
    gap = max(abs(a - b) for a, b in zip(*near, strict=True))
    rows.append(Row("STM460K-like: largest gap of L = 3 and L = all, local", None, "quoted", gap))
    if not is_quick(run):
        local, other = (found["STM460K-like", s, "instances"] for s in SCHEMES[:2])
        text = "STM460K-like, instances: local loses at least 75 % less, as printed of STM460K"
        rows += [trend(text, sum(local) <= 0.25 * sum(other)), *_whole_routes(run)]
    return Outcome(tuple(marked(rows, stand_in=True)), plots, _DATA, _NOTES)


_RECOMPUTED: Final = (
    ("City easy", city(), 10, 0.064, 0.822),
    ("City easy", city(), 30, 0.062, 0.822),
    ("City easy", city(), 50, 0.221, 0.813),
    ("City hard", city(noise=0.03), 10, 0.569, 0.910),
    ("City hard", city(noise=0.03), 30, 0.446, 0.906),
    ("City hard", city(noise=0.03), 50, 0.575, 0.906),
    ("STM-like", metro(), 30, 0.147, 0.532),
)


def _whole_routes(run: Run) -> list[Row]:
    """Local and global losses on whole routes, next to those of the spec's prototype."""
    rows = []
    for name, routes, least, local, other in _RECOMPUTED:
        table = generated(run, routes)
        model = replace(FULL_MODEL, least=least)
        ours = instance_loss(table, suppressed(table, model, "local", "instances").table)
        theirs = instance_loss(table, suppressed(table, model, "global", "instances").table)
        at = f"{name}, whole routes, K = {least}"
        rows += [
            Row(f"{at}: local loss (prototype {local})", None, "quoted", ours),
            Row(
                f"{at}: at most .05 above the prototype's",
                True,
                "trend",
                ours <= local + _WIDER,
            ),
            Row(f"{at}: global loss (prototype {other})", None, "quoted", theirs),
            Row(f"{at}: local below global", True, "trend", ours < theirs),
        ]
    return rows


def figure_53(run: Run) -> Outcome:
    """Loss over C; the traditional schemes are confidence bounding."""
    places = _places(run, 0.1, 0.2, 0.4, 0.6, 1.0)
    found, left, plots = _sweep(
        run,
        "chen-fig-5.3",
        "Utility loss over C (L = 3, K = 30)",
        "C",
        places,
        lambda each, place: Model(each.least(30), Fraction(round(place * 10), 10), 3),
        confidence=True,
    )
    rows = [Row("violating sequences left, all runs", 0, "recomputed", left)]
    for name in ("City80K-like", "STM460K-like"):
        local = found[name, "KCL-Local", "instances"]
        rows += [
            Row(
                f"{name}: the loss is highest at the least C",
                True,
                "trend",
                local[0] == max(local),
            ),
            Row(f"{name}: loss at C = 0.1", None, "quoted", local[0]),
            Row(f"{name}: loss at the largest C", None, "quoted", local[-1]),
        ]
    rows = marked(rows + _local_wins(found), stand_in=True)
    return Outcome(tuple(rows), plots, _DATA, _NOTES)


def figure_54(run: Run) -> Outcome:
    """MFS loss over K'."""
    places = _places(run, 400.0, 600.0, 800.0, 1000.0, 1200.0)
    sets = _sets(run)
    rows: list[Row] = []
    panels = []
    step_done = run.counted(len(sets) * len(SCHEMES) * len(places))
    for each in sets:
        model = replace(FULL_MODEL, least=each.least(30))
        lines = []
        spread: dict[str, float] = {}
        losses_of: dict[str, list[float]] = {}
        for scheme in SCHEMES:
            chosen, method = _scheme(scheme, model, confidence=False)
            losses = []
            for place in places:
                least = each.frequent(place)
                run_at = suppressed(each.table, chosen, method, "mfs", least)
                assert run_at.frequent is not None
                losses.append(lost_frequent(run_at.frequent, run_at.table))
                step_done()
            lines.append(Line(scheme, places, tuple(losses)))
            losses_of[scheme] = losses
            spread[scheme] = max(losses) - min(losses)
            rows.append(
                Row(
                    f"{each.name}, {scheme}: loss at K' = 800",
                    None,
                    "quoted",
                    losses[len(losses) // 2],
                )
            )
        rows.append(
            Row(
                f"{each.name}: spread of the local loss over K', less that of the global one",
                None,
                "quoted",
                spread["KCL-Local"] - spread["KCL-Global"],
            )
        )
        for kind in ("KCL", "Trad"):
            local, other = (losses_of[f"{kind}-{way}"] for way in ("Local", "Global"))
            text = f"{each.name}, {kind}: local loses less than global, over all K'"
            rows.append(trend(text, sum(local) < sum(other)))
        panels.append(
            Panel(each.name, "K' of the full size", "MFS loss", tuple(lines), "linear", "linear")
        )
    plot = Plot("chen-fig-5.4", "Utility loss over K' (L = 3, K = 30, C = 60 %)", tuple(panels))
    return Outcome(tuple(marked(rows, stand_in=True)), (plot,), _DATA, _NOTES)


EXPERIMENTS: Final = (
    Experiment("chen-fig-5.2", f"{SOURCE}, Figure 5.2", "loss over K", 300, figure_52),
    Experiment("chen-fig-5.3", f"{SOURCE}, Figure 5.3", "loss over C", 300, figure_53),
    Experiment("chen-fig-5.4", f"{SOURCE}, Figure 5.4", "MFS loss over K'", 200, figure_54),
)
