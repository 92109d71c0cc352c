"""The changelog tells what a reader can check: the hash of the verifier that browsers run."""

from __future__ import annotations

import hashlib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_it_has_the_hash_of_the_verifier() -> None:
    content = (ROOT / "common/web/console/static/verify.js").read_bytes()
    assert hashlib.sha256(content).hexdigest() in (ROOT / "CHANGELOG.md").read_text()
