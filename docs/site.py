"""Lays the pages out for the site generator: `make site`.

    python -m docs.site build/pages

The pages read well in a plain checkout and keep their links there. On the site the README is the
first page; a link to a file beside the documentation becomes that file's path in the project.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Final

DOCS = Path(__file__).parent
PROJECT = DOCS.parent
BESIDE: Final = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")
"""Pages that lie beside the documentation and are part of the site."""
_LINK: Final = re.compile(r"(!?)\[([^\]]*)\]\(([^)#:\s]+)(#[^)\s]*)?\)")


def lay_out(target: Path) -> None:
    """Write all pages and pictures below a directory, which is replaced."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(DOCS, target, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for path in target.rglob("*.md"):
        source = DOCS / path.relative_to(target)
        path.write_text(_linked(path.read_text("utf-8"), source), "utf-8")
    for name in BESIDE:
        text = _linked((PROJECT / name).read_text("utf-8"), PROJECT / name)
        (target / _placed(PROJECT / name)).write_text(text, "utf-8")


def _placed(source: Path) -> Path:
    """Where a page or picture of the project is on the site, from the site's root. Raises
    ValueError for any other file."""
    if source.parent == PROJECT and source.name in BESIDE:
        return Path("index.md" if source.name == "README.md" else source.name)
    return source.relative_to(DOCS)


def _linked(text: str, page: Path) -> str:
    """The page with its links as they are on the site. Raises FileNotFoundError for one to
    nothing."""
    depth = len(_placed(page).parts) - 1

    def linked(found: re.Match[str]) -> str:
        picture, words, link, place = found.group(1), found.group(2), found.group(3), found.group(4)
        there = (page.parent / link).resolve()
        if not there.exists():
            raise FileNotFoundError(f"{page.relative_to(PROJECT)}: {link}")
        try:
            placed = _placed(there)
        except ValueError:
            return f"{words} (`{there.relative_to(PROJECT)}` in the project)"
        if there.is_dir():
            return words
        return f"{picture}[{words}]({'../' * depth}{placed.as_posix()}{place or ''})"

    parts = re.split(r"(```.*?```|`[^`\n]*`)", text, flags=re.DOTALL)
    return "".join(
        part if place % 2 else _LINK.sub(linked, part) for place, part in enumerate(parts)
    )


if __name__ == "__main__":
    lay_out(Path(sys.argv[1]))
