"""Templates are compiled once, and nobody who looks at a page waits for it again."""

from __future__ import annotations

from pathlib import Path

import pytest
from jinja2 import Environment

from common.web.console import pages as module
from common.web.console.pages import About, Pages
from coordinator.settings import CoordinatorSettings


def pages() -> Pages:
    about = About("coordinator", "d", "ab" * 32, "1")
    return Pages(about, "coordinator.console", (), CoordinatorSettings(data_dir=Path("unused")))


def test_what_was_compiled_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COMPILED", tmp_path)
    assert list(pages().compiling())

    def compiled(*_: object, **__: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(Environment, "compile", compiled)
    again = pages()
    assert list(again.compiling())
    for name in ("overview.html", "login.html"):
        assert again._templates.get_template(name)


def test_where_nothing_can_be_written_it_is_compiled_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "COMPILED", tmp_path / "missing")
    assert list(pages().compiling())
    assert pages()._templates.get_template("login.html")
