"""Two operators pair their services by command, and a service's settings are checked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cli.services.config import prepare
from cli.services.deployment import Deployment, Running, ServiceAddress
from common.runtime.tls import post_quantum
from tacit.protocol.enrolment import JoinToken
from tacit.protocol.trust import anchors_line

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


def tacit(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("TACIT_")}
    return subprocess.run(
        [sys.executable, "-m", "cli.main", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=kept | environment,
    )


def token(service: ServiceAddress) -> str:
    return (Path(service.directory) / "operator.token").read_text().strip()


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A coordinator and an aggregator that do not know each other."""
    plan = Deployment.plan(tmp_path_factory.mktemp("two"), 1)
    running = Running(plan, {})
    try:
        for service in (plan.coordinator, *plan.aggregators):
            running.start_one(service)
        for service in (plan.coordinator, *plan.aggregators):
            running.wait_for(service)
        yield plan
    finally:
        running.stop()


def test_a_demo_before_the_pairing_says_so(strangers: Deployment, tmp_path: Path) -> None:
    (aggregator,) = strangers.aggregators
    replace(
        strangers, directory=tmp_path, curator=replace(aggregator, kind="curator")
    ).save()  # any that is ready
    early = tacit("demo", "--at", tmp_path)
    assert early.returncode == 2
    assert "not paired with aggregator-1: pair first" in early.stderr


def test_two_operators_pair_and_part(strangers: Deployment, tmp_path: Path) -> None:
    coordinator, (aggregator,) = strangers.coordinator, strangers.aggregators
    at_coordinator = {"TACIT_URL": coordinator.url, "TACIT_TOKEN": token(coordinator)}
    at_aggregator = {"TACIT_URL": aggregator.url, "TACIT_TOKEN": token(aggregator)}
    shown = {
        service.id: json.loads(tacit("pair", "show", service.url, "--json").stdout)
        for service in (coordinator, aggregator)
    }
    first, second = shown["coordinator"]["fingerprint"], shown["aggregator-1"]["fingerprint"]
    assert shown["aggregator-1"]["operator"] == "aggregator-1"
    assert {each["tls_pq"] for each in shown.values()} == {post_quantum()}
    assert shown["aggregator-1"]["policy"]["min_participants"] == 2
    assert "fingerprint" in tacit("pair", "show", aggregator.url).stdout

    # Each side compares what it was told with what it finds.
    wrong = tacit("pair", "coordinator", coordinator.url, "--fingerprint", second, **at_aggregator)
    assert wrong.returncode == 1
    assert "another fingerprint" in wrong.stderr
    colons = ":".join(first[index : index + 2] for index in range(0, 64, 2)).upper()
    made = tacit("pair", "coordinator", coordinator.url, "--fingerprint", colons, **at_aggregator)
    assert made.returncode == 0, made.stderr
    handed = tmp_path / "token"
    handed.write_text(made.stdout)
    approve = ("pair", "aggregator", aggregator.url, "--aggregator-token", handed, "--fingerprint")
    wrong = tacit(*approve, "0" * 64, **at_coordinator)
    assert (wrong.returncode, "another fingerprint" in wrong.stderr) == (1, True)
    assert "paired with aggregator-1" in tacit(*approve, second, **at_coordinator).stdout

    # A new token, while the old one is still good for a minute.
    again = ("pair", "coordinator", coordinator.url, "--fingerprint", first, "--overlap-s", 60)
    handed.write_text(tacit(*again, **at_aggregator).stdout)
    assert "paired with" in tacit(*approve, second, **at_coordinator).stdout

    # The aggregator's operator pins another, and publishes the line over all that it anchors.
    pin = ("pair", "peer", "aggregator-2", "ab" * 32, "--operator", "South Grid")
    assert "is pinned" in tacit(*pin, **at_aggregator).stdout
    line = json.loads(tacit("anchors", "show", "--json", **at_aggregator).stdout)["line"]
    fingerprints = {"aggregator-1": bytes.fromhex(second), "aggregator-2": b"\xab" * 32}
    deployment = shown["coordinator"]["deployment"]
    assert line == anchors_line(deployment, bytes.fromhex(first), fingerprints)

    # Grants of both operators make one join token.
    grants = []
    for name, own in (("coordinator", at_coordinator), ("aggregator", at_aggregator)):
        path = tmp_path / f"{name}.json"
        path.write_text(tacit("enroll", "grant", "house-1", **own).stdout)
        grants.append(path)
    joined = tacit("enroll", "join", "house-1", *grants)
    made_token = JoinToken.from_text(joined.stdout)
    assert (made_token.party, made_token.coordinator.url) == ("house-1", coordinator.url)
    assert [grant.party for grant in made_token.aggregators] == ["aggregator-1"]

    assert tacit("pair", "revoke", **at_aggregator).returncode == 0
    assert "not_paired" in tacit("pair", "revoke", **at_aggregator).stderr
    gone = tacit("pair", "revoke", "--aggregator", "aggregator-1", **at_coordinator)
    assert gone.returncode == 0, gone.stderr
    stranger = replace(aggregator, url=coordinator.url)
    assert (
        "no service of the kind"
        in tacit(*approve[:2], stranger.url, *approve[3:], second, **at_coordinator).stderr
    )


def findings(service: str, **environment: str) -> tuple[int, dict[str, str]]:
    done = tacit("config", "check", service, "--json", **environment)
    return done.returncode, {each["subject"]: each["verdict"] for each in json.loads(done.stdout)}


def test_settings_are_checked_before_a_start(strangers: Deployment, tmp_path: Path) -> None:
    home = tmp_path / "data"
    code, found = findings("curator", TACIT_DATA_DIR=str(home))
    assert (code, set(found.values())) == (0, {"ok"})
    assert not home.exists()  # nothing was made

    code, found = findings("curator", TACIT_DATA_DIR=str(home), TACIT_PROT="1", TACIT_PORT="x")
    assert code == 2
    assert found == {"TACIT_PROT": "warning", "TACIT_PORT": "error"}

    prepare(tmp_path / "tls", [["service"]], 10)
    tls = {
        "TACIT_DATA_DIR": strangers.coordinator.directory,
        "TACIT_TLS_CERTIFICATE": str(tmp_path / "tls/service.pem"),
        "TACIT_TLS_KEY": str(tmp_path / "tls/service.key"),
    }
    code, found = findings("coordinator", TACIT_INSECURE_ALLOW_SEED="true", **tls)
    assert (code, found["tls"], found["database"]) == (0, "warning", "ok")
    assert found["insecure_allow_seed"] == "warning"
    code, found = findings("coordinator", **tls | {"TACIT_TLS_KEY": tls["TACIT_TLS_CERTIFICATE"]})
    assert (code, found["tls"]) == (2, "error")

    refused = "postgresql+asyncpg://nobody@127.0.0.1:1/none"
    code, found = findings(
        "aggregator",
        TACIT_DATA_DIR=str(home),
        TACIT_DATABASE_URL=refused,
        TACIT_HOST="0.0.0.0",
    )
    assert (code, found["database"]) == (2, "error")
    assert found["public_url"] == "warning"
