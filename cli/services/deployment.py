"""An embedded deployment: coordinator, aggregators and a curator host as processes on loopback.

One data directory holds everything: a directory per service (database, operator's token, log) and
`deployment.json` with the addresses. Each service is the same process as in a real deployment, but
one operator runs them all: for trials only, and the reports say so.
"""

from __future__ import annotations

import ctypes
import json
import os
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import httpx

from cli.services.child import LOG
from tacit import Client, Error, Problem
from tacit.client.exchange import Retry
from tacit.protocol.enrolment import GrantAnswer, GrantRequest, JoinToken, PartyKind
from tacit.wire import encode_binary

FILE = "deployment.json"
READY_S = 60.0
LOOK_S = 0.1
ENDED_S = 0.01
LOOK_TIMEOUT_S = 2.0


@dataclass(frozen=True)
class ServiceAddress:
    """Where one service listens and keeps its data."""

    kind: str
    id: str
    url: str
    directory: str

    @property
    def token(self) -> str:
        """The token of the service's operator."""
        return (Path(self.directory) / "operator.token").read_text(encoding="ascii").strip()

    def client(self, timeout_s: float = 60.0) -> Client:
        """A client with the rights of the service's operator."""
        return Client(self.url, self.token, timeout_s=timeout_s, verify=trusted(self.url))


@dataclass(frozen=True)
class Deployment:
    """The services of one data directory."""

    directory: Path
    coordinator: ServiceAddress
    aggregators: tuple[ServiceAddress, ...]
    curator: ServiceAddress

    @property
    def services(self) -> tuple[ServiceAddress, ...]:
        """All services, in the order in which they start."""
        return (self.coordinator, *self.aggregators, self.curator)

    def save(self) -> None:
        """Write `deployment.json`."""
        document = {
            "format": "tacit.deployment/1",
            "services": [asdict(service) for service in self.services],
        }
        path = self.directory / FILE
        path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, directory: Path) -> Deployment:
        """Read `deployment.json`; raises FileNotFoundError if there is none."""
        document = json.loads((directory / FILE).read_text(encoding="utf-8"))
        services = [ServiceAddress(**item) for item in document["services"]]
        by_kind = {kind: [s for s in services if s.kind == kind] for kind in _KINDS}
        return cls(
            directory,
            by_kind["coordinator"][0],
            tuple(by_kind["aggregator"]),
            by_kind["curator"][0],
        )

    @classmethod
    def plan(cls, directory: Path, aggregators: int, port: int | None = None) -> Deployment:
        """Addresses for a new deployment on loopback: free ports, or `port` and those after it.

        Raises ValueError for a port that is in use.
        """
        directory = directory.absolute()
        count = aggregators + 2
        ports = free_ports(count) if port is None else list(range(port, port + count))
        for candidate in ports:
            if not _is_free(candidate):
                raise ValueError(
                    f"port {candidate} is in use: ports {port} to {ports[-1]} are needed"
                )

        def address(kind: str, name: str, port: int) -> ServiceAddress:
            return ServiceAddress(kind, name, f"http://127.0.0.1:{port}", str(directory / name))

        return cls(
            directory,
            address("coordinator", "coordinator", ports[0]),
            tuple(
                address("aggregator", f"aggregator-{index + 1}", ports[index + 1])
                for index in range(aggregators)
            ),
            address("curator", "curator", ports[-1]),
        )


PORTS = range(16_000, 32_000)
_given: set[int] = set()
"""Ports that nobody may have begun to listen at yet."""
_KINDS = ("coordinator", "aggregator", "curator")


def free_ports(count: int) -> list[int]:
    """Ports on loopback without a listener.

    They are below the range of outgoing connections, so that a restarted service finds its port
    free, and random, so that two deployments that start at the same time rarely collide. This
    process gets a port again only when there is no other.
    """
    result: list[int] = []
    ports = secrets.SystemRandom().sample(PORTS, len(PORTS))
    for port in sorted(ports, key=_given.__contains__):
        if len(result) == count:
            break
        if _is_free(port):
            result.append(port)
    _given.update(result)
    return result


def _is_free(port: int) -> bool:
    with socket.socket() as item:
        item.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            item.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class Adopted:
    """A process that this one adopted from an ended child, with the methods of a child's."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._asked = threading.Lock()

    def poll(self) -> int | None:
        """How it ended, negative by a signal; None while it runs."""
        with self._asked:
            if self.returncode is None:
                ended, status = os.waitpid(self.pid, os.WNOHANG)
                if ended:
                    self.returncode = os.waitstatus_to_exitcode(status)
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Block until it ends. Raises subprocess.TimeoutExpired."""
        end = None if timeout is None else time.monotonic() + timeout
        while (ended := self.poll()) is None:
            if end is not None and time.monotonic() > end:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            time.sleep(ENDED_S)
        return ended

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)


SETTINGS: Final = "settings.env"
_NOT_ITS_OWN: Final = frozenset({"TACIT_DATA_DIR", "TACIT_HOST", "TACIT_PORT"})


def settings_of(service: ServiceAddress) -> dict[str, str]:
    """An operator's settings for one service, in lines `TACIT_NAME=value` of a file in its
    directory; empty without a file. Raises ValueError, which names the line and not its value."""
    path = Path(service.directory) / SETTINGS
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read ({type(error).__name__})") from None
    from common.runtime.settings import variables  # what most commands need not load

    module = import_module(f"{service.kind}.settings")
    known = variables(getattr(module, f"{service.kind.capitalize()}Settings")) - _NOT_ITS_OWN
    values: dict[str, str] = {}
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line.startswith("#"):
            continue
        name, equals, value = (part.strip() for part in line.partition("="))
        if not equals:
            raise ValueError(f"{path}, line {number}: expected TACIT_NAME=value")
        if name not in known:
            raise ValueError(f"{path}, line {number}: not a setting that `tacit up` leaves open")
        if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
            value = value[1:-1]
        values[name] = value
    return values


_ADOPT_ORPHANS: Final = 36
"""Of Linux: orphans among its descendants become this process's children."""


def _adopt(orphans: bool) -> bool:
    """Adopt orphans from now on, or no longer; whether the system can."""
    control = getattr(ctypes.CDLL(None), "prctl", None)
    return control is not None and control(_ADOPT_ORPHANS, int(orphans), 0, 0, 0) == 0


class Running:
    """The processes of a deployment. They end with this process, even if it is killed."""

    def __init__(self, deployment: Deployment, extra: Mapping[str, Mapping[str, str]]) -> None:
        self.deployment = deployment
        self._extra = extra
        self.public_urls: dict[str, str] = {}
        self.more: dict[str, dict[str, str]] = {}
        """Settings of single services, by id."""
        self.processes: dict[str, subprocess.Popen[bytes] | Adopted] = {}
        self._pipe: tuple[int, int] | None = None
        """Its end of file tells the services that this process has ended (`cli.services.child`)."""

    def start(self) -> None:
        """Start all services and wait until each is ready. Raises RuntimeError if one is not, and
        starts none if the port of one is in use."""
        for service in self.deployment.services:
            self._refuse_another(service)
        self._start(self.deployment.services)
        for service in self.deployment.services:
            self.wait_for(service)

    def _refuse_another(self, service: ServiceAddress) -> None:
        port = int(service.url.rpartition(":")[2])
        if _is_free(port):
            return
        pid = _pid_at(service)
        raise RuntimeError(
            f"{service.id}: port {port} is in use"
            + (
                ""
                if pid is None
                else f" by a service that still runs (process {pid}): end it first"
            )
        )

    def start_one(self, service: ServiceAddress) -> None:
        """Start one service's process."""
        self._start([service])

    def _start(self, services: Sequence[ServiceAddress]) -> None:
        """Start processes of services, forked from one if the system lets this process adopt
        them. Raises RuntimeError if they cannot be forked."""
        if len(services) > 1 and not _adopt(True):
            for service in services:
                self._start([service])
            return
        if self._pipe is None:
            self._pipe = os.pipe()
        life = self._pipe[0]
        starts = [self._how(service) for service in services]
        kinds = [service.kind for service in services]
        with Path(starts[0]["log"]).open("ab") as log:
            first = subprocess.Popen(
                # `-P`: a module of the user's folder may have the name of one of ours.
                [sys.executable, "-P", "-m", "cli.services.child", str(life), *kinds],
                env=starts[0]["environment"],
                pass_fds=[life],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                # Own group: Ctrl-C reaches the services through us, in order.
                start_new_session=True,
            )
        assert first.stdin is not None
        assert first.stdout is not None
        with first.stdout as forks, first.stdin as starts_pipe:
            starts_pipe.write(json.dumps(starts).encode())
            starts_pipe.close()
            if len(services) == 1:
                self.processes[services[0].id] = first
                return
            pids = forks.read()
        ended = first.wait()
        _adopt(False)
        if ended:
            names = ", ".join(service.id for service in services)
            raise RuntimeError(f"{names} did not start{_log(services[0])}")
        for service, pid in zip(services, json.loads(pids), strict=True):
            self.processes[service.id] = Adopted(pid)

    def _how(self, service: ServiceAddress) -> dict[str, Any]:
        """How one service is started, as `cli.services.child` reads it."""
        directory = Path(service.directory)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        environment = {
            key: value for key, value in os.environ.items() if not key.startswith("TACIT_")
        }
        environment |= {
            "TACIT_DATA_DIR": service.directory,
            "TACIT_HOST": "127.0.0.1",
            "TACIT_PORT": service.url.rpartition(":")[2],
            "TACIT_PUBLIC_URL": self.public_urls.get(service.id, service.url),
            "TACIT_LOG_LEVEL": "warning",
        }
        if service.kind == "aggregator":
            environment |= {"TACIT_AGGREGATOR_ID": service.id, "TACIT_OPERATOR": service.id}
        environment |= {**self._extra.get(service.kind, {}), **self.more.get(service.id, {})}
        environment |= settings_of(service)
        return {
            "service": service.kind,
            "environment": environment,
            "log": str(directory / LOG),
        }

    def wait_for(self, service: ServiceAddress) -> None:
        """Block until the process of one service is ready at its address. Raises RuntimeError if it
        ends or takes too long."""
        process = self.processes[service.id]
        end = time.monotonic() + READY_S
        while (ended := process.poll()) is None and time.monotonic() < end:
            if _pid_at(service) == process.pid:
                return
            time.sleep(LOOK_S)
        if ended is None:
            raise RuntimeError(f"{service.id} is not ready after {READY_S:.0f} s{_log(service)}")
        raise RuntimeError(f"{service.id} did not start, {_ending(ended)}{_log(service)}")

    def cpu_s(self, service: ServiceAddress) -> float:
        """CPU seconds of one service's process so far, with ended threads; 0 where the system does
        not report them."""
        clock, libc = ctypes.c_int(), ctypes.CDLL(None)
        clock_of_process = getattr(libc, "clock_getcpuclockid", None)  # Linux and the BSDs
        if clock_of_process is None or clock_of_process(
            self.processes[service.id].pid, ctypes.byref(clock)
        ):
            return 0.0
        return time.clock_gettime(clock.value)

    def stop(self) -> None:
        """Stop all services; leaves nothing running."""
        for process in reversed(self.processes.values()):
            if process.poll() is None:
                process.terminate()
        for process in self.processes.values():
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._pipe is not None:
            for end in self._pipe:
                os.close(end)
            self._pipe = None

    def wait(self) -> str:
        """Block until a service ends; returns which one, how, and the path of its log."""
        while True:
            for service in self.deployment.services:
                process = self.processes.get(service.id)
                if process is not None and (ended := process.poll()) is not None:
                    return f"{service.id} {_ending(ended)}{_log(service)}"
            time.sleep(LOOK_S)


def _pid_at(service: ServiceAddress) -> int | None:
    """The id of the ready process at an address; None without one."""
    try:
        with once(service) as client:
            pid = client.get("/readyz").get("pid")
    except (httpx.HTTPError, Error, ValueError, AttributeError):
        return None
    return pid if isinstance(pid, int) else None


def why_not_ready(service: ServiceAddress) -> str | None:
    """Why a service cannot work now, and where to find the cause; None if it is ready."""
    try:
        with once(service) as client:
            client.get("/readyz")
    except httpx.TransportError as error:
        reason = f"no answer from {error}"
    except Problem as problem:
        reason = f"it is not ready: {problem.sentence}"
    except (Error, ValueError) as error:  # something else answers there
        reason = f"{service.url} gives no answer of this service: {type(error).__name__}"
    else:
        return None
    return (
        f"{service.id}: {reason}; look at its log, with compose by "
        f"`docker compose ps --all {service.id}` and `docker compose logs {service.id}`"
    )


def wait_for_ready(
    services: Sequence[ServiceAddress], timeout_s: float, report: Callable[[str], object]
) -> None:
    """Block until all services are ready, in seconds; `report` gets each new reason to wait.

    Raises RuntimeError with the reason after `timeout_s`.
    """
    end, reported = time.monotonic() + timeout_s, ""
    for service in services:
        while (reason := why_not_ready(service)) is not None:
            if time.monotonic() > end:
                raise RuntimeError(f"gave up after {timeout_s:.0f} s. {reason}")
            if reason != reported:
                report(f"waiting for {reason}")
                reported = reason
            time.sleep(LOOK_S)


def once(service: ServiceAddress) -> Client:
    """A client for one short question to a service."""
    return Client(
        service.url,
        timeout_s=LOOK_TIMEOUT_S,
        retry=Retry(attempts=1),
        verify=trusted(service.url),
    )


def _ending(code: int) -> str:
    """How a process with this exit code ended."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"ended by signal {-code}"


def _log(service: ServiceAddress) -> str:
    """The last line of a service's log, and where the log is."""
    path = Path(service.directory) / LOG
    lines = path.read_text(errors="replace").strip().splitlines()
    last_lines = [line for line in lines if "Application startup failed" not in line][
        -1:
    ]  # uvicorn's
    return f"; {last_lines[0][-500:]} (log: {path})" if last_lines else f" (log: {path})"


def trusted(url: str) -> ssl.SSLContext | bool:
    """The TLS context of a client of this address; not loaded for plain HTTP."""
    if url.lower().startswith("http:"):
        return False
    from common.runtime.tls import environment_trust

    return environment_trust()


def pair(deployment: Deployment) -> None:
    """Pair the coordinator with its aggregators, again if its token was revoked; idempotent."""
    with deployment.coordinator.client() as coordinator:
        identity = coordinator.get("/.well-known/tacit-coordinator")
        approved = {item["id"] for item in coordinator.get("/v1/aggregators")["aggregators"]}
        for service in deployment.aggregators:
            with service.client() as aggregator:
                paired = any(
                    token["scopes"] == ["coordinator"] and token["revoked"] is None
                    for token in aggregator.tokens.list()
                )
                if service.id in approved and paired:
                    continue
                token = aggregator.request(
                    "PUT",
                    "/v1/coordinator",
                    {
                        "deployment": identity["deployment"],
                        "identity_key": identity["identity_key"],
                    },
                ).json()["token"]
                statement = aggregator.get("/.well-known/tacit-aggregator")
            coordinator.post(
                "/v1/aggregators",
                {
                    "url": service.url,
                    "token": token,
                    "fingerprint": encode_binary(bytes.fromhex(statement["fingerprint"])),
                },
            )


def join_token(
    deployment: Deployment,
    party: str,
    kind: PartyKind,
    max_curators: int,
    valid_s: int,
    *,
    replaces: bool = False,
) -> JoinToken:
    """A join token: one grant from each service, each requested by its own operator."""
    request = GrantRequest(
        party=party, kind=kind, max_curators=max_curators, valid_s=valid_s, replaces=replaces
    )
    services = (deployment.coordinator, *deployment.aggregators)

    def grant(service: ServiceAddress) -> GrantAnswer:
        with service.client() as client:
            return ask_grant(client, request)

    return assemble(request, [grant(service) for service in services])


def ask_grant(client: Client, request: GrantRequest) -> GrantAnswer:
    """A one-time secret from one service."""
    return GrantAnswer.model_validate(client.post("/v1/grants", request.model_dump(mode="json")))


def assemble(request: GrantRequest, answers: Sequence[GrantAnswer]) -> JoinToken:
    """A join token from the coordinator's grant and, after it, those of the aggregators."""
    coordinator, *aggregators = (answer.grant for answer in answers)
    return JoinToken(
        party=request.party,
        kind=request.kind,
        max_curators=request.max_curators,
        coordinator=coordinator,
        aggregators=tuple(aggregators),
        expires=min(answer.expires for answer in answers),
    )
