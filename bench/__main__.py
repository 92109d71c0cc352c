"""`make bench`: every benchmark, one after the other, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SKIPPED = {"__init__", "__main__", "in_turn", "mpyc_party", "secagg_parties", "writers"}


def main() -> int:
    """Run them all; the number of those that failed."""
    folder = Path(__file__).parent
    packages = (path.parent for path in folder.glob("*/__main__.py"))
    names = sorted(path.stem for path in (*folder.glob("*.py"), *packages))
    failed = 0
    for name in names:
        if name in SKIPPED:
            continue
        print(f"\n=== python -m bench.{name}", flush=True)
        failed += subprocess.run([sys.executable, "-m", f"bench.{name}"]).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
