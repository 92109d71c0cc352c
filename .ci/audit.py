"""Asks for known vulnerabilities of the pinned packages, with pip-audit.

python .ci/audit.py [requirements ...]      # default: requirements.lock

Exit code 1 for a finding, 2 where pip-audit refuses what it was given. Without an answer of the
vulnerability service nothing is known: that is said plainly, and the exit code is 0, because a
check must not fail for lack of network. One package is asked for first: a mirror that knows
nothing of vulnerabilities answers as if all were unknown, and is not asked for the rest.
`AUDIT_SERVICE` chooses the service (`pypi`, `osv`).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PATIENCE_S = 300
_UNREACHABLE = (
    "Could not connect to",
    "not redirecting properly",
    "ConnectionError",
    "Max retries exceeded",
    "NameResolutionError",
    "Temporary failure in name resolution",
    "ReadTimeout",
    "timed out",
    "ProxyError",
    "SSLError",
)


class Unreachable(Exception):
    """The vulnerability service does not answer, or knows nothing."""


class Failed(Exception):
    """pip-audit does not take what it was given; its words."""


def main(files: list[str]) -> int:
    """Audit the files; the exit code."""
    try:
        for file in files:
            _probe(Path(file))
        return _judge(_ask(files))
    except Unreachable as error:
        print(f"audit: NOT AUDITED: {error}. Nothing is known of these packages; this passes.")
        return 0
    except (Failed, OSError) as error:
        print(f"audit: failed: {error}", file=sys.stderr)
        return 2


def _probe(file: Path) -> None:
    """Ask for the first package of a file alone."""
    first, *_ = re.split(r"\n(?=[^\s#])", file.read_text(encoding="utf-8").strip())
    with tempfile.TemporaryDirectory() as folder:
        alone = Path(folder) / "requirements.txt"
        alone.write_text(first + "\n", encoding="utf-8")
        if all("skip_reason" in item for item in _ask([str(alone)])):
            raise Unreachable("the service knows nothing of the package it was asked for first")


def _ask(files: list[str]) -> list[dict[str, Any]]:
    """What pip-audit says of each package."""
    asked = [argument for file in files for argument in ("-r", file)]
    command = [
        os.environ.get("PIP_AUDIT", str(Path(sys.executable).parent / "pip-audit")),
        *asked,
        *("--require-hashes", "--disable-pip", "--format", "json", "--progress-spinner", "off"),
        *("--vulnerability-service", os.environ.get("AUDIT_SERVICE", "pypi")),
    ]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise Unreachable(f"no answer within {PATIENCE_S} s") from None
    try:
        found: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        if any(word in done.stderr for word in _UNREACHABLE):
            raise Unreachable("the vulnerability service could not be reached") from None
        raise Failed(done.stderr.strip()[-2000:]) from None
    return found


def _judge(packages: list[dict[str, Any]]) -> int:
    skipped = [item for item in packages if "skip_reason" in item]
    found = [(item, known) for item in packages for known in item.get("vulns", ())]
    for item, known in found:
        fixed = ", ".join(known.get("fix_versions", ())) or "no version yet"
        print(f"audit: {item['name']} {item['version']}: {known['id']}, fixed in {fixed}")
    asked = len(packages) - len(skipped)
    if found:
        print(f"audit: {len(found)} known vulnerabilities in {asked} packages", file=sys.stderr)
        return 1
    print(f"audit: no known vulnerability in {asked} packages")
    if skipped:
        print(f"audit: NOT AUDITED, unknown to the service: {len(skipped)} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["requirements.lock"]))
