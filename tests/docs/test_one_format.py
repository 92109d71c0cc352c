"""Nothing was released: there is one version of each thing, and no way back to another."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SERVICES = ("aggregator", "coordinator", "curator")
_SECOND = re.compile(
    r"""tacit[ ][a-z -]+[ ]v(?:[2-9]|1\d)          # labels of what is signed, hashed or sealed
    |tacit\.[a-z-]+/(?:[2-9]|1\d)\b              # formats of documents
    |TC[A-Z][2-9]\b|tctkey\d                     # magic bytes, keys
    |\b[Ss]uite[ ]\d|\bformat[ ]\d               # prose
    |\bearlier[ ]versions?\b
    """,
    re.VERBOSE,
)
_ALLOWED = {
    "docs/how-to/upgrade.md",  # says what a second version would be called
    "tests/docs/test_one_format.py",
    # what another version is refused by
    "tests/cli/test_backup.py",
    "tests/examples/test_constrained_curator.py",
    "tests/tacit/crypto/test_sealing.py",
    "tests/tacit/protocol/round/test_messages.py",
}
_TEXT = ("*.py", "*.md", "*.js", "*.html", "*.json", "*.yml", "*.toml")


def test_there_is_no_second_version_of_anything() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "--", *_TEXT],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found = [
        f"{name}: {match.group()}"
        for name in listed.stdout.splitlines()
        if name not in _ALLOWED and (ROOT / name).exists()
        for match in _SECOND.finditer((ROOT / name).read_text("utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_has_one_migration(service: str) -> None:
    names = [path.name for path in (ROOT / service / "migrations" / "versions").glob("*.py")]
    assert names == ["0001_initial.py"]
