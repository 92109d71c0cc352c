"""The checks of a soak find what they are there to find; the soak itself is run by the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from simulation.chaos import Access, Plan, Ran, Site, Soak, queries
from simulation.chaos_checks import Account, Check, Contribution, Evidence, checks, document
from tacit.query.query import Query
from tacit.query.terms import Mechanism

PEOPLE = ("a", "b", "c", "d")
NOWHERE = Access("http://127.0.0.1:1", "token")
SITE = Site(NOWHERE, {"x": NOWHERE, "y": NOWHERE}, {"x": ("a", "b"), "y": ("c", "d")}, 3)
Tamper = Callable[[Soak, Evidence], tuple[Soak, Evidence]]


def soak() -> Soak:
    """Two exact rounds, one with noise, one aborted; host y missed the second round."""
    done = Soak(acknowledged={name: {0, 1, 2, 3} for name in PEOPLE})
    done.rounds = [
        Ran(0, "r0", True, "released", None, 4, 15, True),
        Ran(1, "r1", True, "released", None, 2, 3, True),
        Ran(2, "r2", False, "released", None, 4, 77, True),
        Ran(3, "r3", True, "aborted", "an aggregator is gone", None),
    ]
    done.kills["coordinator"] = 3
    return done


def evidence() -> Evidence:
    """What four honest curators and two aggregators would tell of it."""
    numbers = {"a": 0, "b": 1, "c": 64, "d": 65}
    everybody, host_x = frozenset(numbers.values()), frozenset({0, 1})
    made = []
    for round_id in ("r0", "r1", "r2", "r3"):
        for name in PEOPLE:
            missed = round_id == "r1" and name in "cd"
            made.append(Contribution(name, round_id, "missed" if missed else "delivered", True, 1))
    held = {"r0": everybody, "r1": host_x, "r2": everybody}
    return Evidence(
        numbers=numbers,
        values=SITE.values(),
        contributions=tuple(made),
        accepted=dict.fromkeys(PEOPLE, 4),
        manifests={
            **{name: {"agg-1": members, "agg-2": members} for name, members in held.items()},
            "r3": {},
        },
        accounts=tuple(Account(name, (10**6, 0), (10**6, 0)) for name in PEOPLE),
        ledger_verified=True,
        round_debits={"r0": 1, "r1": 1, "r2": 1, "r3": 1},
    )


def failing(tamper: Tamper) -> list[Check]:
    return [item for item in checks(*tamper(soak(), evidence())) if not item.passed]


def test_an_honest_world_passes() -> None:
    found = checks(soak(), evidence())
    assert [item.name for item in found if not item.passed] == []
    made = document(Plan(3, None, 1), soak(), found)
    assert made["passed"] is True
    assert (made["killed"], made["released"], made["aborted"]) == (3, 3, 1)
    assert json.loads(json.dumps(made)) == made


def ran(number: int, **changes: object) -> Tamper:
    def tamper(done: Soak, told: Evidence) -> tuple[Soak, Evidence]:
        done.rounds[number] = replace(done.rounds[number], **changes)
        return done, told

    return tamper


def told(**changes: object) -> Tamper:
    return lambda done, before: (done, replace(before, **changes))


def contributions(change: Callable[[Contribution], list[Contribution]]) -> Tamper:
    def tamper(done: Soak, before: Evidence) -> tuple[Soak, Evidence]:
        made = [new for old in before.contributions for new in change(old)]
        return done, replace(before, contributions=tuple(made))

    return tamper


def without_a(members: frozenset[int]) -> dict[str, frozenset[int]]:
    return {"agg-1": members - {0}, "agg-2": members - {0}}


MANIFESTS = evidence().manifests
FULL = MANIFESTS["r0"]["agg-1"]
CASES: dict[str, tuple[Tamper, str]] = {
    "a round hangs": (ran(3, state="frozen"), "every round ended"),
    "a transcript differs": (ran(0, matches=False), "recombines"),
    "one counted twice": (ran(0, total=16), "every exact sum"),
    "one not counted": (ran(1, total=1), "every exact sum"),
    "two manifests": (
        told(manifests={**MANIFESTS, "r0": {"agg-1": FULL, "agg-2": FULL - {0}}}),
        "hold one manifest",
    ),
    "no manifest": (told(manifests={**MANIFESTS, "r2": {}}), "hold one manifest"),
    "a lost delivery": (
        lambda done, before: ran(0, participants=3, total=14)(
            done, replace(before, manifests={**MANIFESTS, "r0": without_a(FULL)})
        ),
        "acknowledged is in the sum",
    ),
    "in the sum and not debited": (
        contributions(lambda old: [] if (old.curator, old.round) == ("b", "r1") else [old]),
        "was debited for it",
    ),
    "debited twice": (
        contributions(lambda old: [old, old] if (old.curator, old.round) == ("d", "r3") else [old]),
        "debited twice",
    ),
    "a reading lost": (told(accepted={**evidence().accepted, "c": 3}), "acknowledged reading"),
    "a reading twice": (told(accepted={**evidence().accepted, "c": 5}), "acknowledged reading"),
    "an empty contribution": (
        contributions(lambda old: [replace(old, used=0)]),
        "holds its curator's reading",
    ),
    "a running total too high": (
        told(accounts=(Account("a", (2 * 10**6, 0), (10**6, 0)),)),
        "running total",
    ),
    "a broken ledger": (told(ledger_verified=False), "ledger verifies"),
    "a round charged twice": (told(round_debits={"r0": 2}), "ledger verifies"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_wrong_is_found(case: str) -> None:
    tamper, name = CASES[case]
    assert name in " ".join(item.name for item in failing(tamper))


def test_a_check_without_a_case_has_not_passed() -> None:
    found = checks(Soak(), replace(evidence(), contributions=(), accounts=()))
    assert not any(item.passed for item in found if not item.name.startswith("the coordinator"))


def test_the_soaks_queries_are_queries() -> None:
    crowd = tuple(f"meter-{place}" for place in range(24))
    site = Site(NOWHERE, {"x": NOWHERE}, {"x": crowd}, 5)
    made = [Query.model_validate_json(json.dumps(item)) for item in queries(site, 3)]
    assert {item.mechanism for item in made} == {Mechanism.EXACT, Mechanism.DISTRIBUTED}
    assert len({item.digest() for item in made}) == 3
