"""Every benchmark starts: what it names in the product is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OTHERS = ("flwr", "mpyc")
"""Libraries that are only installed to be compared with."""


@pytest.mark.slow
def test_every_benchmark_can_be_imported() -> None:
    paths = [path.relative_to(ROOT).with_suffix("") for path in (ROOT / "bench").rglob("*.py")]
    modules = sorted(".".join(path.parts) for path in paths)
    assert len(modules) > 40
    code = (
        "import sys; from importlib import import_module\n"
        "for name in sys.argv[1:]:\n"
        "    try: import_module(name)\n"
        f"    except ModuleNotFoundError as error: assert error.name in {OTHERS}, (name, error)\n"
        "    except ImportError as error: raise SystemExit(f'{name}: {error}')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *modules], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
