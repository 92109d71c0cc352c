"""Every `tacit` command that a page shows, run or not, exists and takes the options it is given."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from cli.main import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^```\w*.*?^```$|^(?: {4}\S.*\n)+", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\s*(?:[$>] )?(?:[A-Z_]+=\S+ )*tacit ((?:[^\n\\]|\\\n?)+)", re.MULTILINE)


def shown(text: str) -> Iterator[str]:
    """What follows `tacit` on lines of a page's blocks, joined where they go on."""
    for block in _BLOCK.findall(text):
        for found in _COMMAND.findall(block):
            yield found.replace("\\\n", " ").strip()


def words_of(command: str) -> list[str]:
    """Up to a pipe, a redirection, a comment or the next command."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:  # a quotation goes on in the next line
        words = command.split()
    ends = [place for place, word in enumerate(words) if set(word) <= set("|&;<>()")]
    return words[: ends[0]] if ends else words


@cache
def commands() -> dict[str, Any]:
    """The commands of `tacit`, with those in their groups."""
    loaded: dict[str, Any] = get_command(app).loaded()  # type: ignore[attr-defined]
    return loaded


def problems_of(words: list[str]) -> list[str]:
    """Which of a command's words mean nothing."""
    inside, rest, options = commands(), list(words), {"--help", "--version"}
    while inside and rest and not rest[0].startswith("-"):
        command = inside.get(rest[0])
        if command is None:
            return [f"no command {rest[0]}"]
        names = [name for item in command.params for name in (*item.opts, *item.secondary_opts)]
        options, inside, rest = {"--help", *names}, getattr(command, "commands", {}), rest[1:]
    given = [word.partition("=")[0] for word in rest if re.match(r"--?[a-z]", word)]
    return [f"no option {name}" for name in given if name not in options]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_of_a_page_exist(page: Path) -> None:
    wrong = [
        f"tacit {command}: {problem}"
        for command in shown(page.read_text(encoding="utf-8"))
        for problem in problems_of(words_of(command))
    ]
    assert not wrong


def test_what_does_not_exist_is_found() -> None:
    page = "```bash\ntacit rund list\n```\n\n    tacit round list --stat open | wc -l\n"
    found = [problems_of(words_of(command)) for command in shown(page)]
    assert found == [["no command rund"], ["no option --stat"]]
    assert sum(len(list(shown(page.read_text(encoding="utf-8")))) for page in PAGES) > 100
