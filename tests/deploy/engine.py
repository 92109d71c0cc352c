"""A small container engine for tests: what docker-compose.yml says, as processes in namespaces.

Each service gets a network namespace on the bridges of its networks, a mount namespace whose root
holds the system's read-only directories, the packages that its image copies, its volumes, secrets
and tmpfs mounts and nothing else, its user, no capabilities, and the hosts file by which it finds
the services with which it shares a network. Images of others are played by this machine's own
programs. Not played: limits of memory and processes, seccomp, published ports, restarts.

It needs root and `ip`, `unshare`, `setpriv`; all it makes lies in its own namespaces and one
directory, and is gone after `stop`.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
APP = "/opt/tacit/app"
VENV = "/opt/tacit/venv"
SYSTEM = ("usr", "bin", "sbin", "lib", "lib64", "etc", "dev", "proc")
_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


def available() -> str | None:
    """Why it cannot run here; None where it can."""
    if os.geteuid() != 0:
        return "it needs root"
    for program in ("ip", "unshare", "setpriv", "nsenter", "mount"):
        if shutil.which(program) is None:
            return f"there is no {program}"
    name = f"tct-{secrets.token_hex(3)}"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode:
        return "network namespaces cannot be made"
    subprocess.run(["ip", "netns", "del", name], check=True)
    return None


def read_compose(path: Path, variables: Mapping[str, str]) -> dict[str, Any]:
    """The compose file with its variables put in."""

    def value(match: re.Match[str]) -> str:
        return variables.get(match[1]) or match[2] or ""

    def filled(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: filled(item) for key, item in node.items()}
        if isinstance(node, list):
            return [filled(item) for item in node]
        return _VARIABLE.sub(value, node) if isinstance(node, str) else node

    loaded: dict[str, Any] = filled(yaml.safe_load(path.read_text()))
    return loaded


def used_variables(path: Path) -> set[str]:
    """The variables that a compose file names."""
    return {match[1] for match in _VARIABLE.finditer(path.read_text())}


@dataclass(frozen=True)
class Image:
    """What a target of the Dockerfile gives a container."""

    packages: tuple[str, ...]
    environment: dict[str, str]
    root: Path | None = None
    """The root file system of an image that was built; else this machine's own plays it."""


def read_images(dockerfile: Path) -> dict[str, Image]:
    """Stages by name: which packages they hold, and their environment."""
    images: dict[str, Image] = {}
    name = ""
    for line in dockerfile.read_text().replace("\\\n", " ").splitlines():
        words = line.split()
        if words[:1] == ["FROM"]:
            name = words[3]
            images[name] = images.get(words[1], Image((), {}))
        elif words[:1] == ["ENV"]:
            pairs = dict(pair.split("=", 1) for pair in words[1:])
            images[name] = replace(images[name], environment=images[name].environment | pairs)
        elif words[:1] == ["COPY"]:
            found = re.fullmatch(rf"COPY (\w+) {APP}/\w+", line)
            stage = re.match(r"COPY --from=(\S+) /opt/tacit ", line)
            more = (found[1],) if found else images[stage[1]].packages if stage else ()
            images[name] = replace(images[name], packages=images[name].packages + more)
    return images


@dataclass
class Container:
    """A service while it runs. `addresses` by network."""

    name: str
    namespace: str
    addresses: dict[str, str]
    process: subprocess.Popen[bytes] | None = None
    log: Path = field(default=Path())

    def said(self) -> str:
        """What it printed."""
        return self.log.read_text(errors="replace")


class Engine:
    """Runs the services of some profiles until it is stopped."""

    def __init__(
        self,
        compose: dict[str, Any],
        profiles: Iterable[str],
        directory: Path,
        project: Path,
        images: Mapping[str, Image] | None = None,
    ) -> None:
        """`directory`: for volumes and logs; `project`: where relative paths begin; `images`: those
        that were built, by the name of their target."""
        wanted = set(profiles)
        self.compose = compose
        self.services: dict[str, dict[str, Any]] = {
            name: service
            for name, service in compose["services"].items()
            if not service.get("profiles") or wanted & set(service["profiles"])
        }
        self.containers: dict[str, Container] = {}
        self._directory, self.project = directory, project
        self._images = images or read_images(ROOT / "deploy" / "Dockerfile")
        self._id = secrets.token_hex(2)
        self.outside = f"tct-{self._id}"
        self._networks = {name: index for index, name in enumerate(compose["networks"])}

    # --- life ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start every service after those that it waits for."""
        if not self.containers:
            self.connect()
        for name in self._order():
            self._wait_for_others(name)
            self.start_one(name)

    def connect(self) -> None:
        """Make the networks, with every service on its own."""
        _ip("netns", "add", self.outside)
        _ip("-n", self.outside, "link", "set", "lo", "up")
        for index in self._networks.values():
            bridge = f"br{index}"
            _ip("-n", self.outside, "link", "add", bridge, "type", "bridge")
            _ip("-n", self.outside, "addr", "add", f"10.91.{index}.1/24", "dev", bridge)
            _ip("-n", self.outside, "link", "set", bridge, "up")
        for name, service in self.services.items():
            self._connect(name, service)

    def stop(self) -> None:
        """End all processes and remove all namespaces."""
        for container in reversed(self.containers.values()):
            if container.process is not None and container.process.poll() is None:
                container.process.terminate()
        for container in self.containers.values():
            if container.process is not None:
                try:
                    container.process.wait(timeout=15)
                except subprocess.TimeoutExpired:
                    container.process.kill()
                    container.process.wait()
        for namespace in [*(item.namespace for item in self.containers.values()), self.outside]:
            with suppress(subprocess.CalledProcessError):
                _ip("netns", "del", namespace)

    def start_one(self, name: str) -> None:
        """Start one service."""
        container = self.containers[name]
        script = self._script(name)
        with container.log.open("ab") as log:
            container.process = subprocess.Popen(
                [
                    *("ip", "netns", "exec", container.namespace),
                    *("unshare", "--mount", "--propagation", "private", "sh", "-eu", str(script)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": os.environ["PATH"]},
                start_new_session=True,
            )

    def run_like(self, like: str, name: str, **changes: Any) -> str:
        """Run a service once that is like another but for these changes; what it printed."""
        self.services[name] = {**self.compose["services"][like], "depends_on": {}, **changes}
        self._connect(name, self.services[name])
        self.start_one(name)
        said = self.wait_until_done(name)
        del self.services[name]
        return said

    def address(self, name: str, network: str = "parties") -> str:
        """Where the test reaches a service, from `outside`."""
        return self.containers[name].addresses[network]

    def outside_run(self, *command: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a command that sees the networks but is in no container."""
        return subprocess.run(
            ["ip", "netns", "exec", self.outside, *command],
            capture_output=True,
            text=True,
            **options,
        )

    def run_in(self, name: str, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in a container that runs, as its user."""
        process, service = self.containers[name].process, self.services[name]
        assert process is not None
        user, group = service["user"].split(":")
        variables = [f"{key}={value}" for key, value in self._environment(name).items()]
        return subprocess.run(
            [
                *("nsenter", f"--target={process.pid}", "--mount", "--net", "--root", "--wd"),
                *(f"--setuid={user}", f"--setgid={group}"),
                *("env", "-i", *variables, *command),
            ],
            capture_output=True,
            text=True,
        )

    def healthy(self, name: str) -> bool:
        """Whether the service's own health check passes."""
        check = self.services[name].get("healthcheck", {}).get("test")
        process = self.containers[name].process
        if process is None or process.poll() is not None or check is None:
            return False
        if not Path(f"/proc/{process.pid}/root{APP}").exists():
            return False  # it has not entered its own root yet
        assert check[0] == "CMD", f"{name}: a health check is a command"
        return self.run_in(name, *map(str, check[1:])).returncode == 0

    def wait_until_healthy(self, name: str, checks: int = 300) -> None:
        """Raise AssertionError if it ends first, or none of so many health checks passes."""
        container = self.containers[name]
        assert container.process is not None
        for _ in range(checks):
            if self.healthy(name):
                return
            with suppress(subprocess.TimeoutExpired):
                container.process.wait(timeout=0.3)
                raise AssertionError(f"{name} ended:\n{container.said()}")
        raise AssertionError(f"{name} is not healthy:\n{container.said()}")

    def wait_until_done(self, name: str, timeout_s: float = 300) -> str:
        """What a service printed that ends by itself; AssertionError if it failed."""
        container = self.containers[name]
        assert container.process is not None
        code = container.process.wait(timeout=timeout_s)
        assert code == 0, f"{name} failed:\n{container.said()}"
        return container.said()

    # --- order -----------------------------------------------------------------------------------

    def _waited_for(self, name: str) -> dict[str, str]:
        found = {}
        for other, how in self.services[name].get("depends_on", {}).items():
            if other in self.services:
                found[other] = how["condition"]
            else:
                assert how.get("required") is False, f"{name} needs {other}, which does not run"
        return found

    def _order(self) -> list[str]:
        ordered: list[str] = []

        def visit(name: str) -> None:
            for other in self._waited_for(name):
                visit(other)
            if name not in ordered:
                ordered.append(name)

        for name in self.services:
            visit(name)
        return ordered

    def _wait_for_others(self, name: str) -> None:
        for other, condition in self._waited_for(name).items():
            if condition == "service_healthy":
                self.wait_until_healthy(other)
            elif condition == "service_completed_successfully":
                self.wait_until_done(other)

    # --- networks --------------------------------------------------------------------------------

    def _connect(self, name: str, service: Mapping[str, Any]) -> None:
        number = len(self.containers)
        namespace = f"tct-{self._id}-{number}"
        _ip("netns", "add", namespace)
        _ip("-n", namespace, "link", "set", "lo", "up")
        addresses = {}
        for network in service.get("networks", ["default"]):
            index = self._networks[network]
            link, address = f"v{number}n{index}", f"10.91.{index}.{number + 10}"
            peer = ["peer", "name", f"eth{index}", "netns", namespace]
            _ip("-n", self.outside, "link", "add", link, "type", "veth", *peer)
            _ip("-n", self.outside, "link", "set", link, "master", f"br{index}", "up")
            _ip("-n", namespace, "addr", "add", f"{address}/24", "dev", f"eth{index}")
            _ip("-n", namespace, "link", "set", f"eth{index}", "up")
            addresses[network] = address
        log = self._directory / f"{name}.log"
        self.containers[name] = Container(name, namespace, addresses, log=log)

    def _hosts(self, name: str) -> str:
        own = self.containers[name].addresses
        lines = ["127.0.0.1 localhost"]
        for other in self.containers.values():
            shared = [network for network in other.addresses if network in own]
            if shared:
                lines.append(f"{other.addresses[shared[0]]} {other.name}")
        return "\n".join(lines) + "\n"

    # --- one container ---------------------------------------------------------------------------

    def _environment(self, name: str) -> dict[str, str]:
        service = self.services[name]
        role = self._role(service)
        base = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/nonexistent"}
        if role is not None:
            image = self._images[role]
            base |= image.environment
            if image.root is None:
                base["PATH"] = f"{VENV}/bin:{base['PATH']}".replace("$PATH", "/usr/bin:/bin")
        if service["image"].startswith("postgres:"):
            base["PATH"] = f"{_postgres_programs()}:{base['PATH']}"
        given = {key: str(value) for key, value in service.get("environment", {}).items()}
        return base | given

    def _role(self, service: Mapping[str, Any]) -> str | None:
        found = re.match(r"tacit/(\w+):", service["image"])
        return None if found is None else found[1]

    def _script(self, name: str) -> Path:
        """The shell script that makes the container's root and becomes its process."""
        service = self.services[name]
        made = self._directory / name
        made.mkdir(exist_ok=True)
        root = made / "root"
        root.mkdir(exist_ok=True)
        (made / "hosts").write_text(self._hosts(name))
        (made / "passwd").write_text(
            "root:x:0:0::/:/bin/sh\ntacit:x:10001:10001::/:/bin/sh\npostgres:x:70:70::/:/bin/sh\n"
            "mosquitto:x:1883:1883::/:/bin/sh\nprometheus:x:65534:65534::/:/bin/sh\n"
        )
        role = self._role(service)
        image = None if role is None else self._images[role]
        if image is not None and image.root is not None:
            lines = _root_of_image(image.root, made, root)
        else:
            lines = _root_of_machine(image, made, root)
        lines.append(f"mount --bind {made}/hosts {root}/etc/hosts")
        lines += self._mounts(name, root)
        if service.get("read_only"):
            lines.append(f"mount -o remount,ro {root}")
            if image is None or image.root is None:
                lines.append(f"mount -o remount,ro,bind {root}/etc")
        user, group = service["user"].split(":")
        assert service["cap_drop"] == ["ALL"]
        command = [str(word) for word in self._command(name)]
        variables = [f"{key}={value}" for key, value in self._environment(name).items()]
        final = ["setpriv", "--reuid", user, "--regid", group, "--clear-groups"]
        final += ["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
        final += ["env", "-i", *variables, *command]
        lines.append("ulimit -c 0")
        lines.append(f"cd {root}{APP}")
        lines.append(f"exec chroot {root} sh -c 'cd {APP} && exec \"$@\"' - {_quoted(final)}")
        path = made / "run.sh"
        path.write_text("\n".join(lines) + "\n")
        return path

    def _mounts(self, name: str, root: Path) -> list[str]:
        service, lines = self.services[name], []
        user = service["user"]
        for mount in service.get("tmpfs", []):
            target, _, options = mount.partition(":")
            lines += [f"mkdir -p {root}{target}"]
            lines += [f"mount -t tmpfs -o {options or 'mode=1777'} tmpfs {root}{target}"]
        for volume in service.get("volumes", []):
            source, target, *mode = volume.split(":")
            if source.startswith("."):
                lines += self._file(root, self.project / source, target)
                continue
            assert source in self.compose["volumes"], f"{name}: no volume {source}"
            assert not mode
            path = self._directory / "volumes" / source
            lines += [f"mkdir -p {path} {root}{target}", f"chown {user} {path}"]
            lines += [f"chmod 700 {path}", f"mount --bind {path} {root}{target}"]
        for item in service.get("secrets", []):
            source = item if isinstance(item, str) else item["source"]
            target = source if isinstance(item, str) else item.get("target", source)
            path = self.project / self.compose["secrets"][source]["file"]
            absolute = target if target.startswith("/") else f"/run/secrets/{target}"
            lines += self._file(root, path, absolute)
        return lines

    def _file(self, root: Path, source: Path, target: str) -> list[str]:
        assert source.exists(), f"there is no {source}"
        if source.is_dir():
            return [f"mkdir -p {root}{target}", f"mount --bind {source} {root}{target}"]
        return [
            f"mkdir -p {root}{Path(target).parent}",
            f"touch {root}{target}",
            f"mount --bind {source} {root}{target}",
        ]

    def _command(self, name: str) -> list[str]:
        """The command; for an image of others, what its entry point would do, with our programs."""
        service = self.services[name]
        command: list[str] = service.get("command", [])
        if service["image"].startswith("postgres:"):
            return ["sh", "-eu", "-c", _POSTGRES, "sh", *map(str, command)]
        return command


_POSTGRES = (Path(__file__).parent / "postgres.sh").read_text()


def _root_of_machine(image: Image | None, made: Path, root: Path) -> list[str]:
    """A root of the system's own directories, with the packages that an image copies."""
    lines = [f"mount -t tmpfs -o mode=0755 root {root}"]
    for part in SYSTEM:
        path = Path("/", part)
        if path.is_symlink():
            lines.append(f"ln -s {os.readlink(path)} {root}/{part}")
        elif path.exists():
            lines += [f"mkdir {root}/{part}", f"mount --rbind /{part} {root}/{part}"]
    lines.append(f"mount --bind {made}/passwd {root}/etc/passwd")
    lines.append(f"mkdir -p {root}{APP} {root}{VENV} {root}/run/secrets {root}/var")
    lines.append(f"ln -s /run {root}/var/run")
    if image is not None:
        lines.append(f"mount --bind {sys.prefix} {root}{VENV}")
        if not sys.base_prefix.startswith("/usr"):  # the interpreter behind the environment
            lines.append(f"mkdir -p {root}{sys.base_prefix}")
            lines.append(f"mount --bind {sys.base_prefix} {root}{sys.base_prefix}")
        for package in image.packages:
            lines.append(f"mkdir {root}{APP}/{package}")
            lines.append(f"mount --bind {ROOT / package} {root}{APP}/{package}")
    return lines


def _root_of_image(lower: Path, made: Path, root: Path) -> list[str]:
    """The image's own root, under a layer in which mount points can be made."""
    layers = made / "layers"
    return [
        f"mkdir -p {layers}",
        f"mount -t tmpfs layers {layers}",
        f"mkdir {layers}/upper {layers}/work",
        f"mount -t overlay -o lowerdir={lower},upperdir={layers}/upper,workdir={layers}/work"
        f" root {root}",
        f"mount --rbind /proc {root}/proc",
        f"mount --rbind /dev {root}/dev",
        f"mkdir -p {root}/run/secrets",
    ]


def _postgres_programs() -> str:
    """Debian's own commands ask for a cluster that it knows; the server's lie here."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    assert found, "there is no PostgreSQL server on this machine"
    return str(found[-1])


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def _quoted(words: Iterable[str]) -> str:
    return " ".join(shlex.quote(word) for word in words)


def ask(it: Engine, path: str) -> Any:
    """A request to the coordinator from outside the containers, by curl, as its operator."""
    url = f"http://{it.address('coordinator')}:8200{path}"
    words = ["curl", "-sS", "--fail-with-body", "-H", f"Authorization: Bearer {_token(it)}"]
    done = it.outside_run(*words, url)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def run_job(it: Engine, directory: Path) -> None:
    """A job of the coordinator's, asked for from outside by `tacit`."""
    work = directory / "work"
    work.mkdir()
    tacit = [sys.executable, "-m", "cli.main"]
    sample = [*tacit, "dataset", "sample", "privacy-check", "--out", str(work)]
    subprocess.run(sample, check=True, cwd=ROOT, capture_output=True)
    parameters = work / "parameters.json"
    parameters.write_text(json.dumps({"qid": ["job", "sex", "age"], "sensitive": ["disease"]}))
    run = ["job", "run", "privacy-check", "--dataset", str(work / "table-2.1.csv")]
    done = it.outside_run(
        *(*tacit, *run, "--params", str(parameters), "--out", str(work / "out")),
        cwd=ROOT,
        env={
            "PATH": os.environ["PATH"],
            "TACIT_URL": f"http://{it.address('coordinator')}:8200",
            "TACIT_TOKEN": _token(it),
        },
    )
    assert done.returncode == 0, done.stderr + done.stdout


def _token(it: Engine) -> str:
    return it.run_in("coordinator", "cat", "/run/secrets/operator_token").stdout
