"""Directories that only their owner may enter."""

from __future__ import annotations

from pathlib import Path


def make_private_directory(path: Path) -> None:
    """Make a directory of mode 0700 with its parents; one that exists is left as it is."""
    missing = [part for part in (path, *path.parents) if not part.exists()]
    for part in reversed(missing):
        part.mkdir(mode=0o700, exist_ok=True)
