"""A deployment on two hosts: the second is a network namespace behind one link, over which the
services speak TLS. The link can be cut, so that packets vanish, and made slow. Needs root."""

from __future__ import annotations

import asyncio
import ctypes
import os
import shutil
import subprocess
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from cli.services.config import prepare
from cli.services.deployment import Deployment, Running, ServiceAddress, pair
from tests.e2e.world import FAST, World

_NEW_NETWORK = 0x40000000


def missing() -> str | None:
    """What this machine lacks for it."""
    if os.geteuid() != 0:
        return "it makes network namespaces: run it as root"
    absent = [name for name in ("ip", "tc", "iptables") if shutil.which(name) is None]
    return f"there is no {', '.join(absent)}" if absent else None


class Link:
    """The link between this host and the namespace, in a network of its own."""

    def __init__(self, network: int = 97) -> None:
        self.centre, self.north = f"10.213.{network}.1", f"10.213.{network}.2"
        self.namespace = f"tacit-{os.getpid()}"
        self._here, self._there = f"tc{os.getpid()}", f"tn{os.getpid()}"

    def open(self) -> None:
        run("ip", "netns", "add", self.namespace)
        peer = ("type", "veth", "peer", "name", self._there, "netns", self.namespace)
        run("ip", "link", "add", self._here, *peer)
        run("ip", "addr", "add", f"{self.centre}/24", "dev", self._here)
        run("ip", "link", "set", self._here, "up")
        self._inside("ip", "addr", "add", f"{self.north}/24", "dev", self._there)
        self._inside("ip", "link", "set", self._there, "up")
        self._inside("ip", "link", "set", "lo", "up")

    def close(self) -> None:
        subprocess.run(["ip", "netns", "del", self.namespace], check=False)
        subprocess.run(["ip", "link", "del", self._here], check=False, capture_output=True)

    def cut(self) -> None:
        """Packets vanish in both directions; no one is told."""
        for chain, way in (("INPUT", "-i"), ("OUTPUT", "-o")):
            self._inside("iptables", "-A", chain, way, self._there, "-j", "DROP")

    def heal(self) -> None:
        self._inside("iptables", "-F")

    def slow(self, rate: str) -> None:
        """At most this rate each way, such as `256kbit`."""
        limit = ("root", "tbf", "rate", rate, "burst", "16kbit", "latency", "3s")
        run("tc", "qdisc", "replace", "dev", self._here, *limit)
        self._inside("tc", "qdisc", "replace", "dev", self._there, *limit)

    def fast(self) -> None:
        run("tc", "qdisc", "del", "dev", self._here, "root")
        self._inside("tc", "qdisc", "del", "dev", self._there, "root")

    def within(self, work: Callable[[], None]) -> None:
        """Do something in the namespace: what it starts stays there. A thread enters alone."""
        failed: list[BaseException] = []

        def enter() -> None:
            place = os.open(f"/run/netns/{self.namespace}", os.O_RDONLY)
            try:
                assert ctypes.CDLL(None).setns(place, _NEW_NETWORK) == 0
                work()
            except BaseException as error:
                failed.append(error)
            finally:
                os.close(place)

        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
        if failed:
            raise failed[0]

    def _inside(self, *command: str) -> None:
        run("ip", "netns", "exec", self.namespace, *command)


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"


@asynccontextmanager
async def two_hosts(directory: Path) -> AsyncIterator[tuple[World, Link]]:
    """Three aggregators, the last of them alone on the other host; all callers need TLS, for which
    `TACIT_TLS_AUTHORITY` must name `directory`/tls/authority.pem in this process."""
    plan, link = Deployment.plan(directory, 3), Link()
    prepare(directory / "tls", [["centre", link.centre], ["north", link.north]], 30)
    distant = plan.aggregators[-1].id

    def placed(service: ServiceAddress) -> ServiceAddress:
        host = link.north if service.id == distant else link.centre
        return replace(service, url=f"https://{host}:{service.url.rpartition(':')[2]}")

    real = Deployment(
        directory,
        placed(plan.coordinator),
        tuple(placed(item) for item in plan.aggregators),
        placed(plan.curator),
    )
    real.save()
    coordinator = {"TACIT_AGGREGATOR_TIMEOUT_S": "3", "TACIT_PATIENCE_S": "8"}
    running = Running(real, {**FAST, "coordinator": {**FAST["coordinator"], **coordinator}})
    for service in real.services:
        name, host = ("north", link.north) if service.id == distant else ("centre", link.centre)
        running.more[service.id] = {
            "TACIT_HOST": host,
            "TACIT_TLS_CERTIFICATE": str(directory / "tls" / f"{name}.pem"),
            "TACIT_TLS_KEY": str(directory / "tls" / f"{name}.key"),
            "TACIT_TLS_AUTHORITY": str(directory / "tls" / "authority.pem"),
        }
    link.open()
    try:
        for service in real.services:
            if service.id == distant:
                link.within(lambda service=service: running.start_one(service))  # type: ignore[misc]
            else:
                running.start_one(service)
        for service in real.services:
            await asyncio.to_thread(running.wait_for, service)
        await asyncio.to_thread(pair, real)
        yield World(real, running, {}), link
    finally:
        await asyncio.to_thread(running.stop)
        link.close()
