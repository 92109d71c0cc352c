"""The check for known vulnerabilities, with a pip-audit that says what a test wants."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

AUDIT = Path(__file__).parents[2] / ".ci" / "audit.py"
FILE = "a==1 \\\n    --hash=sha256:00\nb==2 \\\n    --hash=sha256:11\n"
GOOD = {"name": "a", "version": "1", "vulns": []}
BAD = {"name": "b", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3"]}]}
UNKNOWN = {"name": "b", "skip_reason": "not found"}


def audit(directory: Path, first: Any, then: Any, errors: str = "") -> tuple[int, str]:
    """Run it with a pip-audit that answers so to one package and so to the file."""
    answers = directory / "answers.json"
    answers.write_text(json.dumps([first, then, errors]))
    program = directory / "pip-audit"
    program.write_text(
        f"#!{sys.executable}\n"
        "import json, sys\n"
        f"first, then, errors = json.load(open({str(answers)!r}))\n"
        "text = open(sys.argv[sys.argv.index('-r') + 1]).read()\n"
        "said = first if text.count('==') == 1 else then\n"
        "sys.stderr.write(errors)\n"
        "if said is None: sys.exit(1)\n"
        "print(json.dumps({'dependencies': said}))\n"
    )
    program.chmod(0o700)
    file = directory / "requirements.lock"
    file.write_text(FILE)
    done = subprocess.run(
        [sys.executable, str(AUDIT), str(file)],
        env={**os.environ, "PIP_AUDIT": str(program)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_nothing_known(tmp_path: Path) -> None:
    code, said = audit(tmp_path, [GOOD], [GOOD, GOOD])
    assert (code, said) == (0, "audit: no known vulnerability in 2 packages\n")


def test_a_finding_fails(tmp_path: Path) -> None:
    code, said = audit(tmp_path, [GOOD], [GOOD, BAD])
    assert code == 1
    assert "b 2: PYSEC-1, fixed in 3" in said


def test_packages_that_the_service_does_not_know_are_told(tmp_path: Path) -> None:
    code, said = audit(tmp_path, [GOOD], [GOOD, UNKNOWN])
    assert code == 0
    assert "NOT AUDITED, unknown to the service: 1 packages" in said


@pytest.mark.parametrize(
    ("first", "errors"),
    [
        (None, "ERROR: Could not connect to PyPI's vulnerability feed"),
        (None, "requests.exceptions.ConnectionError: Max retries exceeded"),
        ([UNKNOWN], ""),
    ],
    ids=["no-feed", "no-network", "a-mirror"],
)
def test_without_an_answer_it_passes_and_says_so(tmp_path: Path, first: Any, errors: str) -> None:
    code, said = audit(tmp_path, first, [BAD], errors)
    assert code == 0
    assert said.startswith("audit: NOT AUDITED: ")


def test_what_pip_audit_refuses_fails(tmp_path: Path) -> None:
    code, said = audit(tmp_path, None, None, "invalid requirements input")
    assert code == 2
    assert "invalid requirements input" in said
