"""The tables of `make mutate` name modules, tests and lines that are there."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLES = ROOT / "tests" / "mutation"
TARGETS: dict[str, list[str]] = tomllib.loads((TABLES / "targets.toml").read_text())["tests"]
EQUIVALENT: list[dict[str, str]] = tomllib.loads((TABLES / "equivalent.toml").read_text()).get(
    "mutant", []
)


@pytest.mark.parametrize("module", TARGETS)
def test_a_target_and_its_tests_are_there(module: str) -> None:
    assert (ROOT / module).is_file()
    assert TARGETS[module]
    assert [test for test in TARGETS[module] if not (ROOT / test).exists()] == []


def test_an_equivalent_mutant_is_of_a_line_of_its_module_and_has_a_reason() -> None:
    for entry in EQUIVALENT:
        assert entry.keys() == {"module", "line", "becomes", "reason"}
        assert entry["module"] in TARGETS
        lines = [line.strip() for line in (ROOT / entry["module"]).read_text().splitlines()]
        assert set(entry["line"].splitlines()) <= set(lines), entry
        assert entry["becomes"] != entry["line"]
        assert entry["reason"]
