"""The examples of the algorithms' pages run, and print what they are there to show."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

PAGES: Final = Path(__file__).parents[2] / "docs" / "algorithms"
PRINTED: Final = {
    "graph-der": r"(A\d\tA\d\n)+\n",
    "graph-random-matrix": r"\[50, 50, 50\] False\n",
    "path-publishing": re.escape(
        '[["ann", "cid"], ["bob", "dora"]]\n' + "('ann', 'bob', 'cid', 'dora', 'eve')\n"
    ),
    "privacy-check": "",
    "sequential-ngram": r"rank,count,length,items\n1,\d+,2,news sports\n2,\d+,2,sports weather\n\n",
    "sequential-prefix-tree": r"count,length,items\n\d+,1,home\n\d+,2,home work\n"
    r"\d+,3,home work home\n\n",
    "set-valued": r"count,length,items\n\d+,1,bread\n\d+,1,tea\n\d+,2,bread milk\n\n",
    "trajectory-kcl": "",
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
