"""The page on the architecture names files that exist and the floors that are enforced."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("docs/explanation/architecture.md", "CONTRIBUTING.md")
SERVICES = ("curator", "aggregator", "coordinator")
_PLACE = re.compile(r"`([a-z][\w./-]*(?:/|\.py|\.md))`")


def places(text: str) -> list[str]:
    """Files and folders that a page names; a bare file name is beside the one named before it."""
    found: list[str] = []
    for line in text.splitlines():
        folder = ""
        for place in _PLACE.findall(line):
            if "/" in place:
                folder = place.rpartition("/")[0] + "/"
                found.append(place)
            elif folder:
                found.append(folder + place)
    return found


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_a_page_names_is_there(page: str) -> None:
    """In the repository, or (`store/tables.py`) in each of the services."""
    named = places((ROOT / page).read_text("utf-8"))
    assert len(named) > 5
    missing = [
        place
        for place in named
        if not (ROOT / place).exists() and not all((ROOT / s / place).exists() for s in SERVICES)
    ]
    assert missing == []


def test_a_place_that_is_not_there_is_found() -> None:
    assert places("`curator/intake/no_such.py`, `none.py`") == [
        "curator/intake/no_such.py",
        "curator/intake/none.py",
    ]


_COLUMN = re.compile(r"^ *((?:[a-z]\w*(?:, )?)+)/?  +\S", re.MULTILINE)


def _packages() -> list[Path]:
    rooms = ("tacit", "common", "algorithms", "coordinator", "curator", "aggregator")
    return [path for room in rooms for path in sorted((ROOT / room).rglob("__init__.py"))]


def test_every_module_that_a_package_lists_is_there() -> None:
    """The lines of a package's docstring that begin with names and two blanks."""
    listed, missing = 0, []
    for path in _packages():
        docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        for names in _COLUMN.findall(docstring):
            for name in names.split(", "):
                listed += 1
                if not (path.parent / name).is_dir() and not (path.parent / f"{name}.py").exists():
                    missing.append(f"{path.relative_to(ROOT)}: {name}")
    assert listed > 80
    assert missing == []


def test_the_picture_has_the_floors_of_the_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    house = next(c for c in contracts["contracts"] if c["name"].startswith("house"))
    picture = (ROOT / "docs" / "pictures" / "floors.svg").read_text()
    drawn = re.findall(r'font-weight="bold">(\w+)<', picture)
    assert drawn == [name for layer in house["layers"] for name in layer.split(" | ")]
