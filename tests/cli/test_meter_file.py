"""Files of meters: plain and compressed, whole and cut."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cli.meter_file import MeterFile, column_map

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


def file(path: Path, start: str | None = None, **columns: object) -> MeterFile:
    return MeterFile(path, start, 900, "kWh", "energy_import", columns)


def test_parameters_of_an_import(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text("curator,time,value\n")
    plain = {"unit": "kWh", "register": "energy_import"}
    assert file(path).parameters() == plain  # the service finds the columns
    assert file(path).recognised().parameters == {"curator_column": "curator"}
    assert file(path, curator="a").parameters() == {**plain, "curator": "a"}
    wide = {**plain, "layout": "wide", "start": "2026-01-01T00:00:00Z", "step_s": 900}
    assert file(path, "2026-01-01T00:00:00Z").parameters() == wide
    mapped = file(path, unit="Wh", curator_column="Kunde", step_s=3600).parameters()
    assert mapped == {**plain, "unit": "Wh", "curator_column": "Kunde", "step_s": 3600}


def test_a_green_button_file_says_itself_what_it_holds(tmp_path: Path) -> None:
    for name, expected in (("u.xml", True), ("u.xml.gz", True), ("u.csv.gz", False)):
        assert file(tmp_path / name).green_button == expected
    assert file(tmp_path / "u.xml").parameters() == {}
    table = {"p-1": "house-1"}
    assert file(tmp_path / "u.xml", usage_points=table).parameters() == {
        "usage_points": '{"p-1": "house-1"}'
    }


def test_column_maps(tmp_path: Path) -> None:
    toml, json_ = tmp_path / "map.toml", tmp_path / "map.json"
    toml.write_text('unit = "Wh"\nheader_line = 3\n[usage_points]\n"p" = "a"\n')
    json_.write_text('{"unit": "Wh", "header_line": 3, "usage_points": {"p": "a"}}')
    assert column_map(toml) == column_map(json_)
    for path, text in ((toml, "unit ="), (json_, "{"), (json_, "[]")):
        path.write_text(text)
        with pytest.raises(ValueError):
            column_map(path)
