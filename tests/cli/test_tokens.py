"""`tacit token` against the services of a deployment: made, shown once, listed, revoked."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner, Result

from cli.context import console
from cli.main import app
from cli.services.deployment import Deployment, ServiceAddress
from tacit import Client, Unauthenticated
from tests.coordinator.console.browser import Browser


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


def test_a_console_opens_by_an_address_of_a_minute(deployment: Deployment) -> None:
    asked = ("console", "--no-open", "--json", "--home", str(deployment.directory))
    for more, service in (((), deployment.coordinator), (("--curator",), deployment.curator)):
        found = json.loads(CliRunner().invoke(app, [*asked, *more]).stdout)
        assert found["address"].startswith(f"{service.url}/console/login#")
        assert found["valid_s"] == 60


async def test_an_owner_signs_in_once_by_a_link(deployment: Deployment) -> None:
    place = ("--home", str(deployment.directory))
    link = tacit("link", "house-1", *place).stdout.strip()
    assert link.startswith(f"{deployment.curator.url}/console/login#")
    code = {"code": link.partition("#")[2], "next": "/console"}
    browser, again = Browser(deployment.curator.url), Browser(deployment.curator.url)
    own = {"Sec-Fetch-Site": "same-origin", "Origin": deployment.curator.url}
    assert (await browser.post("/console/login", code, own)).status_code == 303
    assert "What left house-1" in (await browser.get("/console/curators/house-1")).text
    assert (await browser.get("/console/curators/house-2")).status_code == 404
    assert (await again.post("/console/login", code, own)).status_code == 401
    asked = ("--valid-s", "600", "--address", "https://meters.example/", "--json")
    other = json.loads(tacit("link", "house-2", *asked, *place).stdout)
    assert other["address"].startswith("https://meters.example/console/login#")
    tokens = listed("--service", "curator", *place)
    assert tokens[other["token"]]["subject"] == "house-2"
    tacit("revoke", other["token"], "--service", "curator", *place)
    gone = {"code": other["address"].partition("#")[2]}
    assert (await again.post("/console/login", gone, own)).status_code == 401


WRONG = (
    (("link", "house-9"), "/subject"),
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
