"""The driver in process against plain sums, its own events, and the services' law."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, islice, repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import ks_2samp

from cli.services.deployment import Deployment, Running, join_token, pair
from cli.services.up import service_settings
from simulation import in_process_driver
from simulation.in_process_driver import InProcess, agreed
from simulation.network import PERFECT, Network
from simulation.populations import Population, Rates, RoundEvents, quiet, stream
from simulation.services_driver import Services
from simulation.simulated_rounds import Outcome
from tacit.protocol.enrolment import PartyKind
from tacit.protocol.round.state import RoundState
from tacit.query.functions import decode
from tacit.query.proofs import proof_plan
from tacit.query.query import Query
from tacit.randomness import SeededRandom
from tests.property_examples import examples
from tests.tacit.examples import METERED
from tests.tacit.examples import query as example

SHAMIR = {"sharing": "shamir", "aggregators": 5, "threshold": 3}
PROVED = {"validity": "proved", "sharing": "additive"}
FALSE_ALARM = 1e-6


def query(**changes: Any) -> Query:
    exact = {"mechanism": "exact", "epsilon": None, "max_readings": 3, "deadline_s": 100}
    return example(**{**METERED, **exact, **changes})


def people(curators: int, most: int = 4, seed: int = 1) -> Population:
    """Curators with 0 to `most` readings of three decimals; some pass the query's bounds."""
    generator = SeededRandom(seed).generator
    counts = generator.integers(0, most + 1, curators)
    values = np.round(generator.uniform(-0.2, 2.2, int(counts.sum())), 3)
    bounds = (Fraction(0), Fraction(2))
    return Population("few", counts, values, "kWh", bounds, 3, Fraction(1, 1000), "made up")


def run(
    asked: Query,
    population: Population,
    events: Iterator[RoundEvents] | None = None,
    network: Network = PERFECT,
    rounds: int = 1,
    seed: int = 7,
) -> list[Outcome]:
    everything = events or repeat(quiet(population.curators))
    driver = InProcess(SeededRandom(seed))
    return list(driver.run(asked, population, rounds, everything, network))


def plain_sum(population: Population) -> Fraction:
    """The clamped sum of the first three readings of everybody, by hand."""
    total = Fraction(0)
    for place in range(population.curators):
        for value in population.readings_of(place)[:3]:
            total += min(max(Fraction(str(value)), Fraction(0)), Fraction(2))
    return total


@pytest.mark.parametrize("block", [7, 1 << 16])
@pytest.mark.parametrize("sharing", [{}, SHAMIR], ids=["additive", "shamir"])
def test_an_exact_round_is_the_plain_sum(
    sharing: dict[str, Any], block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_process_driver, "BLOCK_CURATORS", block)
    population, asked = people(40), query(**sharing)
    (outcome,) = run(asked, population)
    assert outcome.state is RoundState.RELEASED
    assert outcome.participants == outcome.enrolled == 40
    assert outcome.opened is not None
    assert Fraction(decode(asked, outcome.opened)["sum"]) == plain_sum(population)
    assert np.array_equal(outcome.opened, outcome.truth)
    assert np.array_equal(outcome.opened, outcome.held)


@pytest.mark.parametrize(
    "function",
    [
        {"function": "count"},
        {"function": "mean"},
        {"function": "variance"},
        {"function": "histogram", "edges": ["0", "0.5", "1", "2"]},
        {"function": "vector_sum", "dimension": 6, "l1_bound": "2"},
    ],
    ids=lambda item: item["function"],
)
def test_every_function_is_summed(function: dict[str, Any]) -> None:
    population = people(30)
    asked = query(**function)
    (outcome,) = run(asked, population)
    assert outcome.opened is not None
    assert np.array_equal(outcome.opened, outcome.truth)
    counted = int(np.minimum(population.counts, 3).sum())
    result = decode(asked, outcome.opened)
    if function["function"] == "histogram":
        assert sum(map(int, result["histogram"])) == counted
    elif "count" in result:
        assert int(result["count"]) == counted
    else:
        assert sum(map(Fraction, result["vector"])) == plain_sum(population)


def test_who_sends_nothing_is_not_in_the_sum() -> None:
    population, asked = people(50), query()
    rates = Rates(outside=0.2, join=0.3, leave=0.1, refresh=0.3, dropout=0.2)
    events = list(islice(stream(50, rates, SeededRandom(4)), 5))
    for event, outcome in zip(events, run(asked, population, iter(events), rounds=5), strict=True):
        values = []
        for whose in event.readings_of:
            one = population.readings_of(whose)[:3]
            clamped = [min(max(Fraction(str(value)), Fraction(0)), Fraction(2)) for value in one]
            values.append(int(sum(clamped, Fraction(0)) * 1000))
        assert int(outcome.opened[0]) == sum(np.array(values)[event.sends])
        assert int(outcome.truth[0]) == sum(np.array(values)[event.enrolled])
        assert outcome.participants == event.sends.sum() < outcome.enrolled
    assert not np.array_equal(events[-1].readings_of, np.arange(50))


def test_a_liar_reports_the_most_that_a_clamp_lets_through() -> None:
    population, asked = people(20), query()
    lying = np.zeros(20, np.bool_)
    lying[[3, 11]] = True
    event = replace(quiet(20), lying=lying)
    (honest,) = run(asked, population)
    (outcome,) = run(asked, population, repeat(event))
    assert np.array_equal(outcome.truth, honest.truth)
    theirs = replace(quiet(20), sends=lying, enrolled=lying)
    (of_two,) = run(asked, population, repeat(theirs))
    most = 2 * 3 * 2000  # two liars, three readings, 2 kWh each
    assert int(outcome.opened[0]) == int(honest.truth[0]) - int(of_two.truth[0]) + most


def test_who_is_non_compliant_adds_no_noise() -> None:
    asked = query(mechanism="two-layer", epsilon_u="1", epsilon_s="1", pr_u="1", pr_s="0")
    population = people(20)
    everybody = np.ones(20, np.bool_)
    (silent,) = run(asked, population, repeat(replace(quiet(20), non_compliant=everybody)))
    assert np.array_equal(silent.opened, silent.held)
    (noisy,) = run(asked, population)
    assert not np.array_equal(noisy.opened, noisy.held)


def test_noise_of_a_proved_round_is_clamped() -> None:
    """With a tail so large that the bound is near two scales it shows."""
    noise = {"mechanism": "two-layer", "epsilon_u": "1", "epsilon_s": "1", "pr_u": "1", "pr_s": "0"}
    asked = query(**noise, **PROVED, noise_tail="0.99", n_max=2, min_participants=2)
    (bound,) = proof_plan(asked).of(1).function.noise_bounds
    drawn = [abs(int(each.opened[0] - each.held[0])) for each in run(asked, people(2), rounds=300)]
    assert max(drawn) <= 2 * bound
    free = query(**noise)
    drawn = [abs(int(each.opened[0] - each.held[0])) for each in run(free, people(2), rounds=300)]
    assert max(drawn) > 2 * bound


def test_too_few_is_no_sum() -> None:
    sends = np.zeros(20, np.bool_)
    sends[:4] = True
    asked = query(min_participants=5)
    (outcome,) = run(asked, people(20), repeat(replace(quiet(20), sends=sends)))
    assert (outcome.state, outcome.reason) == (RoundState.ABORTED, "too_few_participants")
    assert outcome.opened is None
    assert outcome.forecast == ()


def test_who_comes_late_is_out() -> None:
    late = np.zeros(20)
    late[5:] = 101.0
    (outcome,) = run(query(), people(20), repeat(replace(quiet(20), late_s=late)))
    assert outcome.participants == 5
    (outcome,) = run(query(), people(20), network=Network(reorder=1.0, hold_s=101.0))
    assert outcome.state is RoundState.ABORTED


def test_a_bad_network_loses_curators_and_no_sum() -> None:
    population = people(300)
    network = Network(delay_s=20.0, loss=0.3, retry_s=10.0, duplicate=0.1)
    (additive,) = run(query(), population, network=network)
    (shamir,) = run(query(**SHAMIR), population, network=network)
    for outcome in (additive, shamir):
        assert np.array_equal(outcome.opened, outcome.held)
        assert 0 < outcome.participants < 300
        assert outcome.traffic.lost > 0
        assert outcome.traffic.duplicates > 0
    # Three of five aggregators are enough, all three of three are not so lucky.
    assert shamir.participants > additive.participants


@examples(100)
@given(hnp.arrays(np.bool_, st.tuples(st.just(5), st.integers(1, 12))))
def test_the_best_quorum_by_search(held: np.ndarray) -> None:
    members = agreed(query(**SHAMIR), held)
    choices = [c for size in (3, 4, 5) for c in combinations(range(5), size)]
    most = max(held[list(choice)].all(axis=0).sum() for choice in choices)
    assert members.sum() == most
    assert any(np.array_equal(held[list(choice)].all(axis=0), members) for choice in choices)
    assert np.array_equal(agreed(query(), held[:3]), held[:3].all(axis=0))


@pytest.mark.parametrize(
    "noise",
    [
        {
            "mechanism": "distributed",
            "epsilon": "1",
            "layer": "both",
            "min_participants": 5,
            "collusion": {"curators": 1, "aggregators": 1},
        },
        {"mechanism": "local", "epsilon_i": "1", "sharing": "none", "aggregators": 1},
        {"mechanism": "distributed", "epsilon": "1", **SHAMIR, "c_noise": 3},
    ],
    ids=["both layers", "local", "shamir"],
)
def test_noise_is_as_large_as_forecast(noise: dict[str, Any]) -> None:
    """100 sums of 50 coordinates: the mean of |noise| within five standard errors of the rounds'
    means."""
    asked = query(function="vector_sum", dimension=50, l1_bound="2", **noise)
    outcomes = run(asked, people(12), rounds=100)
    found = np.array([np.abs(item.opened - item.held).mean() for item in outcomes])
    expected = outcomes[0].forecast[0].mean_absolute * 1000
    assert abs(found.mean() - expected) < 5 * found.std() / np.sqrt(found.size)


def test_what_cannot_be_simulated_is_refused() -> None:
    with pytest.raises(ValueError, match="n_max"):
        run(query(n_max=10), people(11))
    with pytest.raises(ValueError, match="m3"):
        run(query(unit="m3"), people(5))
    vectors = {"function": "vector_sum", "coordinates": "values", "dimension": 2}
    with pytest.raises(ValueError, match="single readings"):
        run(query(**vectors, l1_bound="2"), people(5))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A coordinator and three aggregators."""
    deployment = Deployment.plan(tmp_path_factory.mktemp("services"), 3)
    it = Running(deployment, service_settings(exact_from=2))
    needed = (deployment.coordinator, *deployment.aggregators)
    try:
        for service in needed:
            it.start_one(service)
        for service in needed:
            it.wait_for(service)
        pair(deployment)
        yield it
    finally:
        it.stop()


def through_services(
    running: Running, party: str, asked: Query, population: Population, **more: Any
) -> list[Outcome]:
    deployment = running.deployment
    token = join_token(deployment, party, PartyKind.HOST, population.curators, 600)
    operator = Path(deployment.coordinator.directory, "operator.token").read_text().strip()
    driver = Services(
        deployment.coordinator.url,
        operator,
        token.to_text(),
        deployment.directory / party,
        SeededRandom(3),
    )
    events = more.get("events") or repeat(quiet(population.curators))
    network = more.get("network", PERFECT)
    try:
        return list(driver.run(asked, population, more["rounds"], events, network))
    finally:
        with deployment.coordinator.client() as client:
            client.parties.remove(party)


@pytest.mark.slow
@pytest.mark.parametrize(
    "sharing", [{**SHAMIR, "aggregators": 3, "threshold": 2}, PROVED], ids=["shamir", "proved"]
)
def test_services_do_the_same_under_events_and_faults(
    running: Running, sharing: dict[str, Any]
) -> None:
    population, name = people(25), f"events-{sharing['sharing']}"
    asked = query(**sharing, name=name, deadline_s=60)
    rates = Rates(outside=0.2, join=0.4, leave=0.1, refresh=0.2, dropout=0.2, liar=0.1)
    events = list(islice(stream(25, rates, SeededRandom(4)), 4))
    network = Network(delay_s=0.01, loss=0.4, duplicate=0.4, reorder=0.2)
    found = through_services(
        running, f"un{name}", asked, population, events=iter(events), network=network, rounds=4
    )
    here = run(asked, population, iter(events), rounds=4)
    for ours, theirs in zip(here, found, strict=True):
        assert theirs.state is RoundState.RELEASED
        assert np.array_equal(theirs.opened, ours.opened)
        assert np.array_equal(theirs.truth, ours.truth)
        assert theirs.participants == ours.participants
    assert sum(item.traffic.lost + item.traffic.lost_answers for item in found) > 0
    assert sum(item.traffic.duplicates for item in found) > 0
    silent = replace(quiet(25), non_compliant=np.ones(25, np.bool_))
    with pytest.raises(ValueError, match="always adds its noise"):
        through_services(
            running, f"mute-{name}", asked, population, events=repeat(silent), rounds=1
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    "noise",
    [
        {"mechanism": "distributed", "epsilon": "1", "layer": "both", **SHAMIR},
        {
            "mechanism": "two-layer",
            "epsilon_u": "1",
            "epsilon_s": "1",
            "pr_u": "1",
            "pr_s": "1",
            "sharing": "additive",
        },
        {**PROVED, "mechanism": "distributed", "epsilon": "1", "layer": "both"},
        {
            **PROVED,
            "mechanism": "two-layer",
            "epsilon_u": "1",
            "epsilon_s": "1",
            "pr_u": "1",
            "pr_s": "1",
        },
    ],
    ids=["distributed", "two-layer", "proved-distributed", "proved-two-layer"],
)
def test_the_law_of_what_is_released_is_the_services(
    running: Running, noise: dict[str, Any]
) -> None:
    """The noise of the same sum, coordinate by coordinate, by the two-sample test of Kolmogorov and
    Smirnov. It fails by chance for one run in a million; a scale that is off by half it finds."""
    population = people(3)
    vectors = {"function": "vector_sum", "dimension": 1024, "l1_bound": "2"}
    if noise["sharing"] == "shamir":
        noise = {**noise, "aggregators": 3, "threshold": 2}
    given = {**vectors, **noise, "min_participants": 3, "deadline_s": 60}
    name = "-".join((noise.get("validity", "declared"), noise["mechanism"]))
    asked = query(**given, name=name)
    found = through_services(running, f"law-{name}", asked, population, rounds=6)
    services = np.concatenate([item.opened - item.held for item in found])
    here = noises(asked, population)
    assert ks_2samp(services, here).pvalue > FALSE_ALARM
    wider = {name: "1.5" for name in ("epsilon", "epsilon_u", "epsilon_s") if name in noise}
    assert ks_2samp(services, noises(query(**{**given, **wider}), population)).pvalue < FALSE_ALARM


def noises(asked: Query, population: Population) -> np.ndarray:
    """The noise of many sums of the driver in process."""
    found = run(asked, population, rounds=60)
    return np.concatenate([item.opened - item.held for item in found])
