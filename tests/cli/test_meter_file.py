"""Files of meters: plain and compressed, whole and cut."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cli.meter_file import MeterFile

TEXT = "meter,t0,t1\na,0.5,1.25\nb,nonsense,-3\n"
WRITERS: dict[str, Callable[[Path], object]] = {
    "m.csv": lambda path: path.write_text(TEXT),
    "m.csv.gz": lambda path: path.write_bytes(gzip.compress(TEXT.encode())),
    "m.csv.xz": lambda path: path.write_bytes(lzma.compress(TEXT.encode())),
}


@pytest.mark.parametrize("name", WRITERS)
def test_meters_and_values(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    WRITERS[name](path)
    file = MeterFile(path, "2026-01-01T00:00:00Z", 43_200, "kWh", "energy_import")
    assert file.meters() == ["a", "b"]
    values = file.values(1)
    assert values[0].tolist() == [0.5, 1.25]
    assert np.isnan(values[1, 0])
    assert values[1, 1] == -3
