"""`tacit algorithms NAME` tells parameters inside of parameters."""

from __future__ import annotations

from typing import Any

import pytest

from algorithms import catalogue
from cli.algorithms import parameters


def rows_of(name: str) -> dict[str, tuple[str, str, str]]:
    listed = parameters(catalogue.shown(name)["parameters"])
    found = {path: (kind, default, meaning) for path, kind, default, meaning in listed}
    assert len(found) == len(listed), "every path once"
    return found


def test_what_is_inside_has_a_path() -> None:
    crowd = rows_of("crowd-tasking")
    assert crowd["sensor"][0] == "object"
    assert crowd["sensor.name"][:2] == ("string", "needed")
    assert crowd["sensor.coordinates"][0] == "array"
    assert crowd["sensor.coordinates[].lower"][1] == "needed"
    assert crowd["sensor.steps"][1] == "65536"


def test_one_of_several_models_is_named() -> None:
    check = rows_of("privacy-check")
    assert check["models[k-anonymity].k"][:2] == ("integer 1..", "-")
    assert check["models[alpha-k-anonymity].alpha"][1] == "needed"
    assert check["ground_distance.*[tree].edges"][1] == "needed"
    assert not [path for path in check if path.endswith(".model")]


@pytest.mark.parametrize("name", catalogue.NAMES)
def test_no_model_is_left_out(name: str) -> None:
    """Every field of every model that a schema has is in some row."""
    schema: dict[str, Any] = catalogue.shown(name)["parameters"]
    told = {path.rpartition(".")[2] for path in rows_of(name)}
    for model in schema.get("$defs", {}).values():
        fields = {key for key, each in model.get("properties", {}).items() if "const" not in each}
        assert fields <= told
