"""`tacit token` against the services of a deployment: made, shown once, listed, revoked."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cli.context import console
from cli.deployment import Deployment, ServiceAddress
from cli.main import app
from tacit import Client, Problem, Unauthenticated


def tacit(*arguments: str, columns: int = 200) -> Result:
    console.width = columns  # the environment's counts only before the console is made
    done = CliRunner().invoke(app, ["token", *arguments])
    assert done.exit_code == 0, done.output
    return done


def listed(*place: str) -> dict[str, dict[str, Any]]:
    return {item["id"]: item for item in json.loads(tacit("list", *place, "--json").stdout)}


def opens(service: ServiceAddress, token: str, path: str) -> bool:
    """Whether a token is let in."""
    with Client(service.url, token) as client:
        try:
            client.get(path)
        except Unauthenticated:
            return False
    return True


def test_a_token_from_its_making_to_its_end(deployment: Deployment) -> None:
    place = ("--home", str(deployment.directory))
    asked = ("analyst", "--label", "grid [planning] [/]", "--valid-s", "3600")
    made = tacit("create", *asked, *place)
    token = made.stdout.removesuffix("\n")
    assert token.startswith("tct_analyst_")
    assert "\n" not in token
    assert token not in made.stderr
    assert opens(deployment.coordinator, token, "/v1/rounds")
    (found,) = [item for item in listed(*place).values() if item["label"].startswith("grid")]
    assert found["id"] in made.stderr
    assert (found["scopes"], found["revoked"]) == (["analyst"], None)
    text = tacit("list", *place).stdout
    assert token not in text
    (row,) = [line for line in text.splitlines() if found["id"] in line]
    cells = [cell.strip() for cell in row.split("│")[2:5]]
    assert cells == ["analyst", "grid [planning] [/]", f"valid until {found['expires'][:19]}Z"]
    assert found["id"] in tacit("list", *place, columns=70).stdout
    assert tacit("revoke", found["id"], *place).stdout == f"{found['id']} is revoked\n"
    assert not opens(deployment.coordinator, token, "/v1/rounds")
    (row,) = [line for line in tacit("list", *place).stdout.splitlines() if found["id"] in line]
    assert f"revoked {listed(*place)[found['id']]['revoked'][:19]}Z" in row


def test_a_curators_tokens_are_made_where_it_is_hosted(deployment: Deployment) -> None:
    scope = "device"
    place = ("--home", str(deployment.directory))
    made = json.loads(tacit("create", scope, "--subject", "house-1", *place, "--json").stdout)
    assert (made["scopes"], made["subject"]) == ([scope], "house-1")
    reading = {"time": "2026-01-01T00:00:00Z", "value": "0.5", "unit": "kWh"}
    with Client(deployment.curator.url, made["token"]) as client:
        # `conflict` would be a refusal of another reading: both scopes send the same one
        assert client.send_readings(reading)[0]["status"] in ("accepted", "duplicate")
        with pytest.raises(Problem):
            client.reading_counts("house-2")
    there = (*place, "--service", "curator")
    assert made["id"] in listed(*there)
    assert made["id"] not in listed(*place)
    tacit("revoke", made["id"], *there)
    assert not opens(deployment.curator, made["token"], "/v1/curators/house-1/readings")


WRONG = (
    (("create", "king"), "/scope"),
    (("create", "analyst", "--valid-s", "5"), "/valid_s"),
    (("create", "analyst", "--subject", "house-1"), "/subject"),
    (("create", "device"), "--subject"),
    (("create", "analyst", "--service", "aggregator-1"), "/scope"),
    (("list", "--service", "aggregator-9"), "--service"),
    (("revoke", "nobody"), "unknown_token"),
    (("revoke", ""), "not_found"),
)


def test_a_refusal_is_one_line_that_names_the_field(deployment: Deployment) -> None:
    for arguments, said in WRONG:
        done = CliRunner().invoke(app, ["token", *arguments, "--home", str(deployment.directory)])
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr.startswith("tacit: ")
        assert done.stderr.count("\n") == 1
        assert said in done.stderr
