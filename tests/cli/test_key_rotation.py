"""`tacit keys rotate seal-key` against a deployment: at all aggregators, one, or by address."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner, Result

from cli.main import app
from cli.services.deployment import Deployment


def rotate(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["keys", "rotate", "seal-key", *arguments])


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


def keys(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["keys", *arguments])


def test_an_identity_by_command(deployment: Deployment, tmp_path: Path) -> None:
    """Made, committed to, replaced; each command again changes nothing."""
    [service] = deployment.aggregators
    home = ("--home", str(deployment.directory))

    def shown_and_paired() -> bool:
        listed = CliRunner().invoke(app, ["pair", "list", "--json", *home])
        [aggregator] = json.loads(listed.stdout)
        return bool(aggregator["fingerprint_seen"] == aggregator["fingerprint"])

    assert shown_and_paired()
    (tmp_path / "words").write_text("a passphrase of several words\n")
    words = ("--passphrase-file", str(tmp_path / "words"))
    first, second, third = (tmp_path / f"{number}.key" for number in range(3))
    making = ("next", service.id, "--out", str(first), *words, *home)
    done = keys(*making)
    assert done.exit_code == 0, done.output
    made = first.read_bytes()
    assert first.stat().st_mode & 0o777 == 0o600
    assert keys(*making).stdout == done.stdout
    assert first.read_bytes() == made
    other = keys("next", service.id, "--out", str(third), *words, *home)
    assert (other.exit_code, len(other.stderr.splitlines())) == (1, 1)
    assert "next_key_committed" in other.stderr
    files = ("--next", str(first), "--following", str(second))
    rotating = ("rotate", "identity", service.id, *files, *words, *home)
    (tmp_path / "wrong").write_text("another passphrase of words\n")
    wrong = ("--passphrase-file", str(tmp_path / "wrong"))
    refused = keys("rotate", "identity", service.id, *files, *wrong, *home)
    assert (refused.exit_code, len(refused.stderr.splitlines())) == (2, 1)
    assert not second.exists()
    rotated = keys(*rotating)
    assert rotated.exit_code == 0, rotated.output
    assert rotated.stdout.startswith("identity 1: key ")
    assert keys(*rotating).stdout == rotated.stdout
    with service.client() as client:
        shown = client.get("/.well-known/tacit-aggregator")["fingerprint"]
    assert f"key {shown}," in rotated.stdout
    fingerprint = rotated.stdout.split("document ")[1].split()[0]
    confirmed = keys("confirm", service.id, fingerprint, *home)
    assert confirmed.exit_code == 0, confirmed.output
    assert confirmed.stdout.startswith(f"{service.id}: {shown} ")
    assert shown_and_paired()  # though the coordinator looked just before
    unknown = keys("confirm", service.id, "00" * 32, *home)
    assert (unknown.exit_code, "key_not_anchored" in unknown.stderr) == (4, True)


def test_a_partys_identity_by_command(deployment: Deployment, tmp_path: Path) -> None:
    """A host's key is replaced at its service; a stolen one with a join token for it."""
    home = ("--home", str(deployment.directory))
    [service] = deployment.aggregators

    def on_roster() -> str:
        with service.client() as client:
            [found] = [each for each in client.get("/v1/roster")["parties"] if not each["left"]]
        return str(found["identity_key"])

    before = on_roster()
    done = keys("rotate", "party", "gateway", *home)
    assert (done.exit_code, done.stdout) == (0, "identities replaced: 1\n"), done.output
    planned = on_roster()
    unknown = keys("rotate", "party", "nobody", *home)
    assert (unknown.exit_code, len(unknown.stderr.splitlines())) == (2, 1)
    asked = ("enroll", "token", "gateway", "--curators", "2", "--replaces", *home)
    (tmp_path / "token").write_text(CliRunner().invoke(app, asked).stdout)
    stolen = ("rotate", "party", "gateway", "--compromised", str(tmp_path / "token"), *home)
    for _ in range(2):  # the same again changes nothing
        assert keys(*stolen).exit_code == 0
    assert len({before, planned, on_roster()}) == 3
