"""The compose file's services as processes in namespaces of their own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from cli.services import config
from tests.deploy import engine
from tests.deploy.engine import ROOT, Engine, Image

Compose = Callable[..., Engine]


@pytest.fixture
def compose(tmp_path: Path) -> Iterator[Compose]:
    """`compose("postgres", "demo", TACIT_...=...)` starts the default services and those of
    profiles, with these variables over `.env.example`; `meters`: users of the broker, whose
    password is their name; `images`: those that were built. A second start has the first one's
    volumes."""
    why = engine.available()
    if why is not None:
        pytest.skip(f"no services in namespaces: {why}")
    project = tmp_path / "project"
    project.mkdir()
    for name in ("docker-compose.yml", ".env.example"):
        shutil.copy(ROOT / name, project / name)
    shutil.copytree(ROOT / "deploy", project / "deploy")
    config.write(project)
    started: list[Engine] = []

    def prepare(
        *profiles: str,
        meters: Sequence[str] = (),
        images: Mapping[str, Image] | None = None,
        start: bool = True,
        **variables: str,
    ) -> Engine:
        passwords = project / "deploy" / "secrets" / "mqtt_passwords"
        lines = [f"{name}:{config.mosquitto_hash(name)}\n" for name in meters]
        passwords.chmod(0o644)
        passwords.write_text(passwords.read_text() + "".join(lines))
        known = read_env(project / ".env") | variables
        running = tmp_path / "running"
        running.mkdir(exist_ok=True)
        read = engine.read_compose(project / "docker-compose.yml", known)
        it = Engine(read, profiles, running, project, images)
        started.append(it)
        if start:
            it.start()
        return it

    yield prepare
    for it in started:
        it.stop()


def read_env(path: Path) -> dict[str, str]:
    """The variables of an environment file."""
    lines = (line.strip() for line in path.read_text().splitlines())
    kept = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name: value for name, _, value in kept}
