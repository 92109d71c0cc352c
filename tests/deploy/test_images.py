"""The images, built, and the default profile run from their own root file systems."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cli.services.deployment import free_ports
from tests.deploy.conftest import Compose
from tests.deploy.engine import APP, ROOT, Engine, Image, ask, run_job
from tests.deploy.images import Store, buildable

DEFAULT = ("aggregator", "curator", "coordinator", "tools")
MOST_ABOVE_BASE = {
    "aggregator": 120e6,
    "curator": 120e6,
    "coordinator": 450e6,
    "tools": 450e6,
    "worker": 620e6,
}
SERVICES = ("coordinator", "aggregator-a", "aggregator-b", "aggregator-c", "curator")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
Build = Callable[[str], str]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store with nothing but the base."""
    why = buildable()
    if why is not None:
        pytest.skip(f"no images: {why}")
    made = Store(tmp_path_factory.mktemp("images"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def build(store: Store) -> Build:
    """The id of a target's image, built once."""
    built: dict[str, str] = {}

    def one(target: str) -> str:
        if target not in built:
            built[target] = store.build(target)
        return built[target]

    return one


@pytest.fixture(scope="module")
def images(store: Store, build: Build) -> Mapping[str, Image]:
    """The mounted images of the default profile."""
    return {target: store.mounted(build(target)) for target in DEFAULT}


def _pins(lock: str) -> set[str]:
    """Names and versions that a lock file gives this interpreter's release."""
    found = re.findall(r"^([a-z0-9._-]+)==([^\s;]+)([^\n\\]*)", lock, re.MULTILINE)
    old = "python_full_version >= '3.12'"
    foreign = ("sys_platform == 'win32'", "platform_system == 'Windows'", old)
    return {
        f"{name}=={version}"
        for name, version, marker in found
        if not any(item in marker for item in foreign)
    }


@pytest.mark.parametrize("target", list(MOST_ABOVE_BASE))
def test_small_and_nothing_that_no_service_runs(store: Store, build: Build, target: str) -> None:
    image = build(target)
    above = store.size(image) - store.base_size
    assert above <= MOST_ABOVE_BASE[target], f"{above / 1e6:.0f} MB above the base"
    root = store.mounted(image).root
    assert root is not None
    for program in ("pip", "pip3", "gcc", "cc", "ld", "strip", "git"):
        assert shutil.which(program, path=f"{root}/usr/bin:{root}/opt/tacit/bin") is None, program
    app = root / APP.removeprefix("/")
    assert not [path for path in (root / "opt/tacit").rglob("*") if path.name in ("tests", "bench")]
    assert {path.name for path in app.iterdir()} >= {"tacit", "common"}
    config = store.inspect(image)["config"]
    assert config["User"] == "10001:10001"
    bill = json.loads((root / "opt/tacit/bill-of-materials.json").read_text())
    listed = {f"{item['name'].lower()}=={item['version']}" for item in bill["components"]}
    lock = (ROOT / "deploy" / "requirements" / f"{target}.lock").read_text()
    assert {name.replace("_", "-") for name in listed} == _pins(lock)


def test_the_same_input_gives_the_same_image(store: Store, build: Build) -> None:
    first = build("aggregator")
    assert store.build("aggregator", ROOT, "--no-cache") == first


def test_tls_of_services_is_sealed_with_ml_kem_too(store: Store, build: Build) -> None:
    """A service's server and the client by which services call each other, from the image's own
    OpenSSL: each agrees on X25519MLKEM768 with a side that tells, or takes nothing else."""
    root = store.mounted(build("aggregator")).root
    assert root is not None
    run = partial(subprocess.run, capture_output=True, text=True, timeout=60)
    inside = ("chroot", str(root), "env", "PYTHONPATH=/opt/tacit/app", "TACIT_DATA_DIR=/tmp/data")
    python, (port, other) = "/opt/tacit/bin/python", free_ports(2)
    key, certificate = "/tmp/key.pem", "/tmp/certificate.pem"
    made = run(
        [*inside, "openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-days", "2",
         "-subj", "/CN=aggregator", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", key, "-out", certificate]
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    tls = ("TACIT_LOG_LEVEL=error", f"TACIT_PORT={port}", f"TACIT_TLS_AUTHORITY={certificate}",
           f"TACIT_TLS_CERTIFICATE={certificate}", f"TACIT_TLS_KEY={key}")  # fmt: skip
    server = subprocess.Popen([*inside, *tls, python, "-m", "aggregator"])
    picky = subprocess.Popen(
        [*inside, "openssl", "s_server", "-quiet", "-www", "-port", str(other), "-tls1_3",
         "-groups", "X25519MLKEM768", "-cert", certificate, "-key", key]
    )  # fmt: skip
    ask = (
        "import asyncio, sys\n"
        "from common.runtime.tls import environment_trust\n"
        "from common.web.client import service_client\n"
        "async def get(url, path):\n"
        "    async with service_client(url, verify=environment_trust()) as client:\n"
        "        return (await client.call('GET', path)).body.decode()\n"
        "print(asyncio.run(get(*sys.argv[1:])))\n"
    )
    try:
        for each in (port, other):
            _wait_for(each)
        told = run([*inside, "openssl", "s_client", "-brief", "-connect", f"127.0.0.1:{port}",
                    "-CAfile", certificate], input="")  # fmt: skip
        assert "group: X25519MLKEM768" in told.stderr, told.stderr
        ready = run([*inside, *tls, python, "-c", ask, f"https://127.0.0.1:{port}", "/readyz"])
        assert json.loads(ready.stdout)["tls_pq"] == "offered", ready
        taken = run([*inside, *tls, python, "-c", ask, f"https://127.0.0.1:{other}", "/"])
        assert "X25519MLKEM768" in taken.stdout, taken
    finally:
        for process in (server, picky):
            process.terminate()
            process.wait(timeout=30)


def _wait_for(port: int) -> None:
    """Until something listens there. Raises ConnectionRefusedError after 120 s."""
    for left in reversed(range(600)):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if not left:
                raise
            time.sleep(0.2)
        else:
            return


def test_a_round_a_job_a_restart_and_a_backup(
    compose: Compose, images: Mapping[str, Image], tmp_path: Path
) -> None:
    it = compose("demo", images=images)
    said = " ".join(it.wait_until_done("demo").split())
    assert "they add up to the answer" in said
    for name in SERVICES:
        assert it.run_in(name, "id", "-u").stdout == "10001\n"
        assert it.run_in(name, "touch", f"{APP}/file").returncode != 0
        assert it.run_in(name, "touch", "/etc/file").returncode != 0
        assert it.run_in(name, "python", "-m", "pip").returncode != 0
    run_job(it, tmp_path)

    before = _released(it)
    for name in SERVICES:
        process = it.containers[name].process
        assert process is not None
        process.terminate()
        process.wait(timeout=40)
        it.start_one(name)
    for name in SERVICES:
        it.wait_until_healthy(name)
    assert _released(it) == before

    _back_up(it, "monday")
    _end(it, "coordinator")
    _restore(it, "coordinator", "monday")
    it.start_one("coordinator")
    it.wait_until_healthy("coordinator")
    assert _released(it) == before


def _released(it: Engine) -> dict[str, Any]:
    """Results of released rounds, by their ids."""
    rounds = ask(it, "/v1/rounds?limit=100")["rounds"]
    released = [item["id"] for item in rounds if item["state"] == "released"]
    assert released
    return {name: ask(it, f"/v1/rounds/{name}/result")["result"] for name in released}


def _archives(it: Engine, service: str, *words: str) -> None:
    """`tacit backup` or `tacit restore` in the image of the tools, beside the service's volume."""
    directory = it.project / "backups"
    if not directory.exists():
        directory.mkdir(mode=0o777)
        directory.chmod(0o777)
        (directory / "passphrase").write_text("as long as it has to be\n")
        (directory / "passphrase").chmod(0o644)
    given = it.compose["services"][service]
    done = it.run_like(
        "pairing",
        f"{words[0]}-{service}-{len(it.containers)}",
        command=["python", "-m", "cli.main", *words],
        environment=given["environment"],
        secrets=given["secrets"],
        volumes=[f"{service}:/var/lib/tacit", "./backups:/backups"],
    )
    assert service in done or words[1] in done, done


def _back_up(it: Engine, label: str) -> None:
    for service in SERVICES:
        kind = service.split("-")[0]
        out = ["--out", f"/backups/{service}-{label}", "--passphrase-file", "/backups/passphrase"]
        _archives(it, service, "backup", kind, *out)


def _restore(it: Engine, service: str, label: str) -> None:
    kind = service.split("-")[0]
    sealed = [f"/backups/{service}-{label}", "--passphrase-file", "/backups/passphrase"]
    _archives(it, service, "restore", kind, *sealed, "--replace")


def _end(it: Engine, service: str) -> None:
    process = it.containers[service].process
    assert process is not None
    process.terminate()
    process.wait(timeout=40)
