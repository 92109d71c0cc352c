"""Every relative link of the pages leads somewhere, to a heading that is there."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+?)\s*#*$", re.MULTILINE)


@cache
def anchors(path: Path) -> frozenset[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found: dict[str, int] = {}
    names = set()
    for heading in _HEADING.findall(_FENCED.sub("", path.read_text("utf-8"))):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        count = found.get(name, 0)
        found[name] = count + 1
        names.add(f"{name}-{count}" if count else name)
    return frozenset(names)


def broken(page: Path) -> list[str]:
    """The links of a page that lead nowhere."""
    text = _CODE.sub("", _FENCED.sub("", page.read_text("utf-8")))
    found = []
    for link in _LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        place, _, anchor = unquote(link).partition("#")
        target = (page.parent / place).resolve() if place else page
        there = target.is_relative_to(ROOT) and target.exists()
        if not there or (anchor and anchor not in anchors(target)):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_resolves(page: Path) -> None:
    assert broken(page) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = ROOT / "docs" / "explanation" / "threat-model.md"
    assert "parties" in anchors(page)
    assert "no-such-heading" not in anchors(page)
    copy = tmp_path / "page.md"
    copy.write_text("[a](no-such-page.md) `[b](code.md)` [c](https://example.org) [d](#e)\n")
    assert broken(copy) == ["no-such-page.md", "#e"]


def test_every_alert_leads_to_a_heading() -> None:
    rules = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yml").read_text("utf-8"))
    alerts = [rule for group in rules["groups"] for rule in group["rules"]]
    assert alerts
    for rule in alerts:
        place, _, anchor = rule["annotations"]["runbook"].partition("#")
        assert anchor in anchors(ROOT / place), rule["alert"]


def test_every_page_of_a_reader_is_led_to() -> None:
    linked = set()
    for page in PAGES:
        text = _CODE.sub("", _FENCED.sub("", page.read_text("utf-8")))
        for link in _LINK.findall(text):
            place = unquote(link).partition("#")[0]
            if place and not re.match(r"[a-z]+:", link):
                linked.add((page.parent / place).resolve())
    folders = {path for path in linked if path.is_dir()}
    alone = [
        str(page.relative_to(ROOT))
        for page in PAGES
        if page not in linked and page.parent not in folders and page.name != "README.md"
    ]
    assert alone == []
