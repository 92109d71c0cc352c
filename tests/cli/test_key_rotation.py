"""`tacit keys rotate epoch` against a deployment: at all aggregators, one, or by address."""

from __future__ import annotations

import json

from typer.testing import CliRunner, Result

from cli.deployment import Deployment
from cli.main import app


def rotate(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["keys", "rotate", "epoch", *arguments])


def number_of(deployment: Deployment) -> int:
    with deployment.aggregators[0].client() as client:
        number: int = client.get("/v1/seal-keys/current")["statement"]["number"]
    return number


def test_a_seal_key_before_its_time(deployment: Deployment) -> None:
    [service], home = deployment.aggregators, ("--home", str(deployment.directory))
    before = number_of(deployment)
    done = rotate(*home)
    assert done.exit_code == 0, done.output
    assert done.stdout == (
        f"{service.id}: seal key {before + 1} in place of {before} (no new round is opened with "
        "it)\n"
    )
    assert number_of(deployment) == before + 1
    named = rotate(service.id, "--destroy", *home, "--json")
    [found] = json.loads(named.stdout)
    assert found["number"] == before + 2
    assert before + 1 in found["destroyed"]
    token = (deployment.directory / service.id / "operator.token").read_text().strip()
    by_address = rotate("--url", service.url, "--token", token)
    assert by_address.stdout.startswith(f"{service.id}: seal key {before + 3} ")


def test_an_unknown_aggregator_is_one_line(deployment: Deployment) -> None:
    done = rotate("north", "--home", str(deployment.directory))
    assert done.exit_code == 2
    assert done.stderr.splitlines() == [
        f"tacit: there is no aggregator north: one of {deployment.aggregators[0].id}"
    ]
