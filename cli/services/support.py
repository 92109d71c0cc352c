"""`tacit support-bundle`: what an operator sends to who helps, in one file, without secrets."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import httpx
import typer

from cli.context import Answer, Target, at_target, say
from cli.services.child import LOG
from cli.services.deployment import ServiceAddress
from cli.services.status import services_of, status_of
from tacit import Problem
from tacit.version import VERSION

LOG_BYTES: Final = 200_000
"""Of the log's end, of a service of `tacit up`."""


@at_target
def support_bundle(
    target: Target,
    out: Annotated[
        Path | None,
        typer.Option(help="File to write; default: tacit-support-TIME.zip in this directory."),
    ] = None,
) -> Answer:
    """Write versions, settings without secrets, status, counts and log lines into one zip file.

    It holds no reading, no secret and no curator's name. A service that does not answer has only
    its log in it. With --url it is of the service there.
    """
    now = datetime.now(UTC)
    path = out or Path(f"tacit-support-{now:%Y%m%dT%H%M%SZ}.zip")
    parts = {
        "bundle.json": _json({"version": VERSION, "made": now.isoformat()}),
        "status.json": _json(_answer(partial(status_of, target))),
    }
    for service in services_of(target):
        parts |= _of_service(target, service)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with (
        os.fdopen(descriptor, "wb") as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as bundle,
    ):
        for name, content in parts.items():
            bundle.writestr(name, content)
    lines = [f"{path}:", *(f"  {name}" for name in parts)]
    answer = {"file": str(path), "parts": list(parts)}
    return Answer(answer, lambda: say("\n".join(lines), markup=False))


def _of_service(target: Target, service: ServiceAddress) -> dict[str, bytes]:
    """What it answers, and the end of its log if that is a file of `tacit up`."""

    def support() -> Mapping[str, Any]:
        with target.coordinator() if target.url is not None else service.client() as client:
            return dict(client.support())

    parts = {f"{service.id}.json": _json(_answer(support))}
    log = Path(service.directory, LOG)
    if target.url is None and log.exists():
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - LOG_BYTES))
            parts[f"{service.id}.log"] = file.read()
    return parts


def _answer(ask: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    """What was asked for, or why there is no answer."""
    try:
        return ask()
    except Problem as problem:
        return {"problem": problem.name}
    except (httpx.HTTPError, OSError) as error:  # OSError: a service that never made its token
        return {"problem": type(error).__name__}


def _json(value: object) -> bytes:
    return json.dumps(value, indent=1, default=dict).encode()
