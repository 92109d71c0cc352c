"""Whose noise remains in each collusion scenario, and how the adversary is described."""

import pytest

from tacit.accounting.scenarios import (
    Honest,
    Scenario,
    assumption,
    described,
    honest_draws,
    openers,
    trust_model,
)
from tacit.query.query import Query
from tests.tacit.accounting.examples import LETTERS, distributed
from tests.tacit.examples import query

# --------------------------------------------------------------------------------- honest parties


def test_honest_draws_of_additive_sharing() -> None:
    q = distributed(collusion={"curators": 4, "aggregators": 2})
    found = {key: honest_draws(q, Scenario(key), 30) for key in LETTERS}
    assert {key: (h.curators, h.aggregators) for key, h in found.items()} == {
        "a": (30, 5),
        "b": (1, 5),
        "c": (1, 1),
        "d": (1, 0),
        "e": (26, 3),
    }
    assert honest_draws(q, Scenario.RECIPIENT, None).curators == 10


def test_honest_draws_of_shamir_count_what_a_manifest_is_sure_to_hold() -> None:
    q = distributed(
        sharing="shamir", threshold=3, c_noise=3, collusion={"curators": 4, "aggregators": 1}
    )
    found = {key: honest_draws(q, Scenario(key), None).aggregators for key in LETTERS}
    assert found == {"a": 3, "b": 3, "c": 1, "d": 0, "e": 2}


UNSHARED = {"mechanism": "local", "epsilon_i": "1", "sharing": "none", "aggregators": 1}


def test_labels_on_the_wire() -> None:
    assert [Scenario(key).label for key in LETTERS] == [
        "recipient",
        "curators",
        "curators-and-aggregators",
        "all-aggregators",
        "assumed",
    ]


def test_how_many_aggregators_open_a_contribution() -> None:
    assert openers(distributed()) == 5
    assert openers(distributed(sharing="shamir", threshold=3, c_noise=3)) == 3
    assert openers(query(**UNSHARED)) == 1


def test_one_operator_for_each_aggregator() -> None:
    for wrong in ("ABCD", "ABCDEF"):
        with pytest.raises(ValueError, match="one operator per aggregator"):
            honest_draws(distributed(), Scenario.ASSUMED, None, wrong)


def test_the_victim_is_always_honest() -> None:
    """All but one of the least number of participants may collude; one more changes nothing."""
    q = distributed(layer="curator", min_participants=3, collusion={"curators": 2})
    assert honest_draws(q, Scenario.ASSUMED, None) == Honest(1, 5, 0)
    assert honest_draws(q, Scenario.ASSUMED, 1) == Honest(1, 5, 0)
    assert honest_draws(q, Scenario.RECIPIENT, 0) == Honest(1, 5, 0)
    assert honest_draws(q, Scenario.RECIPIENT, 7) == Honest(7, 5, 0)


def test_a_local_contribution_is_covered_by_its_own_draw() -> None:
    q = query(**UNSHARED, min_participants=10)
    for key, corrupt in zip(LETTERS, (0, 0, 0, 1, 0), strict=True):
        assert honest_draws(q, Scenario(key), None) == Honest(1, 1 - corrupt, corrupt)


def test_an_operator_of_all_aggregators_sees_single_contributions() -> None:
    q = distributed(collusion={"curators": 3, "aggregators": 1})
    found = honest_draws(q, Scenario.ASSUMED, 10, "AAAAA")
    assert (found.curators, found.aggregators, found.corrupt_aggregators) == (1, 0, 5)
    assert "runs 5 of the 5 aggregators and needs 5" in found.fallen
    # Scenarios without a corrupt aggregator are not touched by who runs them.
    for scenario in (Scenario.RECIPIENT, Scenario.CURATORS):
        assert honest_draws(q, scenario, 10, "AAAAA").fallen is None


def test_an_operator_of_a_quorum_opens_contributions() -> None:
    q = distributed(sharing="shamir", threshold=3, c_noise=3, collusion={"aggregators": 1})
    three = honest_draws(q, Scenario.ASSUMED, None, "AAABC")
    assert three.corrupt_aggregators == 5
    assert "runs 3 of the 5 aggregators and needs 3" in (three.fallen or "")
    two = honest_draws(q, Scenario.ASSUMED, None, "AABCD")
    assert (two.aggregators, two.corrupt_aggregators) == (1, 2)
    assert two.fallen == ("operators run several aggregators: the 1 assumed to collude may bring 2")
    blind = honest_draws(q, Scenario.BLIND_AGGREGATORS, None, "AABCD")
    assert (blind.corrupt_aggregators, blind.fallen) == (2, None)


def test_the_largest_operators_collude_first() -> None:
    """Of operators that run 1, 3 and 2 aggregators, two that collude bring 5."""
    q = distributed(aggregators=6, collusion={"aggregators": 2})
    found = honest_draws(q, Scenario.ASSUMED, None, "ABBBCC")
    assert found.corrupt_aggregators == 5
    quorum = distributed(
        aggregators=6, sharing="shamir", threshold=5, c_noise=5, collusion={"aggregators": 2}
    )
    opened = honest_draws(quorum, Scenario.ASSUMED, None, "ABBBCC")
    assert opened.corrupt_aggregators == 6
    assert "operators that run 5 of the 6 in total, enough" in (opened.fallen or "")


def test_blind_aggregators_are_whole_operators_below_the_openers() -> None:
    """Sizes 3, 3 and 2 of 8: at most 7 learn nothing, and whole operators make 6."""
    q = distributed(aggregators=8)
    assert honest_draws(q, Scenario.BLIND_AGGREGATORS, None, "AAABBBCC").corrupt_aggregators == 6
    assert honest_draws(q, Scenario.BLIND_AGGREGATORS, None, "AAAABBBC").corrupt_aggregators == 7


def described_as(of: Query, key: str, operators: str | None = None) -> str:
    scenario = Scenario(key)
    return described(of, scenario, honest_draws(of, scenario, None, operators))


def test_the_adversary_in_words() -> None:
    q = distributed(collusion={"curators": 4, "aggregators": 2})
    assert described_as(q, "a") == "the recipient of the result alone"
    assert described_as(q, "b") == "the recipient and all other curators"
    assert described_as(q, "c").endswith("from their pieces (4 of 5)")
    assert described_as(q, "c", "AAABB").endswith("from their pieces (3 of 5)")
    assert described_as(q, "c", "AAAAA").endswith("from their pieces (4 of 5)")
    assert described_as(q, "d") == "the recipient, all other curators and all aggregators"
    assert described_as(q, "e") == ("the query's own assumption: 4 curators and 2 of 5 aggregators")


def test_the_adversary_of_a_local_query_in_words() -> None:
    q = query(**UNSHARED, min_participants=10, collusion={"curators": 4})
    assert described_as(q, "a") == "the recipient of the result alone"
    assert described_as(q, "b") == "the recipient and all other curators"
    assert "so none can be added" in described_as(q, "c")
    assert described_as(q, "d") == "the recipient, all other curators and the aggregator"
    assert described_as(q, "e").startswith("the query's own assumption: 4 curators; ")


def test_what_a_round_assumes_in_words() -> None:
    ids = ["one", "two", "three", "four", "five"]
    q = distributed(collusion={"curators": 4, "aggregators": 2})
    assert assumption(q, ids, "ABCDE") == (
        "at most 2 of the aggregators one, two, three, four, five and 4 other curators collude"
    )
    assert assumption(distributed(), ids, "ABCDE").startswith("none of the aggregators one, two")
    opened = assumption(q, ids, "AAAAA")
    assert opened.startswith("nothing of the aggregators one, two, three, four, five: one operator")
    assert assumption(query(**UNSHARED), ["one"], "A").startswith("nothing of the aggregator one ")


def test_names_of_the_dap_draft() -> None:
    q = distributed(min_participants=10, collusion={"curators": 4})
    assert [trust_model(q, Scenario(key), 10) for key in LETTERS] == [
        None,
        None,
        "OAOC",
        "OC",
        "OAMC",
    ]


@pytest.mark.parametrize(
    ("participants", "name"), [(11, "OAMC"), (10, None), (7, None), (6, "OAOC"), (5, "OAOC")]
)
def test_a_minority_of_corrupt_curators(participants: int, name: str | None) -> None:
    """Five corrupt curators: fewer than half of 11, and all but one of 6."""
    q = distributed(collusion={"curators": 5})
    assert trust_model(q, Scenario.ASSUMED, participants) == name


def test_without_sharing_the_draft_has_a_name_for_one_scenario() -> None:
    q = query(**UNSHARED)
    assert [trust_model(q, Scenario(key), 10) for key in LETTERS] == [None, None, None, "OC", None]
