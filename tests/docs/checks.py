"""Which tests hold an acceptance check of a specification: named one by one, and looked up."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
Held = Mapping[int, Sequence[str]]
"""By the number of a check: tests as `path::name`."""


@cache
def functions_of(path: str) -> frozenset[str]:
    """The functions of a module; none where there is no such module."""
    file = ROOT / path
    if not file.exists():
        return frozenset()
    found = ast.walk(ast.parse(file.read_text("utf-8")))
    return frozenset(
        each.name for each in found if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def missing(tests: Sequence[str]) -> list[str]:
    """Those of the tests that there are not."""
    places = [each.partition("::") for each in tests]
    return [f"{path}::{name}" for path, _, name in places if name not in functions_of(path)]


def numbers_of(page: Path, heading: str) -> list[int]:
    """The numbers of the checks in a section of a page."""
    section = page.read_text("utf-8").split(f"## {heading}")[1].split("\n## ")[0]
    return [int(number) for number in re.findall(r"^(\d+)\. ", section, re.MULTILINE)]
