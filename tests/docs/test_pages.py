"""The problem types of the page exist, with the statuses that it says.

The page on meters on MQTT, with a real broker and the services of a deployment.

The algorithm that the page on the architecture adds is one: it runs on its own sample.

The changelog tells what a reader can check: the hash of the verifier that browsers run.
"""

from __future__ import annotations

import hashlib
import io
import re
import shutil
import sys
from importlib import import_module
from pathlib import Path

import pytest

import algorithms
import simulation.samples  # noqa: F401
from algorithms import catalogue
from algorithms.contract import Algorithm, SequentialContext
from algorithms.datasets.declaration import DatasetDeclaration
from algorithms.datasets.kinds import read
from cli.services.deployment import Deployment, Running, pair
from common.web.problems import _HTTP_NAMES, status_of
from tacit import errors
from tests.curator.mqtt.broker import EXECUTABLE, WHY, Broker
from tests.docs.walkthrough import walk

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGE = DOCS / "how-to" / "troubleshoot.md"
EXAMPLE = ROOT / "examples" / "column_total"
MODULES = (
    "aggregator.errors",
    "coordinator.errors",
    "coordinator.models.job",
    "curator.errors",
    "algorithms.datasets.kinds",
    "common.web.grants",
    "common.web.problems",
    "tacit.protocol.identities",
)
_ROW = re.compile(r"^\| (`\w+`(?:, `\w+`)*) \| ([\d, ]+) \|", re.MULTILINE)


def known() -> dict[str, set[int]]:
    """Every problem's name with the statuses that it may have."""
    for module in MODULES:
        import_module(module)
    found: dict[str, set[int]] = {}
    for status, name in _HTTP_NAMES.items():
        found.setdefault(name, set()).add(status)
    waiting = [errors.DomainError]
    while waiting:
        for kind in waiting.pop().__subclasses__():
            waiting.append(kind)
            found.setdefault(kind.name, set()).add(status_of(kind.__new__(kind)))
    return found


def test_every_type_exists_with_its_status() -> None:
    table = PAGE.read_text("utf-8").partition("## By problem type")[2]
    rows = _ROW.findall(table)
    assert len(rows) >= 18
    problems = known()
    for names, statuses in rows:
        said = {int(each) for each in statuses.split(",")}
        meant: set[int] = set()
        for name in re.findall(r"\w+", names):
            assert name in problems, name
            meant |= problems[name]
        assert said == meant, names


@pytest.mark.slow
@pytest.mark.skipif(EXECUTABLE is None, reason=WHY)
@pytest.mark.skipif(shutil.which("mosquitto_pub") is None, reason="there is no mosquitto_pub")
def test_meters_on_mqtt(tmp_path: Path) -> None:
    home = tmp_path / ".tacit"
    home.mkdir()
    broker = Broker(tmp_path / "broker")
    broker.start()
    deployment = Deployment.plan(home, 3)
    deployment.save()
    settings = {"TACIT_MQTT_HOST": "127.0.0.1", "TACIT_MQTT_PORT": str(broker.port)}
    running = Running(deployment, {"curator": settings})
    try:
        running.start()
        pair(deployment)
        walk(DOCS / "how-to" / "enrol-curators.md", tmp_path, {"COLUMNS": "110"})
        around = {"BROKER_PORT": str(broker.port), "CURATOR": deployment.curator.url}
        walk(DOCS / "how-to" / "meters-on-mqtt.md", tmp_path, around)
    finally:
        running.stop()
        broker.stop()


def test_the_algorithm_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(EXAMPLE, tmp_path / EXAMPLE.name)
    monkeypatch.setattr(algorithms, "__path__", [*algorithms.__path__, str(tmp_path)])
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    found: Algorithm = import_module("algorithms.column_total").ALGORITHM
    monkeypatch.setattr(catalogue, "NAMES", (*catalogue.NAMES, found.name))
    del sys.modules["simulation.samples"]
    written = import_module("simulation.samples")  # what `tacit dataset sample` writes
    (sample,) = written.SAMPLES[found.name]()
    job = written.JOBS[found.name]
    declaration = DatasetDeclaration(kind=found.dataset_kind, format=sample.format)
    dataset = read(declaration, io.BytesIO(sample.content))
    params = found.params.model_validate(job.params)
    outcome = found.run(dataset, params, "sound", SequentialContext())
    # 297 kWh and noise of scale 10: beyond 400 with a chance below 1e-17.
    assert abs(outcome.result["total"] - 297) < 400
    assert [line.epsilon for line in outcome.report.verified] == ["1", "2"]


def test_it_has_the_hash_of_the_verifier() -> None:
    content = (ROOT / "common/web/console/static/verify.js").read_bytes()
    assert hashlib.sha256(content).hexdigest() in (ROOT / "CHANGELOG.md").read_text()
