"""`tacit budget own`: a curator's own ledger, and what each of its figures assumes."""

from __future__ import annotations

import json
import time
from typing import Any

from typer.testing import CliRunner

from cli.deployment import Deployment
from cli.main import app

ASKED: dict[str, Any] = {
    "name": "own-ledger",
    "function": "sum",
    "unit": "kWh",
    "bounds": ["0", "1"],
    "max_readings": 4,
    "resolution": "0.001",
    "mechanism": "local",
    "epsilon_i": "0.5",
    "sharing": "none",
    "aggregators": 1,
    "min_participants": 2,
    "n_max": 1000,
    "deadline_s": 2,
}
WINDOW = {"start": "2025-03-01T00:00:00Z", "end": "2025-03-01T01:00:00Z"}


def own(deployment: Deployment, *arguments: str) -> Any:
    home = str(deployment.directory)
    return CliRunner(env={"COLUMNS": "200"}).invoke(
        app, ["budget", "own", *arguments, "--home", home]
    )


def test_each_figure_is_shown_with_what_it_assumes(deployment: Deployment) -> None:
    with deployment.coordinator.client() as client:
        query = client.create_query(ASKED)["id"]
        opened = client.open_round(query, window=WINDOW)["id"]
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
