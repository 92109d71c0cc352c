"""The ladder from real reports of every kind of query. Spec: console, section 4.2."""

from typing import Any

import pytest

from common.web.console.charts import ladder, promise
from tacit.report.model import Subject
from tacit.report.queries import query_report
from tests.tacit.examples import query


def rungs(participants: int | None = 400, **changes: Any) -> tuple[Any, ...]:
    report = query_report(
        query(**changes), subject=Subject(kind="query", id="q"), participants=participants
    )
    return ladder(report.verified, participants)


def test_a_distributed_query() -> None:
    found = rungs(
        mechanism="distributed",
        epsilon="2.5",
        aggregators=5,
        collusion={"curators": 0, "aggregators": 4},
        min_participants=100,
    )
    assert [rung.sentence for rung in found] == [
        "Anyone who reads this result",
        "… with all 399 other curators",
        "… and 4 of the 5 aggregators",
        "… and all 5 aggregators",
    ]
    hundreds = [rung.hundred for rung in found]
    assert hundreds == sorted(hundreds)
    assert [rung.protected for rung in found] == [True, True, True, False]
    [promised] = [rung for rung in found if rung.promised]
    assert promised is found[2]
    assert promise(promised).endswith("One honest aggregator of 5 is enough.")


def test_a_promise_that_lies_between_two_rungs_is_a_rung_of_its_own() -> None:
    """Curators' shares of noise: with one other curator less is hidden than with none, and more
    than with all."""
    found = rungs(
        mechanism="distributed",
        layer="curator",
        epsilon="1",
        aggregators=3,
        collusion={"curators": 30, "aggregators": 2},
        min_participants=100,
    )
    [promised] = [rung for rung in found if rung.promised]
    assert promised.line.key == "e"
    assert promised.sentence == "… with 30 other curators and 2 of the 3 aggregators"
    assert promised.hundred < 100


@pytest.mark.parametrize(
    "changes",
    [
        {"mechanism": "exact"},
        {
            "mechanism": "two-layer",
            "stance": "paper",
            "epsilon_u": "1",
            "epsilon_s": "1.5",
            "pr_u": "1/400",
            "pr_s": "1/5",
        },
    ],
)
def test_a_query_without_a_guarantee_promises_nothing(changes: dict[str, Any]) -> None:
    found = rungs(**changes)
    assert found
    assert not any(rung.protected or rung.promised for rung in found)
    assert {rung.hundred for rung in found} == {100}
