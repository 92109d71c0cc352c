"""Every acceptance check of a specification is held by a test that there is.

`acceptance_checks.txt`: page, number of the check, and a test of those that hold it, a line each.
What only a measurement shows is printed by a program in `bench/`.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
HELD: Final = [
    line.split()
    for line in Path(__file__).with_name("acceptance_checks.txt").read_text().split("\n")
]


@cache
def functions_of(path: str) -> frozenset[str]:
    """The functions of a module; none where there is no such module."""
    file = ROOT / path
    nodes = ast.walk(ast.parse(file.read_text("utf-8"))) if file.exists() else ()
    return frozenset(
        each.name for each in nodes if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def test_every_test_of_the_list_is_there() -> None:
    places = [held[2].partition("::") for held in HELD if held]
    assert [f"{path}::{name}" for path, _, name in places if name not in functions_of(path)] == []


@pytest.mark.parametrize("page", ["federated-counting", "keys", "utility", "validity"])
def test_every_check_of_a_page_is_in_the_list(page: str) -> None:
    text = (ROOT / "docs" / "spec" / f"{page}.md").read_text("utf-8")
    (section,) = re.findall(
        r"^## \d+\. (?:Acceptance c|C)hecks\n(.*?)(?:\n## |\Z)", text, re.M | re.S
    )
    numbers = re.findall(r"^(\d+)\. ", section, re.MULTILINE)
    assert numbers == list(dict.fromkeys(held[1] for held in HELD if held and held[0] == page))
