"""`tacit audit ledger` and `tacit budget own`: checkpoints, and a curator's own ledger."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.main import app
from cli.services.deployment import Deployment
from tests.rules import energy_sum

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
    assert "exists already" in audit(deployment, service, "--write", str(kept), code=2)
    other = next(name for name in SERVICES if name != service)
    assert f"of the {service}'s ledger" in audit(deployment, other, "--check", str(kept), code=2)
    for text in ("[]", "{}", "no JSON"):
        kept.write_text(text)
        audit(deployment, service, "--check", str(kept), code=2)
    audit(deployment, service, "--check", str(tmp_path / "missing.json"), code=2)
    document = {"format": "tacit.ledger-checkpoint/1", "ledger": service, "rows": "x", "head": 7}
    kept.write_text(json.dumps(document))
    audit(deployment, service, "--check", str(kept), code=2)


ASKED = energy_sum(
    name="own-ledger",
    bounds=["0", "1"],
    mechanism="local",
    epsilon_i="0.5",
    sharing="none",
    aggregators=1,
    min_participants=2,
    n_max=1000,
    deadline_s=2,
)
WINDOW = {"start": "2025-03-01T00:00:00Z", "end": "2025-03-01T01:00:00Z"}


def own(deployment: Deployment, *arguments: str) -> Any:
    home = str(deployment.directory)
    return CliRunner(env={"COLUMNS": "200"}).invoke(
        app, ["budget", "own", *arguments, "--home", home]
    )


def test_each_figure_is_shown_with_what_it_assumes(deployment: Deployment) -> None:
    with deployment.coordinator.client() as client:
        query = client.queries.create(ASKED)["id"]
        opened = client.rounds.open(query, window=WINDOW)["id"]
        while client.get(f"/v1/rounds/{opened}")["state"] not in ("released", "aborted"):
            time.sleep(0.2)
    (aggregator,) = deployment.aggregators
    assumes = f"nothing of the aggregator {aggregator.id} or of other curators"
    found = json.loads(own(deployment, "house-1", "--json").output)
    for unit, epsilon in (("record", "0.125"), ("curator", "0.5")):
        debit = found["units"][unit]["debits"][-1]
        assert (debit["round"], debit["epsilon"]) == (opened, epsilon)
        assert debit["assumes"].startswith(assumes)
    text = own(deployment, "house-1").output
    for part in ("Charged to house-1, unit record", "unit curator", "0.125", "nothing of the"):
        assert part in text
    assert text.endswith("columns that may be sent as they are: none\n")


def test_a_curator_that_is_not_hosted_there(deployment: Deployment) -> None:
    done = own(deployment, "nobody")
    assert done.exit_code != 0
    assert done.stdout == ""
    assert "unknown_curator" in done.stderr or "No such curator" in done.stderr
    assert done.stderr.count("\n") == 1
