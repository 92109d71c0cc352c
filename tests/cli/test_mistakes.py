"""Mistakes of a first day: each ends in one line that names the field and says what it takes.

A real coordinator answers; whoever makes them gets exit code 2 and nothing is stored.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from cli.main import app
from cli.services.deployment import Deployment
from tests.cli.conftest import OPERATOR
from tests.rules import energy_sum

QUERY = energy_sum(
    name="evening",
    bounds=["0", "2"],
    mechanism="distributed",
    epsilon="1",
    min_participants=3,
    n_max=100,
    deadline_s=60,
)
GONE = "00000000-0000-0000-0000-000000000000"
IN_QUERIES: list[tuple[dict[str, Any], str]] = [
    ({"epsilon": 0.5}, '/epsilon: must be a decimal string such as "0.5"'),
    ({"epsilon": "-1"}, "/epsilon: must be above 0 (and at most 10000)"),
    ({"epslon": "1"}, "/epslon: no such field: did you mean epsilon?"),
    ({"collusion": {"curator": 3}}, "/collusion/curator: no such field: did you mean curators?"),
    (
        {"function": "summ"},
        "/function: must be one of sum, count, mean, variance, histogram, vector_sum or",
    ),
    ({"function": "summ"}, "did you mean sum?"),
    ({"sharing": "shamir"}, "/threshold: sharing shamir needs a threshold"),
    ({"aggregators": 0}, "/aggregators: must be at least 1"),
    ({"n_max": 2.5}, "/n_max: must be a whole number"),
    ({"min_participants": 2000}, "/n_max: must reach min_participants"),
    ({"bounds": ["0"]}, "/bounds/1: is needed"),
    ({"bounds": "0-2"}, "/bounds: must be a list"),
    ({"unit": "kwh"}, "/unit: kwh is no unit: kWh?"),
    ({"name": "a b"}, "without blanks"),
    ({"collusion": 2}, "/collusion: must be an object"),
    ({"function": "vector_sum"}, "give dimension, or blocks"),
    ({"delta": "2"}, "/delta: must lie in [0, 1)"),
    ({"window": {"start": "noon", "end": "night"}}, "/window/start: must be an RFC 3339 time"),
]
IN_COMMANDS: list[tuple[tuple[str, ...], str]] = [
    (("round", "result", "nope"), "There is no such round"),
    (("round", "open", GONE), "There is no such query"),
    (("round", "open", GONE, "--from", "2025-11-03T18:00:00Z"), "--from and --to go together"),
    (("job", "show", GONE), "There is no such job"),
    (("job", "preview", "kmeans", "--dataset", "mine"), "/dataset: must be an id as the service"),
    (("job", "preview", "kmean", "--dataset", GONE), "no such algorithm: did you mean kmeans?"),
    (("dataset", "show", GONE), "There is no such dataset"),
    (("query", "preview", "nowhere.json"), "nowhere.json: no such file or directory"),
    (("query", "preview", '{"name": '), "the text given: not JSON, line 1, column 10"),
    (("budget", "limits", '{"limits": [{"epsilon": "lots"}]}'), "/limits/0/epsilon: must be a dec"),
    (("whatif", json.dumps({**QUERY, "mechanism": "gauss"})), "/mechanism: must be one of"),
]


def refused(url: str, *arguments: str) -> str:
    """The one line that a command prints before it ends with 2."""
    place = () if arguments[0] == "whatif" else ("--url", url, "--token", OPERATOR)
    done = CliRunner().invoke(app, [*arguments, *place])
    assert done.exit_code == 2, (arguments, done.output)
    (line,) = done.stderr.strip().splitlines()
    assert "Traceback" not in line and "{" not in line
    return line


def test_a_query_with_a_mistake(coordinator: str) -> None:
    for change, said in IN_QUERIES:
        line = refused(coordinator, "query", "preview", json.dumps({**QUERY, **change}))
        assert line.count(said) == 1, line
        assert "cannot be accepted" not in line


def test_a_command_with_a_mistake(coordinator: str) -> None:
    for arguments, said in IN_COMMANDS:
        assert said in refused(coordinator, *arguments)


def test_nobody_there(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["query", "list", "--home", str(tmp_path)])
    assert done.exit_code == 3 and "start one with `tacit up`" in done.stderr
    done = CliRunner().invoke(app, ["query", "list", "--url", "http://127.0.0.1:9"])
    assert done.exit_code == 3 and "no answer from http://127.0.0.1:9 (" in done.stderr


def test_a_query_for_more_aggregators_than_there_are(deployment: Deployment) -> None:
    """At the preview already, and said once."""
    asked = json.dumps({**QUERY, "aggregators": 7})
    done = CliRunner().invoke(app, ["query", "preview", asked, "--home", str(deployment.directory)])
    assert done.exit_code == 1
    assert done.stderr.count("the query asks for 7 aggregators, and 1") == 1
