"""`tacit audit ledger`: a checkpoint is written, kept, and compared with a running service."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.deployment import Deployment
from cli.main import app

SERVICES = ("coordinator", "curator")


def audit(deployment: Deployment, *arguments: str, code: int = 0) -> str:
    """What the command prints when it ends so; a refusal is one line on standard error."""
    home = str(deployment.directory)
    done = CliRunner().invoke(app, ["audit", "ledger", *arguments, "--home", home])
    assert done.exit_code == code, done.output
    if code == 2:
        assert done.stdout == ""
        assert done.stderr.startswith("tacit: ")
        assert done.stderr.count("\n") == 1
    return done.output


@pytest.mark.parametrize("service", SERVICES)
def test_a_checkpoint_is_written_and_compared(
    deployment: Deployment, tmp_path: Path, service: str
) -> None:
    kept = tmp_path / "kept.json"
    assert audit(deployment, service, "--write", str(kept)).startswith("verified: ")
    document = json.loads(kept.read_text())
    assert (document["format"], document["ledger"]) == ("tacit.ledger-checkpoint/1", service)
    found = json.loads(audit(deployment, service, "--check", str(kept), "--json"))
    assert found["verified"] is True
    assert found["rows"] >= document["rows"]
    # The same rows with another hash, and more rows than there are: rewritten, shortened.
    for name, value in (("head", "0" * 64), ("rows", document["rows"] + 1000)):
        other = tmp_path / f"{name}.json"
        other.write_text(json.dumps({**document, name: value}))
        assert "broken at row" in audit(deployment, service, "--check", str(other), code=1)


@pytest.mark.parametrize("service", SERVICES)
def test_what_is_no_checkpoint_is_refused(
    deployment: Deployment, tmp_path: Path, service: str
) -> None:
    kept = tmp_path / "kept.json"
    audit(deployment, service, "--write", str(kept))
    assert "is there already" in audit(deployment, service, "--write", str(kept), code=2)
    other = next(name for name in SERVICES if name != service)
    assert f"of the {service}'s ledger" in audit(deployment, other, "--check", str(kept), code=2)
    for text in ("[]", "{}", "no JSON"):
        kept.write_text(text)
        audit(deployment, service, "--check", str(kept), code=2)
    audit(deployment, service, "--check", str(tmp_path / "missing.json"), code=2)
    document = {"format": "tacit.ledger-checkpoint/1", "ledger": service, "rows": "x", "head": 7}
    kept.write_text(json.dumps(document))
    audit(deployment, service, "--check", str(kept), code=2)
