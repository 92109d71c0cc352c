"""The examples of the algorithms' pages run, and print what they are there to show."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

PAGES: Final = Path(__file__).parents[2] / "docs" / "algorithms"
PRINTED: Final = {
    "sequential-ngram": r"rank,count,length,evidence,items\n1,\d+,2,beyond noise,news sports\n"
    r"2,\d+,2,beyond noise,sports weather\n\n",
}


def examples(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (PAGES / f"{page}.md").read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize("page", PRINTED)
def test_an_example_prints_what_it_shows(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    for example in examples(page):
        exec(compile(example, page, "exec"), {})
    assert re.fullmatch(PRINTED[page], capsys.readouterr().out)


def test_every_example_is_run() -> None:
    assert {page.stem for page in PAGES.glob("*.md") if examples(page.stem)} == set(PRINTED)
