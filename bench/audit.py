"""Does the code lose more privacy than it says? An empirical lower bound on epsilon, beside it.

    python -m bench.audit [--runs 1000000] [--seed 1]

Spec: budget, section 7, checks 7 and 8. A mechanism is a query in a collusion scenario: colluders
subtract their readings and their noise, so that the victim's encoded contribution is left, plus the
honest parties' draws. Both come from the code that services run (`tacit.query.functions.encode`,
`tacit.query.mechanisms.draw` of `curator_plan` and `aggregator_plan`). For two neighbouring
inputs:

1. A family of m events is fixed, from public figures and the two inputs alone (`events`): levels of
   the likelihood ratio, half-lines along the change, and windows around either input.
2. Each input is run N times, and each event counted.
3. Whatever holds at (epsilon, delta) has P(E) <= e^epsilon P'(E) + delta, so for every event and
   both directions epsilon >= ln((P(E) - delta) / P'(E)). With P(E) and P'(E) at the ends of their
   Clopper-Pearson intervals, one-sided at alpha / (4 m), all of these hold together with
   probability 1 - alpha: so does the largest, which is what the audit proves.

It proves that a guarantee is *broken*, never that one holds: it sees one pair of inputs and its own
family of events. Sources: C. Clopper and E. Pearson (1934); Z. Ding and others, "Detecting
violations of differential privacy" (2018); M. Jagielski and others (2020).
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.amounts import Cost
from tacit.accounting.charges import unit_cost
from tacit.accounting.scenarios import Scenario, honest_draws
from tacit.query.functions import Readings, encode, local_sensitivities, parts
from tacit.query.mechanisms import aggregator_plan, curator_plan, draw, draw_by_local_sensitivity
from tacit.query.query import Query
from tacit.query.terms import Function, PrivacyUnit, Stance
from tacit.randomness import NoiseSource, SecureRandom, SeededRandom
from tacit.report.model import Subject
from tacit.report.queries import query_report
from tacit.units import NANO, UNITS

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

RUNS = 1_000_000
ALPHA = 1e-6
LEVELS = 31
WINDOWS = (0.0, 1 / 256, 1 / 64, 1 / 16, 1 / 4)

RECORD, CURATOR = PrivacyUnit.RECORD, PrivacyUnit.CURATOR


# ------------------------------------------------------------------------------ what is audited


@dataclass(frozen=True)
class Case:
    """A mechanism and two neighbouring inputs of one curator, in the query's unit.

    `claim`: the epsilon that the source claims at delta 0, where it claims one.
    """

    name: str
    query: Query
    scenario: Scenario
    unit: PrivacyUnit
    one: tuple[int, ...]
    other: tuple[int, ...]
    claim: Fraction | None = None

    @property
    def verified(self) -> Cost:
        """What the accounting says of this unit and scenario; (None, None): nothing."""
        return unit_cost(self.query, self.scenario, self.unit)


def readings(query: Query, values: Sequence[int]) -> Readings:
    """One curator's readings, in the query's unit and in this order; of a table the cells of its
    records."""
    nano = int(UNITS[query.unit].factor * NANO)
    given, zeros = np.array(values, np.int64), np.zeros(len(values), np.int64)
    return Readings(1, zeros, given * nano, given if query.columns is not None else zeros)


def outcomes(
    query: Query, scenario: Scenario, held: Readings, runs: int, source: NoiseSource
) -> Ints:
    """What the adversary is left with in each of independent runs: (runs, d) ring units."""
    value = encode(query, held).values[0]
    honest = honest_draws(query, scenario, None)
    seen = np.broadcast_to(value, (runs, value.size)).copy()
    plan = curator_plan(query)
    if plan is not None:
        if query.stance is Stance.PAPER:
            local = np.repeat(local_sensitivities(query, held), runs, axis=0)
            declared = tuple(part.sensitivity for part in parts(query))
            seen += draw_by_local_sensitivity(plan, declared, local, source)
        else:
            seen += draw(plan, source, runs)
        for _ in range(honest.curators - 1):  # the others' data is known; their draws are not
            seen += draw(plan, source, runs)
    plan = aggregator_plan(query)
    if plan is not None:
        for _ in range(honest.aggregators):
            seen += draw(plan, source, runs)
    return seen


# -------------------------------------------------------------------------------- what is counted


@dataclass(frozen=True)
class Events:
    """A family of sets of outcomes, fixed before any run.

    `centres`: (2, d) the two inputs without noise; `scales`: (d,) of the narrowest layer. Events:
    `ratio` >= level, `along` >= level, and outcomes within a window of a centre; complements too.
    """

    centres: Ints
    scales: Floats
    ratios: Floats
    levels: Floats
    windows: Floats

    @property
    def names(self) -> tuple[str, ...]:
        plain = (
            *(f"log ratio >= {level:.3g}" for level in self.ratios),
            *(f"beyond {level:.3g} of the change" for level in self.levels),
            *(
                f"within {window:.3g} units of {which}"
                for which in ("one", "other")
                for window in self.windows
            ),
        )
        return (*plain, *(f"not: {name}" for name in plain))

    def counts(self, seen: Ints) -> Ints:
        """How many outcomes fall into each event, in the order of `names`."""
        away = [np.abs(seen - centre) for centre in self.centres]
        ratio = ((away[1] - away[0]) / self.scales).sum(axis=1)
        change = (self.centres[1] - self.centres[0]).astype(np.float64)
        along = (seen - self.centres[0]) @ change / float(change @ change)
        found = [_at_least(ratio, self.ratios), _at_least(along, self.levels)]
        for distance in away:
            farthest = distance.max(axis=1)
            found.append(np.array([(farthest <= window).sum() for window in self.windows]))
        plain = np.concatenate(found)
        return np.concatenate([plain, seen.shape[0] - plain])


def _at_least(values: Floats, levels: Floats) -> Ints:
    return values.size - np.searchsorted(np.sort(values), levels, side="left")


def events(query: Query, one: Readings, other: Readings) -> Events:
    """The family for two inputs: from the query, its noise plans and the inputs; not from runs."""
    centres = np.stack([encode(query, held).values[0] for held in (one, other)])
    if (centres[0] == centres[1]).all():
        raise ValueError("the inputs are told apart by nothing")
    plans = [plan for plan in (curator_plan(query), aggregator_plan(query)) if plan is not None]
    if not plans:
        raise ValueError("a mechanism without noise needs no audit")
    narrowest = [float(min(scales)) for scales in zip(*(p.scales for p in plans), strict=True)]
    scales = np.repeat(narrowest, plans[0].dimensions)
    change = np.abs(centres[1] - centres[0])
    reach = float((change / scales).sum())
    return Events(
        centres,
        scales,
        np.linspace(-reach, reach, LEVELS) - 1e-9,
        np.linspace(-3, 4, LEVELS) - 1e-9,
        np.unique(np.floor(np.array(WINDOWS) * float(change.max()))),
    )


# -------------------------------------------------------------------------------- what it proves


def at_least(hits: Ints, runs: int, alpha: float) -> Floats:
    """Clopper-Pearson: a probability is at least this, but for chance alpha."""
    from scipy.stats import beta

    found: Floats = np.where(hits > 0, beta.ppf(alpha, np.maximum(hits, 1), runs - hits + 1), 0.0)
    return found


def at_most(hits: Ints, runs: int, alpha: float) -> Floats:
    """Clopper-Pearson: a probability is at most this, but for chance alpha."""
    return 1 - at_least(runs - hits, runs, alpha)


@dataclass(frozen=True)
class Finding:
    """What the audit proves: epsilon is at least this at the given delta, and by which event."""

    epsilon: float
    event: str


def proven(
    names: Sequence[str],
    hits: Ints,
    other_hits: Ints,
    runs: int,
    delta: float,
    alpha: float = ALPHA,
) -> Finding:
    """The lower bound on epsilon from the counts of all events under both inputs."""
    each = alpha / (4 * len(names))
    best = Finding(0.0, "none")
    for more, less in ((hits, other_hits), (other_hits, hits)):
        surely = at_least(more, runs, each) - delta
        seldom = at_most(less, runs, each)
        bounds = np.log(np.maximum(surely, 1e-300)) - np.log(seldom)
        place = int(np.argmax(bounds))
        if bounds[place] > best.epsilon:
            best = Finding(float(bounds[place]), names[place])
    return best


@dataclass(frozen=True)
class Counted:
    """How often each event of a family was seen under both inputs, in as many runs of each."""

    names: tuple[str, ...]
    hits: Ints
    other_hits: Ints
    runs: int

    def proves(self, delta: Fraction | None, alpha: float = ALPHA) -> Finding:
        """The bound on epsilon with this delta taken off (None: 0)."""
        taken = float(delta or 0)
        return proven(self.names, self.hits, self.other_hits, self.runs, taken, alpha)


def audit(case: Case, runs: int, source: NoiseSource) -> Counted:
    """Fix the events of a case, then run it and count."""
    one, other = (readings(case.query, values) for values in (case.one, case.other))
    family = events(case.query, one, other)
    hits, other_hits = (
        family.counts(outcomes(case.query, case.scenario, held, runs, source))
        for held in (one, other)
    )
    return Counted(family.names, hits, other_hits, runs)


# ------------------------------------------------------------------------------------- the cases

PLAIN: dict[str, Any] = {
    "name": "audit",
    "function": "sum",
    "unit": "1",
    "bounds": ["0", "100"],
    "max_readings": 2,
    "resolution": "1",
    "privacy_unit": "record",
    "sharing": "additive",
    "aggregators": 3,
    "min_participants": 4,
    "n_max": 1000,
    "deadline_s": 60,
}
LOCAL = {"mechanism": "local", "epsilon_i": "1", "sharing": "none", "aggregators": 1}


def asked(**changes: Any) -> Query:
    """A query with some fields changed, as it comes from the wire."""
    return Query.model_validate_json(json.dumps({**PLAIN, **changes}))


def two_layer(pr_u: str, pr_s: str, **changes: Any) -> Query:
    given = {"epsilon_u": "1", "epsilon_s": "0.5", "pr_u": pr_u, "pr_s": pr_s}
    return asked(mechanism="two-layer", **{**given, **changes})


def distributed(layer: str, t_u: int = 0, t_s: int = 0, **changes: Any) -> Query:
    collusion = {"curators": t_u, "aggregators": t_s}
    return asked(mechanism="distributed", epsilon="1", layer=layer, collusion=collusion, **changes)


def claimed(query: Query) -> Fraction | None:
    """The epsilon that the source claims for this mechanism at delta 0."""
    claim = query_report(query, subject=Subject(kind="query", id=query.name)).claimed
    return None if claim is None or claim.epsilon is None else Fraction(claim.epsilon)


def neighbours(query: Query, unit: PrivacyUnit) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two inputs as far apart as the unit allows, for the functions audited here.

    Some largest record changes are swaps: the window holds one reading more than counts.
    """
    low, high = (int(bound) for bound in query.bounds)
    full = (high,) * query.max_readings
    if unit is CURATOR:
        return full, ()
    if query.function in (Function.HISTOGRAM, Function.TABLE) or low < 0:
        return (low, *full), full
    return full, full[1:]


def _cases(name: str, query: Query, *scenarios: Scenario) -> list[Case]:
    return [
        Case(name, query, scenario, unit, *neighbours(query, unit))
        for scenario in scenarios
        for unit in PrivacyUnit
    ]


def sound_cases() -> list[Case]:
    """Mechanisms with a verified figure: the audit must stay below it."""
    assumed, blind, everyone = Scenario.ASSUMED, Scenario.BLIND_AGGREGATORS, Scenario.EVERYONE
    bins = {"function": "histogram", "edges": ["0", "50", "100"]}
    table = {"function": "table", "columns": {"sex": ["f", "m"]}, "bounds": ["0", "1"]}
    shamir = distributed("aggregator", 0, 1, sharing="shamir", aggregators=5, threshold=3)
    return [
        *_cases("local sum", asked(**LOCAL), assumed),
        *_cases("local sum, own unit curator", asked(**LOCAL, privacy_unit="curator"), assumed),
        *_cases("local sum, bounds of both signs", asked(**LOCAL, bounds=["-50", "100"]), assumed),
        *_cases("local mean", asked(**LOCAL, function="mean"), assumed),
        *_cases("local histogram", asked(**LOCAL, **bins), assumed),
        *_cases("table, aggregators", distributed("aggregator", 0, 2, **table), assumed),
        *_cases("two-layer, both draw", two_layer("1", "1"), blind, everyone),
        *_cases("two-layer, coins of 1/2", two_layer("0.5", "0.5"), blind, everyone),
        *_cases("two-layer, curators sure", two_layer("1", "0.1"), blind),
        *_cases("distributed, aggregators", distributed("aggregator", 0, 2), assumed, blind),
        *_cases("distributed, aggregators, shamir", shamir, assumed),
        *_cases("distributed, aggregators, one too many", distributed("aggregator"), blind),
        *_cases("distributed, curators", distributed("curator", 2), assumed, everyone),
        *_cases("distributed, both", distributed("both", 1, 1), assumed, blind),
    ]


def paper_cases() -> list[Case]:
    """Where the source claims more than holds: the audit must pass the claim."""
    assumed, blind = Scenario.ASSUMED, Scenario.BLIND_AGGREGATORS
    paper = asked(**LOCAL, stance="paper")
    thesis = two_layer("0.0001", "0.01", epsilon_u="7.5", epsilon_s="2.5", resolution="0.01")
    coins = two_layer("0.5", "0.5", resolution="0.01")
    return [
        Case("paper, zeros or one reading", paper, assumed, RECORD, (0, 5), (0,), claimed(paper)),
        Case("paper, with its largest", paper, assumed, RECORD, (1, 27), (1,), claimed(paper)),
        Case("two-layer of the thesis", thesis, blind, RECORD, (100,), (), claimed(thesis)),
        Case("two-layer, coins of 1/2", coins, blind, RECORD, (100,), (), claimed(coins)),
    ]


def unconditional_case() -> Case:
    """Curator 1 of the worked example after x_3 left: readings 1, 2, 3, 4, D = 4, epsilon 1.

    `unconditional` is |U| D / f epsilon = 2 * 4 / 10 = 0.8 (curator 2 has less, 2 * 8 / 26).
    """
    query = asked(**LOCAL, bounds=["0", "4"], max_readings=4)
    claim = max(Fraction(2 * 4, 10), Fraction(2 * 8, 26))
    return Case("unconditional", query, Scenario.ASSUMED, RECORD, (1, 2, 3, 4), (1, 2, 3), claim)


def main() -> int:
    """Audit every case and print; the number of verified figures that were passed."""
    parser = argparse.ArgumentParser(description="empirical lower bounds on epsilon")
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each input")
    parser.add_argument("--seed", type=int, help="repeatable runs (default: secure randomness)")
    options = parser.parse_args()
    source = SecureRandom() if options.seed is None else SeededRandom(options.seed)
    cases = [*sound_cases(), *paper_cases(), unconditional_case()]
    confidence = f"each with confidence 1 - {ALPHA:g} over its whole family of events"
    print(f"{options.runs:,} runs of each input, {confidence}\n")
    print(
        f"{'mechanism':40}{'row':>4}{'unit':>9}{'verified':>10}{'delta':>8}{'proven':>9}"
        f"{'claimed':>9}{'proven at 0':>13}{'s':>6}  verdict"
    )
    broken = 0
    for case in cases:
        start = time.perf_counter()
        counted = audit(case, options.runs, source)
        took = time.perf_counter() - start
        cost = case.verified
        beside, plain = counted.proves(cost.delta), counted.proves(None)
        passed = cost.epsilon is not None and beside.epsilon > cost.epsilon
        broken += passed
        verdict = "VERIFIED FIGURE BROKEN" if passed else ""
        if case.claim is not None and plain.epsilon > case.claim:
            verdict = f"{verdict} the claim is disproved ({plain.event})".strip()
        print(
            f"{case.name:40}{case.scenario.value:>4}{case.unit.value:>9}{_shown(cost.epsilon):>10}"
            f"{_shown(cost.delta):>8}{beside.epsilon:9.4f}{_shown(case.claim):>9}"
            f"{plain.epsilon:13.4f}{took:6.1f}  {verdict}"
        )
    print(f"\n{broken} of {len(cases)} verified figures broken")
    return broken


def _shown(value: Fraction | None) -> str:
    return "-" if value is None else f"{math.ceil(value * 10**4) / 10**4:g}"


if __name__ == "__main__":
    sys.exit(main())
