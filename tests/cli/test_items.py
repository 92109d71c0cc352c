"""`tacit items`: a curator's own sequences and sets, in, listed and gone."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from cli.deployment import Deployment
from cli.items import app


def tacit(deployment: Deployment, *arguments: str, code: int = 0) -> str:
    curator = deployment.curator
    place = ["--url", curator.url, "--token", curator.token]
    done = CliRunner().invoke(app, [*arguments, *place])
    assert done.exit_code == code, done.output
    return done.output


def test_a_file_in_listed_and_gone(deployment: Deployment, tmp_path: Path) -> None:
    file = tmp_path / "visits.spmf"
    file.write_text("home -1 news -1 -2\nnews -1 -2\n")
    form = ("--format", "spmf", "--name", "visits")
    shown = tacit(deployment, "import", "sequences", "house-1", str(file), *form)
    assert "visits: 2 records of 2 different items" in shown
    listed = json.loads(tacit(deployment, "list", "sequences", "house-1", "--json"))
    assert listed["tables"] == [{"name": "visits", "records": 2, "timed": False}]
    tacit(deployment, "import", "transactions", "house-1", str(file), *form, code=2)
    file.write_text("home -1 news -1 -2\nnews\n")
    tacit(deployment, "import", "sequences", "house-1", str(file), *form, code=2)
    assert "visits: 2 records" in tacit(deployment, "list", "sequences", "house-1")
    tacit(deployment, "delete", "sequences", "house-1", "--name", "visits")
    assert json.loads(tacit(deployment, "list", "sequences", "house-1", "--json"))["tables"] == []
