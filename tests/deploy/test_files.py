"""The files of `deploy/` against their schemas, our rules, and the product that they describe."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.services import config
from docs.generate import settings_class
from tests.deploy.conftest import read_env
from tests.deploy.engine import APP, ROOT, read_compose, read_images, used_variables

COMPOSE = ROOT / "docker-compose.yml"
FILES = [COMPOSE, ROOT / "deploy" / "aggregator.compose.yml"]
PROFILES = {"demo", "postgres", "mqtt", "observability", "scale"}
LOADED = yaml.safe_load(COMPOSE.read_text())
EACH = pytest.mark.parametrize(
    ("path", "name"),
    [(path, name) for path in FILES for name in yaml.safe_load(path.read_text())["services"]],
    ids=lambda value: value if isinstance(value, str) else value.name,
)


@pytest.mark.slow
def test_prometheus_rules() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("there is no promtool on this machine (Debian's package prometheus)")
    directory = ROOT / "deploy" / "prometheus"
    rules = ("alerts.test.yml", "alerts.days.test.yml")
    for command in (("check", "config", "prometheus.yml"), ("test", "rules", *rules)):
        done = subprocess.run([promtool, *command], capture_output=True, text=True, cwd=directory)
        assert done.returncode == 0, done.stdout + done.stderr


@EACH
def test_every_service_is_hardened(path: Path, name: str) -> None:
    service = yaml.safe_load(path.read_text())["services"][name]
    assert not service["user"].startswith("0")
    if service["image"].startswith("tacit/"):
        assert service["user"] == "10001:10001"
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "cap_add" not in service
    assert "privileged" not in service
    assert service["ulimits"]["core"] == 0
    assert service["mem_limit"]
    assert service["pids_limit"]
    check = service["healthcheck"]
    assert check.get("disable") or check["test"][0] == "CMD"
    for volume in service.get("volumes", []):
        assert not volume.startswith("/"), "nothing of the machine is mounted"
        assert not volume.startswith(".") or volume.endswith(":ro")
    for name_, value in service.get("environment", {}).items():
        if re.search(r"TOKEN|PASSWORD|KEY$|DATABASE_URL", name_):
            assert name_.endswith("_FILE") or value.startswith("/run/secrets/"), name_


def test_what_runs_without_a_profile_is_small_and_local() -> None:
    default = [name for name, each in LOADED["services"].items() if not each.get("profiles")]
    assert len(default) <= 6
    used = {profile for each in LOADED["services"].values() for profile in each.get("profiles", [])}
    assert used == PROFILES
    for service in LOADED["services"].values():
        for port in service.get("ports", []):
            assert port.startswith(("127.0.0.1:", "${MQTT_ADDRESS:-127.0.0.1}:"))
    assert LOADED["networks"]["storage"]["internal"]
    assert LOADED["networks"]["jobs"]["internal"]


def test_the_example_environment_has_the_variables_that_are_used_and_their_defaults() -> None:
    example = read_env(ROOT / ".env.example")
    used = used_variables(COMPOSE)
    assert set(example) == used | {"COMPOSE_PROFILES"}
    text = COMPOSE.read_text()
    for name in used:
        defaults = set(re.findall(rf"\$\{{{name}:-([^}}]*)\}}", text))
        assert defaults == {example[name]}, name


@pytest.mark.parametrize("role", ["coordinator", "aggregator", "curator"])
def test_every_setting_of_a_service_exists(role: str) -> None:
    known = {f"TACIT_{name}".upper() for name in settings_class(role).model_fields}
    for path in FILES:
        for service in yaml.safe_load(path.read_text())["services"].values():
            if service.get("command") == ["python", "-m", role]:
                given = {name.removesuffix("_FILE") for name in service["environment"]}
                assert given <= known, given - known


def test_images_hold_what_the_floors_allow() -> None:
    images = read_images(ROOT / "deploy" / "Dockerfile")
    assert images["aggregator"].packages == ("tacit", "common", "aggregator")
    assert images["curator"].packages == ("tacit", "common", "curator")
    held = {"tacit", "common", "algorithms", "coordinator"}
    assert set(images["coordinator"].packages) == held
    assert images["tools"].environment["PYTHONPATH"] == APP
    assert images["worker"].packages == images["coordinator"].packages
    locked = {
        role: (ROOT / "deploy" / "requirements" / f"{role}.lock").read_text()
        for role in ("aggregator", "curator", "coordinator", "worker", "tools")
    }
    for heavy in ("scikit-learn", "scipy", "matplotlib", "dask", "pyarrow", "numba"):
        assert f"\n{heavy}==" not in locked["aggregator"]
        assert f"\n{heavy}==" not in locked["curator"]
        assert (f"\n{heavy}==" in locked["coordinator"]) == (heavy != "numba")
        assert f"\n{heavy}==" in locked["worker"]
    for role, lock in locked.items():  # the command line is in one image only
        assert ("\ntyper==" in lock) == (role == "tools")
    assert "\naiomqtt==" in locked["curator"]
    whole = (ROOT / "requirements.lock").read_text()
    locked["demo"] = demo = (ROOT / "requirements-demo.lock").read_text()
    for tool in ("scikit-learn", "dask", "matplotlib", "playwright", "pytest", "ruff", "mypy"):
        assert f"\n{tool}==" in whole
        assert f"\n{tool}==" not in demo
    for role, lock in locked.items():
        pins = set(re.findall(r"^([a-z0-9._-]+==\S+)", lock, re.MULTILINE))
        assert pins <= set(re.findall(r"^([a-z0-9._-]+==\S+)", whole, re.MULTILINE)), role


def test_secrets_are_made_once(tmp_path: Path) -> None:
    shutil.copy(COMPOSE, tmp_path / "docker-compose.yml")
    shutil.copy(ROOT / ".env.example", tmp_path / ".env.example")
    (tmp_path / "deploy").mkdir()
    made = config.write(tmp_path)
    directory = tmp_path / "deploy" / "secrets"
    assert directory.stat().st_mode & 0o777 == 0o700
    compose: dict[str, Any] = read_compose(COMPOSE, read_env(tmp_path / ".env"))
    for secret in compose["secrets"].values():
        assert (tmp_path / secret["file"]).is_file(), secret
    before = {path: path.read_bytes() for path in made}
    (directory / "storage_key").unlink()
    again = config.write(tmp_path)
    assert again == [directory / "storage_key"]
    kept = {path: content for path, content in before.items() if path not in again}
    assert all(path.read_bytes() == content for path, content in kept.items())
    with pytest.raises(FileNotFoundError):
        config.write(tmp_path / "deploy")


def test_the_dashboard_asks_for_metrics_that_there_are() -> None:
    """Every metric of the dashboard and the alerts stands in the sources."""
    dashboard = json.loads((ROOT / "deploy/grafana/dashboards/tacit.json").read_text())
    asked = json.dumps(dashboard) + (ROOT / "deploy/prometheus/alerts.yml").read_text()
    sources = {
        role: "\n".join(
            path.read_text()
            for path in [*(ROOT / role).rglob("*.py"), *(ROOT / "common").rglob("*.py")]
        )
        for role in ("coordinator", "aggregator", "curator")
    }
    found = set(re.findall(r"tacit_(coordinator|aggregator|curator)_([a-z_]+)", asked))
    found |= {("curator", thing) for thing in re.findall(r"tacit_\.\*_([a-z_]+)", asked)}
    assert len(found) > 10
    for role, thing in found:
        name = re.sub(r"_(total|bucket)$", "", thing)
        assert f'"{name}"' in sources[role], f"tacit_{role}_{thing}"
