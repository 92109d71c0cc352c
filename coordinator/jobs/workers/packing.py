"""An outcome as one zip, in transit from a worker to the coordinator.

outcome.json            result, report, public seeds, and the description of each file
evaluation.json         for the operator, if there is one
files/NAME  plots/NAME.svg  plots/NAME.png
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from algorithms.contract import Outcome
from tacit.report.model import PrivacyReport

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True)
class Packed:
    """The content of a zip."""

    result: dict[str, Any]
    report: PrivacyReport
    public_seeds: dict[str, int]
    files: tuple[tuple[str, str, str], ...]
    plots: tuple[str, ...]
    evaluation: bytes | None


def pack(outcome: Outcome) -> bytes:
    """The zip. Raises ValueError for an invalid name and for a number that is not finite."""
    target = io.BytesIO()
    head = {
        "result": outcome.result,
        "report": json.loads(outcome.report.model_dump_json()),
        "public_seeds": dict(outcome.public_seeds),
        "files": [[item.name, item.media_type, item.description] for item in outcome.files],
        "plots": [item.name for item in outcome.plots],
    }
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("outcome.json", text(head))
        if outcome.evaluation is not None:
            archive.writestr("evaluation.json", text(outcome.evaluation))
        for file in outcome.files:
            archive.writestr(f"files/{_named(file.name)}", file.content)
        for plot in outcome.plots:
            archive.writestr(f"plots/{_named(plot.name)}.svg", plot.svg)
            archive.writestr(f"plots/{_named(plot.name)}.png", plot.png)
    return target.getvalue()


def unpack(archive: zipfile.ZipFile) -> Packed:
    """Read everything but files and plots, of which only the names are checked."""
    head = json.loads(archive.read("outcome.json"))
    names = set(archive.namelist())
    evaluation = archive.read("evaluation.json") if "evaluation.json" in names else None
    files = tuple((_named(name), kind, words) for name, kind, words in head["files"])
    return Packed(
        head["result"],
        PrivacyReport.model_validate_json(json.dumps(head["report"])),
        head["public_seeds"],
        files,
        tuple(_named(name) for name in head["plots"]),
        evaluation,
    )


def text(value: Any) -> bytes:
    """JSON as it is stored: indented, numpy's numbers and arrays as plain ones."""
    return json.dumps(value, indent=1, allow_nan=False, default=_plain).encode() + b"\n"


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError("a result holds plain JSON values")


def _named(name: str) -> str:
    if NAME.fullmatch(name) is None:
        raise ValueError("a part of a result has a plain name")
    return name
