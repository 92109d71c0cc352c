"""The pages as a site: each is there, each link leads somewhere. `make site` builds it in CI."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs import site

LINK = re.compile(r"\]\(([^)#:\s]+)(#[^)\s]*)?\)")


def test_every_page_is_there_and_no_link_leads_outside(tmp_path: Path) -> None:
    site.lay_out(tmp_path)
    pages = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.md")}
    own = {path.relative_to(site.DOCS).as_posix() for path in site.DOCS.rglob("*.md")}
    assert pages == own | {"index.md", "CHANGELOG.md", "CONTRIBUTING.md"}
    links = 0
    for page in tmp_path.rglob("*.md"):
        prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.DOTALL)
        for found in LINK.finditer(prose):
            there = (page.parent / found.group(1)).resolve()
            assert there.is_file() and there.is_relative_to(tmp_path), (page.name, found.group(0))
            links += 1
    assert links > 200
    assert not list(tmp_path.rglob("*.py"))


def test_a_file_beside_the_pages_is_named_by_its_path(tmp_path: Path) -> None:
    site.lay_out(tmp_path)
    front = " ".join((tmp_path / "index.md").read_text("utf-8").split())
    assert "a small device in one file (`examples/constrained_curator.py` in the project)" in front
    assert "](tutorial/first-private-sum.md)" in front
    assert "](../CHANGELOG.md)" in (tmp_path / "how-to" / "upgrade.md").read_text("utf-8")


def test_a_link_to_nothing_stops_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "docs").mkdir(parents=True)
    (project / "docs" / "page.md").write_text("[there](nowhere.md)", "utf-8")
    monkeypatch.setattr(site, "DOCS", project / "docs")
    monkeypatch.setattr(site, "PROJECT", project)
    with pytest.raises(FileNotFoundError, match=r"docs/page\.md: nowhere\.md"):
        site.lay_out(tmp_path / "laid")
