"""Files that the attackers upload for jobs."""

from __future__ import annotations

import json
from typing import Any

from tests.coordinator.jobs.office import Office


def upload(it: Office, kind: str, content: bytes, form: str = "csv", **fields: Any) -> Any:
    """The answer to a file, with these fields beside it."""
    said = {"name": "d", "kind": kind, "format": form, **fields}
    data = {key: each if isinstance(each, str) else json.dumps(each) for key, each in said.items()}
    return it.ask("POST", "/v1/datasets", data=data, files={"file": ("f", content)})
