"""A deployment behind nginx: all services at one address over TLS, each under a prefix of its own,
which nginx removes."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from cli.services.config import prepare
from cli.services.deployment import Deployment, Running, ServiceAddress, free_ports, pair
from cli.services.up import service_settings
from tests.e2e.world import FAST, World

PREFIX = "/tacit"


@dataclass(frozen=True)
class Behind:
    """The deployment as others reach it."""

    world: World
    address: str

    @property
    def console(self) -> str:
        return self.world.real.coordinator.url


def nginx() -> str | None:
    """Debian's, which is not on a user's path."""
    return shutil.which("nginx", path="/usr/sbin:/usr/bin:/sbin")


@contextmanager
def behind_nginx(
    directory: Path, settings: Callable[[ServiceAddress], dict[str, str]]
) -> Iterator[Behind]:
    """Running; callers need `TACIT_TLS_AUTHORITY` for its tls/authority.pem. `settings`: more of
    the coordinator and the curator service, by where others reach them."""
    prepare(directory / "tls", [["proxy", "localhost"]], 30)
    plan = Deployment.plan(directory, 2)
    plan.save()
    address = f"https://localhost:{free_ports(1)[0]}"

    def public(service: ServiceAddress) -> ServiceAddress:
        return replace(service, url=f"{address}{PREFIX}/{service.id}")

    outside = Deployment(
        directory,
        public(plan.coordinator),
        tuple(public(each) for each in plan.aggregators),
        public(plan.curator),
    )
    extra = service_settings()
    running = Running(plan, {kind: FAST[kind] | extra[kind] for kind in FAST})
    for service in outside.services:
        running.public_urls[service.id] = service.url
        running.more[service.id] = {"TACIT_TLS_AUTHORITY": str(directory / "tls/authority.pem")}
    for service in (outside.coordinator, outside.curator):
        running.more[service.id] |= settings(service)
    configuration = directory / "nginx.conf"
    configuration.write_text(_configuration(directory, address, plan))
    line = [str(nginx()), "-e", str(directory / "nginx.log"), "-c", str(configuration)]
    with subprocess.Popen(line) as proxy:
        try:
            running.start()
            with outside.coordinator.client() as client:
                end = time.monotonic() + 30
                while not client.ready():
                    assert time.monotonic() < end, (directory / "nginx.log").read_text()
            pair(outside)
            yield Behind(World(outside, running, {}), address)
        finally:
            running.stop()
            proxy.terminate()


def _configuration(directory: Path, address: str, plan: Deployment) -> str:
    places = "\n".join(
        f"location {PREFIX}/{each.id}/ {{ proxy_pass {each.url}/; }}" for each in plan.services
    )
    return f"""
daemon off;
pid {directory}/nginx.pid;
events {{}}
http {{
  access_log off;
  {" ".join(f"{kind}_temp_path {directory}/{kind};" for kind in _TEMPORARY)}
  server {{
    listen {address.removeprefix("https://").replace("localhost", "127.0.0.1")} ssl;
    ssl_certificate {directory}/tls/proxy.pem;
    ssl_certificate_key {directory}/tls/proxy.key;
    client_max_body_size 256m;
    proxy_request_buffering off;
    proxy_read_timeout 90s;
    {places}
  }}
}}
"""


_TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
