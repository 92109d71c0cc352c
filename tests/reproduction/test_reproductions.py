"""Every id comes out, and a deliberately wrong variant of what it measures does not."""

from __future__ import annotations

import pytest

from reproduction.experiment import QUICK, Run
from reproduction.registry import CHECKS, checks_of, experiment, experiments
from reproduction.results import checks_made
from simulation.populations import shared_data
from tests.reproduction.wrong_variants import WRONG
from tests.simulation.runs import wrong_rows

IDS = tuple(each.id for each in experiments())


def test_every_id_has_a_wrong_variant() -> None:
    assert set(WRONG) == set(IDS)


def test_every_id_states_once_what_it_checks() -> None:
    assert sorted(" ".join(CHECKS.values()).split()) == sorted(IDS)


@pytest.mark.release
@pytest.mark.parametrize("name", IDS)
def test_an_id_comes_out(name: str) -> None:
    """The control of the next test: without the mistake nothing fails."""
    if shared_data() is None:
        pytest.skip("the public data sets are not beside this clone")
    outcome = experiment(name).run(Run(QUICK, shared_data()))
    assert wrong_rows(outcome) == []
    assert outcome.checked
    kinds, _, data = checks_made(outcome.rows).partition("; ")
    listed, _, listed_data = checks_of(name).partition("; ")
    assert set(kinds.split(", ")) <= set(listed.split(", "))  # a quick run may leave rows out
    assert ("printed" in kinds, data) == ("printed" in listed, listed_data)


@pytest.mark.release
@pytest.mark.parametrize("name", IDS)
def test_a_wrong_variant_does_not_pass(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if shared_data() is None:
        pytest.skip("the public data sets are not beside this clone")
    WRONG[name](monkeypatch)
    assert wrong_rows(experiment(name).run(Run(QUICK, shared_data())))
