"""The page of two operators, run by two operators: the second one's commands and service are on
another host, a network namespace behind one link, with a certificate of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cli.services.config import prepare
from cli.services.deployment import free_ports
from tests.docs.walkthrough import walk
from tests.e2e.two_hosts import Link, missing

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(missing() is not None, reason=missing() or ""),
]
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "two-operators.md"

# `tacit` as each operator types it: at home, on his own host.
COMMAND = """#!/bin/sh
export TACIT_TLS_AUTHORITY={tls}/authority.pem
case "$TACIT_DATA_DIR$TACIT_URL" in
  north|{north}*) host={north_host} name=north away="ip netns exec {namespace}" ;;
  *) host={centre_host} name=centre away= ;;
esac
export TACIT_HOST=$host TACIT_TLS_CERTIFICATE={tls}/$name.pem TACIT_TLS_KEY={tls}/$name.key
echo "$name $*" >> {seen}
exec $away {tacit} "$@"
"""


def test_the_page_of_two_operators_on_two_hosts(tmp_path: Path) -> None:
    link = Link(98)
    tls, seen = tmp_path / "tls", tmp_path / "seen"
    prepare(tls, [["centre", link.centre], ["north", link.north]], 30)
    ports = free_ports(2)
    centre, north = f"https://{link.centre}:{ports[0]}", f"https://{link.north}:{ports[1]}"
    tools = tmp_path / "tools"
    tools.mkdir()
    real = Path(sys.executable).with_name("tacit")
    (tools / "tacit").write_text(
        COMMAND.format(
            tls=tls,
            seen=seen,
            north=north,
            north_host=link.north,
            centre_host=link.centre,
            namespace=link.namespace,
            tacit=real,
        )
    )
    (tools / "tacit").chmod(0o755)
    around = {
        "CENTRE": centre,
        "NORTH": north,
        "COLUMNS": "110",
        "CURL_CA_BUNDLE": str(tls / "authority.pem"),
        "NO_PROXY": "*",
    }
    link.open()
    try:
        walk(PAGE, tmp_path, around, first=tools)
    finally:
        link.close()
    typed = seen.read_text().splitlines()
    assert "north serve aggregator" in typed
    assert any(line.startswith(f"north pair coordinator {centre}") for line in typed)
    assert any(line.startswith(f"centre pair aggregator {north}") for line in typed)
