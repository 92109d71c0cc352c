"""Builds the images of deploy/Dockerfile with docker, podman or buildah.

    python deploy/build.py [--engine docker|podman|buildah] [--version 0.1.0] [--pip-settings FILE]
        [--option OPTION ...] [TARGET ...]

With podman and buildah all times in layers are zero. `--pip-settings`: a pip.conf, seen while
packages are installed and in no layer. `--option`: one more option of the engine's build, such as
`--option=--build-arg=BASE=...`.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ENGINES: Final = ("docker", "podman", "buildah")
TARGETS: Final = ("aggregator", "curator", "coordinator", "worker", "tools")
ROOT: Final = Path(__file__).resolve().parents[1]


def command(
    engine: str, target: str, tag: str, pip_settings: Path | None, options: Sequence[str] = ()
) -> list[str]:
    """What builds one image."""
    words = [engine, "build", "--file", "deploy/Dockerfile", "--target", target, "--tag", tag]
    if engine != "docker":
        words += ["--timestamp", "0", "--format", "docker"]  # this format has health checks
    if pip_settings is not None:
        words += ["--secret", f"id=pip,src={pip_settings.resolve()}"]
    return [*words, *options, "."]


def main() -> None:
    """Build what the command line names."""
    parser = argparse.ArgumentParser(description="Builds the images of Tacit's services.")
    parser.add_argument("--engine", choices=ENGINES)
    parser.add_argument("--version", default="0.1.0")
    parser.add_argument("--pip-settings", type=Path)
    parser.add_argument("--option", action="append", default=[])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    arguments = parser.parse_args()
    found = arguments.engine or next(filter(shutil.which, ENGINES), None)
    if found is None:
        sys.exit(f"images: none of {', '.join(ENGINES)} is on this machine")
    unknown = set(arguments.targets) - set(TARGETS)
    if unknown:
        parser.error(f"no such image: {', '.join(sorted(unknown))}; known: {', '.join(TARGETS)}")
    for target in arguments.targets or TARGETS:
        tag = f"tacit/{target}:{arguments.version}"
        words = command(found, target, tag, arguments.pip_settings, arguments.option)
        done = subprocess.run(words, cwd=ROOT)
        if done.returncode:
            sys.exit(f"images: {found} could not build {tag}")
        print(f"built {tag}")


if __name__ == "__main__":
    main()
