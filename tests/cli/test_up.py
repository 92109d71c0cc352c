"""`tacit up`: one deployment for a directory, at addresses that stay; its processes."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cli.services.deployment import SETTINGS, Deployment, Running, free_ports, settings_of
from cli.services.up import addresses, alone_in, plan


def _ports(deployment: Deployment) -> list[int]:
    return [int(item.url.rpartition(":")[2]) for item in deployment.services]


def test_no_port_is_given_twice() -> None:
    """Two calls are for two services, of which the first may not listen yet."""
    assert not {*free_ports(500)} & {*free_ports(500)}


def _run_of_free_ports(count: int) -> int:
    while True:
        (first,) = free_ports(1)
        try:
            Deployment.plan(Path(), count - 2, first)
        except ValueError:
            continue
        return first


def test_one_directory_is_up_once(tmp_path: Path) -> None:
    """Also against another process, whose end frees it, however it ends."""
    home = tmp_path / "home"
    with alone_in(home):
        code = f"from pathlib import Path\nfrom cli.services.up import up\nup(Path({str(home)!r}))"
        done = subprocess.run(
            [sys.executable, "-c", code.replace("up(Path", "up(home=Path")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert "is up already" in done.stderr
        assert "Tacit is up" not in done.stdout
        with pytest.raises(RuntimeError, match="--home"), alone_in(home):
            pass
    with alone_in(home):
        pass


def test_the_ports_follow_the_one_that_is_asked_for(tmp_path: Path) -> None:
    first = _run_of_free_ports(5)
    made = plan(tmp_path, 3, first)
    assert _ports(made) == list(range(first, first + 5))
    assert plan(tmp_path, 3) == plan(tmp_path, 3, first) == made
    with pytest.raises(ValueError, match="keeps its addresses"):
        plan(tmp_path, 3, first + 1)


def test_a_port_in_use_is_refused_and_nothing_is_made(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ValueError, match=f"port {port} is in use"):
            plan(tmp_path, 3, port)
    assert not list(tmp_path.iterdir())


def test_what_is_printed_can_be_copied_from_a_narrow_screen(tmp_path: Path) -> None:
    deployment = plan(tmp_path, 2)
    home = Path("a b")
    lines = addresses(deployment, home)
    assert all(item.url in "\n".join(lines) for item in deployment.services)
    assert max(map(len, lines)) <= 80
    assert "  tacit health --home 'a b'" in lines
    assert "  tacit health" in addresses(deployment, Path(".tacit"))


BURN = """
import sys, threading, time

def burn():
    while time.thread_time() < 0.3:
        pass

burning = threading.Thread(target=burn)
burning.start()
burning.join()
print(time.process_time(), flush=True)
sys.stdin.read()
"""


def test_the_time_of_threads_that_ended_counts(tmp_path: Path) -> None:
    running = Running(Deployment.plan(tmp_path, 1), {})
    service = running.deployment.coordinator
    with subprocess.Popen(
        [sys.executable, "-c", BURN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        running.processes[service.id] = process  # type: ignore[assignment]
        own = float(process.stdout.readline())
        found = running.cpu_s(service)
        process.stdin.close()
    assert 0.3 <= own <= found < own + 0.5


def test_a_service_has_the_settings_of_its_file_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TACIT_NOTIFY_FROM", "shell@example.org")
    deployment = Deployment.plan(tmp_path, 1)
    coordinator = deployment.coordinator
    assert settings_of(coordinator) == {}
    path = Path(coordinator.directory) / SETTINGS
    path.parent.mkdir()
    path.write_text(
        '# to the night\n\nTACIT_NOTIFY_TO=["night@example.org"]\n'
        "TACIT_NOTIFY_SMTP_URL_FILE = '/run/secrets/smtp=1'\n"
    )
    found = Running(deployment, {})._how(coordinator)["environment"]
    assert found["TACIT_NOTIFY_TO"] == '["night@example.org"]'
    assert found["TACIT_NOTIFY_SMTP_URL_FILE"] == "/run/secrets/smtp=1"
    assert "TACIT_NOTIFY_FROM" not in found
    for line in (
        "TACIT_NOTIFY_WEBHOK_URL=https://secret.test",  # a typing error would do nothing
        "TACIT_NOTIFY_FROM_FILE=/secret",  # not a secret: nothing would read it
        "TACIT_DATA_DIR=/secret",
        "PATH=/secret",
        "secret",
    ):
        path.write_text(f"\n{line}\n")
        with pytest.raises(ValueError, match="line 2: ") as refused:
            settings_of(coordinator)
        assert "secret" not in str(refused.value).replace(str(path), "")
    path.write_bytes(b"\xff")
    with pytest.raises(ValueError, match="cannot be read"):
        settings_of(coordinator)


@pytest.mark.slow
def test_what_a_service_refuses_in_its_file_ends_the_start_with_its_reason(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "coordinator").mkdir(parents=True)
    line = [sys.executable, "-m", "cli.main", "up", "--home", str(home)]
    for wrong, said in (
        ("TACIT_NOTIFY_WEBHOOK_URL=http://elsewhere.test", "notify_webhook_url begins with https"),
        ("TACIT_NONSENSE=1", "line 1: not a setting that `tacit up` leaves open"),
    ):
        (home / "coordinator" / SETTINGS).write_text(wrong)
        done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 2, done.stderr
        assert said in " ".join(done.stderr.split())
