"""Paths through the coordinator: what each mode costs its dataset."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from tacit.crypto.sealing import SealKey
from tacit.paths.network import NetworkMap
from tacit.paths.recovery import recover
from tacit.wire import encode_binary
from tests.algorithms.path_publishing.examples import SIX
from tests.coordinator.double import problem
from tests.coordinator.jobs.office import Office

NAME = "path-publishing"
KEY = SealKey(b"\5" * 32)
PUBLIC = encode_binary(KEY.public.raw)
_numbers = count()


def network() -> dict[str, Any]:
    """The worked network, with a further vertex so that no other test has the same content."""
    ids = SIX.network.vertices
    edges = [[ids[low], ids[high]] for low, high in SIX.network.edges.tolist()]
    path = [*ids, 100 + next(_numbers)]
    rows = {"vertices": path, "edges": [*edges, path[-2:]], "path": path}
    return {"kind": "network-path", "format": "json", "columns": None, "rows": rows}


def published(it: Office, job: str) -> bytes:
    it.succeeded(job)
    return it.ask("GET", f"/v1/jobs/{job}/files/published.json").content


@pytest.mark.slow
def test_a_complement_costs_nothing(it: Office) -> None:
    dataset = it.rows(None, **network())
    job = it.submit(dataset, NAME, params={})
    report_of = f"/v1/jobs/{job}/report"
    assert b"tacit.complement/1" in published(it, job)
    report = it.ask("GET", report_of).json()
    assert (report["charged"]["epsilon"], report["verified"][0]["epsilon"]) == ("0", "0")
    assert problem(it.ask("GET", f"/v1/jobs/{job}/evaluation")) == (404, "unknown_part")
    again = it.submit(dataset, NAME, params={"evaluate": True})
    assert published(it, again) == published(it, job)
    found = it.ask("GET", f"/v1/jobs/{again}/evaluation").json()
    assert found["evaluation"]["self_test"]["recovered"] is True


def test_labels_are_charged_to_either_unit(it: Office) -> None:
    asked = {"mode": "randomized", "epsilon": "2", "epsilon_dir": "1/2"}
    for unit in ("path-edge", "vertex-pair"):
        dataset = it.rows("3", **network(), privacy_unit=unit)
        it.succeeded(it.submit(dataset, NAME, params=asked))
        assert it.ledger(dataset)["charged"]["epsilon"] == "2.5"
        answer = it.ask("POST", "/v1/jobs", it.job(dataset, NAME, params=asked))
        assert problem(answer) == (409, "budget_exceeded")


def test_a_sealed_path_is_free_and_opens(it: Office) -> None:
    made = network()
    dataset = it.rows(None, **made)
    job = it.submit(dataset, NAME, params={"mode": "sealed", "recipients": [PUBLIC]})
    own = NetworkMap.of(made["rows"]["vertices"], made["rows"]["edges"])
    assert recover(own, published(it, job), private_key=KEY).paths == (tuple(made["rows"]["path"]),)
    assert it.kinds(dataset) == ["declared"]


def test_a_levelled_graph_lies_outside_the_budget(it: Office) -> None:
    dataset = it.rows("5", **network(), purpose="production")
    asked = it.job(dataset, NAME, params={}, stance="paper")
    assert problem(it.ask("POST", "/v1/jobs", asked)) == (422, "unverified_not_acknowledged")
    answer = it.ask("POST", "/v1/jobs", {**asked, "acknowledge_unverified": True, "seed": 3})
    assert answer.status_code == 202
    job = answer.json()["id"]
    assert b"tacit.graph-path/1" in published(it, job)
    assert it.kinds(dataset) == ["declared", "released_outside_budget"]
    found = it.ask("GET", f"/v1/jobs/{job}/evaluation").json()["evaluation"]
    assert found["attack"]["replay"]["candidates"] >= 1
    assert "attack" not in str(it.ask("GET", f"/v1/jobs/{job}/result").json())
