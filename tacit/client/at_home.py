"""Where the services of a deployment on this machine are: the directory of `tacit up`."""

from __future__ import annotations

import json
from pathlib import Path

FILE = "deployment.json"


def access(home: str | Path, service: str) -> tuple[str, str]:
    """The address and the operator's token of a service of a deployment: `coordinator`, `curator`,
    or an aggregator by its name. Raises FileNotFoundError without a deployment, ValueError for a
    service that it does not have."""
    document = json.loads((Path(home) / FILE).read_text(encoding="utf-8"))
    services = document["services"]
    found = next((each for each in services if service in (each["kind"], each["id"])), None)
    if found is None:
        names = ", ".join(each["id"] for each in services)
        raise ValueError(f"there is no service {service!r} in {home}; there are: {names}")
    token = Path(found["directory"], "operator.token").read_text(encoding="ascii").strip()
    return found["url"], token
