"""Commands that tell what the pages of parties and of the data flow tell."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner, Result

from cli.context import console
from cli.main import app
from cli.services.deployment import Deployment


def tacit(deployment: Deployment, *words: str, code: int = 0) -> Result:
    console.width = 200
    done = CliRunner().invoke(app, [*words, "--home", str(deployment.directory)])
    assert done.exit_code == code, done.output
    return done


def told(deployment: Deployment, *words: str) -> Any:
    return json.loads(tacit(deployment, *words, "--json").stdout)


def test_who_is_in_and_whether_aggregators_are_there(deployment: Deployment) -> None:
    [aggregator] = told(deployment, "pair", "list")
    assert aggregator["reachable"] is True
    assert aggregator["fingerprint"] == aggregator["fingerprint_seen"]
    assert "reachable" in tacit(deployment, "pair", "list").stdout
    [party] = told(deployment, "enroll", "list", "--prefix", "gate")
    assert (party["id"], party["curators"]) == ("gateway", 2)
    assert told(deployment, "enroll", "list", "--prefix", "none") == []


def test_an_invitation_is_listed_and_withdrawn(deployment: Deployment) -> None:
    with deployment.coordinator.client() as client:
        secret = client.parties.grant("late-party")["grant"]["secret"]
    listed = tacit(deployment, "enroll", "invitations", "--json").stdout
    assert secret not in listed
    [grant] = [each for each in json.loads(listed) if each["party"] == "late-party"]
    tacit(deployment, "enroll", "withdraw", grant["id"])
    done = tacit(deployment, "enroll", "withdraw", grant["id"], code=2)
    assert done.stderr.startswith("tacit: unknown_grant")
    assert len(done.stderr.strip().splitlines()) == 1
    left = told(deployment, "enroll", "invitations")
    assert grant["id"] not in [each["id"] for each in left]


def test_the_flow_of_a_deployment(deployment: Deployment) -> None:
    found = told(deployment, "round", "flow")
    [aggregator] = found["aggregators"]
    assert aggregator["problem"] is None
    text = tacit(deployment, "round", "flow").stdout
    assert aggregator["id"] in text
    assert "nothing proves them" in text.replace("\n", " ")


WRONG = (
    (("round", "flow", "--from", "yesterday"), "/from"),
    (("round", "received", "nothing"), "unknown_round"),
    (("job", "compare", "a", "b"), "unknown_job"),
    (("enroll", "list", "--prefix", "%"), "/prefix"),
)


def test_an_error_is_one_line(deployment: Deployment) -> None:
    for words, problem in WRONG:
        done = tacit(deployment, *words, code=2)
        assert done.stdout == ""
        assert problem in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
