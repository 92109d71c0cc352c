"""Commands that need no service, and errors: one line on standard error, exit code 2."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app
from tacit.report.figures import short
from tests.rules import energy_sum

QUERY = energy_sum(
    name="feeder",
    mechanism="distributed",
    epsilon="1",
    layer="aggregator",
    collusion={"curators": 0, "aggregators": 1},
    min_participants=100,
    n_max=10000,
    deadline_s=60,
)


WRONG = (
    (2, "whatif", "{}"),
    (2, "whatif", json.dumps({**QUERY, "epsilon": 1})),
    (3, "health", "--home", "nowhere"),
    (2, "round", "open", "x", "--from", "2026-01-01T00:00:00Z", "--home", "nowhere"),
    (3, "round", "result", "x", "--url", "http://127.0.0.1:1"),
    (2, "readings", "import", "no-such.csv", "--url", "http://127.0.0.1:1"),
    (2, "serve", "curators"),
)


def test_an_error_is_one_line_and_an_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("TACIT_HOME", "TACIT_URL", "TACIT_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TACIT_DATA_DIR", str(tmp_path))
    for code, *arguments in WRONG:
        done = CliRunner().invoke(app, [str(word) for word in arguments])
        assert (done.exit_code, done.stdout) == (code, ""), arguments
        assert len(done.stderr.strip().splitlines()) == 1
        assert done.stderr.startswith("tacit: ")


def test_a_process_ends_with_its_line_and_code(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", "health", "--home", "nowhere"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin", "TACIT_DATA_DIR": str(tmp_path)},
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("tacit: ")
    assert len(done.stderr.strip().splitlines()) == 1


def test_what_if_tells_when_the_guarantee_falls() -> None:
    done = CliRunner().invoke(app, ("whatif", json.dumps(QUERY), "--participants", "400", "--json"))
    found = json.loads(done.stdout)
    by_colluders = {(item["curators"], item["aggregators"]): item for item in found["guarantees"]}
    assert by_colluders[399, 1] == {
        "curators": 399,
        "aggregators": 1,
        "model": "pure-dp",
        "epsilon": "1",
        "delta": "0",
        "rho": None,
        "reason": None,
    }
    # One more corrupt aggregator than assumed: half a discrete Laplace is left.
    # Spec: aggregation, section 7 (table).
    assert float(by_colluders[0, 2]["delta"]) == pytest.approx(0.3066, abs=0.002)
    assert by_colluders[0, 3]["model"] == "none"
    # Three shares of a half, scale 20 kWh: 2 b Gamma(2) / (sqrt(pi) Gamma(3/2)).
    assert float(found["error"]["parts"][0]["mean_absolute"]) == pytest.approx(25.465, rel=1e-3)


PROFILE = {
    **{"name": "profile", "function": "vector_sum", "dimension": 96, "coordinates": "slots"},
    **{"unit": "kWh", "bounds": ["0", "5"], "max_readings": 96, "window_bound": "18.5"},
    **{"resolution": "0.001", "mechanism": "distributed", "noise": "gaussian", "aggregators": 3},
    **{"rho": "0.002883172", "sharing": "additive", "collusion": {"aggregators": 2}},
    **{"min_participants": 1000, "n_max": 5000, "deadline_s": 600},
    "schedule": {"first_start": "2026-01-01T00:00:00Z", "period_s": 86_400},
}


def test_what_a_year_of_profiles_costs_is_told_in_rho() -> None:
    """Spec: profiles, section 4: 365 such days keep (8, 10^-6). With one of the three draws fewer
    that collude half of the rho is left."""
    done = CliRunner().invoke(app, ("whatif", json.dumps(PROFILE), "--json"))
    found = json.loads(done.stdout)
    rho = {item["aggregators"]: item["rho"] for item in found["guarantees"]}
    assert rho == {0: "0.000961057334", 1: "0.001441586", 2: "0.002883172", 3: None}
    [year] = found["year"]
    assert year.startswith(
        "A year of this schedule, 365 rounds, costs each curator rho 1.06, which is epsilon 8 at"
    )
    shown = CliRunner().invoke(app, ("whatif", json.dumps(PROFILE), "--curators", "0"))
    assert "0.00289" in shown.stdout
    assert "WARNING" not in shown.stdout


def test_a_rule_is_set_beside_noise() -> None:
    rule = {"mechanism": "exact", "rule": {"min_participants": 15}, "min_participants": 15}
    of_noise = ("epsilon", "layer", "collusion")
    kept = {name: value for name, value in QUERY.items() if name not in of_noise}
    shown = CliRunner().invoke(app, ("whatif", json.dumps({**kept, **rule})))
    assert shown.exit_code == 0, shown.output
    assert "at 15 curators, anyone who knows 14 of them knows the last one" in shown.stdout
    noise = {**kept, **rule, "mechanism": "distributed", "epsilon": "1", "rule": None}
    done = CliRunner().invoke(app, ("whatif", json.dumps(noise), "--json"))
    [part] = json.loads(done.stdout)["error"]["parts"]
    width = short(Fraction(part["interval"]["half_width"]))
    assert f"With noise at epsilon 1 instead: sum ± {width}" in shown.stdout
    assert "WARNING" not in shown.stdout  # rounding is not compared with a noise that is none
    words = CliRunner().invoke(app, ("whatif", json.dumps(QUERY))).stdout
    assert "With noise" not in words
    assert "expected error of sum" in words
    assert "epsilon 1" in words


@pytest.mark.slow
def test_who_is_told_to_end_leaves_nothing_running(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "cli.main",
        "up",
        "--aggregators",
        "1",
        "--home",
        str(tmp_path),
    ]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while "Ctrl-C ends it" not in (line := process.stdout.readline()):
            assert line, "it ended by itself"
        services = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert len(services) == 3
        process.terminate()
        assert process.wait(60) == 128 + signal.SIGTERM
    assert not [pid for pid in services if Path(f"/proc/{pid}").exists()]
