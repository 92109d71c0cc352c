"""The reference client, to be run as a script or called."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

SCRIPT = Path(__file__).parents[2] / "examples" / "constrained_curator.py"


def load_client() -> ModuleType:
    """Its functions, a copy for each caller."""
    spec = importlib.util.spec_from_file_location("constrained_curator", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
