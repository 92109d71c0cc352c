"""What an algorithm is tried with: small sample datasets, and a job that runs on one of them.

A package may have its own in `sample.py`, with `samples() -> list[Sample]` and `JOB: SampleJob`.
`tacit dataset sample ALGORITHM` writes them, the algorithm's page begins with the command of the
job, and the tests of all algorithms find them there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Sample:
    """A file in a text format of its kind."""

    file_name: str
    kind: str
    format: str
    content: bytes
    description: str


@dataclass(frozen=True)
class SampleJob:
    """The sample that it reads, its parameters, and further options of `tacit job run`; those that
    name a file name one of the samples."""

    file_name: str
    params: Mapping[str, Any]
    options: Mapping[str, str] = field(default_factory=dict)

    def command(self, algorithm: str, folder: Path) -> str:
        """The line for a shell, with samples and parameters in a folder."""
        files = {"--universe"}
        further = [
            f"{option} {folder / value if option in files else value}"
            for option, value in self.options.items()
        ]
        parts = [
            f"tacit job run {algorithm} --dataset {folder / self.file_name}",
            *further,
            f"--params {folder / params_file(algorithm)}",
            f"--out {folder / algorithm}",
        ]
        return " ".join(parts)


def params_file(algorithm: str) -> str:
    """Where its parameters are written."""
    return f"{algorithm}-params.json"


def own_sample(algorithm: str) -> tuple[Callable[[], list[Sample]], SampleJob]:
    """The samples and the job in the package of an algorithm. Raises ModuleNotFoundError."""
    module = import_module(f"algorithms.{algorithm.replace('-', '_')}.sample")
    return module.samples, module.JOB
