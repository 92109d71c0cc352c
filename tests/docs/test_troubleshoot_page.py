"""The problem types of the page exist, with the statuses that it says."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

from common.web.problems import _HTTP_NAMES, status_of
from tacit import errors

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "troubleshoot.md"
MODULES = (
    "aggregator.errors",
    "coordinator.errors",
    "coordinator.models.job",
    "curator.errors",
    "algorithms.datasets.kinds",
    "common.web.grants",
    "common.web.problems",
    "tacit.protocol.identities",
)
_ROW = re.compile(r"^\| (`\w+`(?:, `\w+`)*) \| ([\d, ]+) \|", re.MULTILINE)


def known() -> dict[str, set[int]]:
    """Every problem's name with the statuses that it may have."""
    for module in MODULES:
        import_module(module)
    found: dict[str, set[int]] = {}
    for status, name in _HTTP_NAMES.items():
        found.setdefault(name, set()).add(status)
    waiting = [errors.DomainError]
    while waiting:
        for kind in waiting.pop().__subclasses__():
            waiting.append(kind)
            found.setdefault(kind.name, set()).add(status_of(kind.__new__(kind)))
    return found


def test_every_type_exists_with_its_status() -> None:
    table = PAGE.read_text("utf-8").partition("## By problem type")[2]
    rows = _ROW.findall(table)
    assert len(rows) >= 18
    problems = known()
    for names, statuses in rows:
        said = {int(each) for each in statuses.split(",")}
        meant: set[int] = set()
        for name in re.findall(r"\w+", names):
            assert name in problems, name
            meant |= problems[name]
        assert said == meant, names
