"""The worked example "a year of days". Spec: budget, section 7, check 13."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.docs.walkthrough import pattern_of, plain

HOME = Path(__file__).parents[2]
PAGE = HOME / "docs" / "spec" / "budget.md"


def test_the_page_shows_what_the_script_prints() -> None:
    script = HOME / "examples" / "year_of_days.py"
    printed = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=True
    ).stdout
    _, _, after = PAGE.read_text("utf-8").partition("```console\nA limit of epsilon")
    shown = after.partition("```")[0]
    assert pattern_of(f"A limit of epsilon{shown}").fullmatch(plain(printed))
    lines = printed.splitlines()
    assert lines[0] == "A limit of epsilon 8 at delta 10^-6 is rho 1.052358"
    assert "365 days: rho 1.052357, epsilon 8.000; epsilons added up 117.132" in lines
    assert lines.index("day 366: refused") == lines.index("day 365: admitted") + 1
    assert "epsilon 1: rho 0.024355" in lines
