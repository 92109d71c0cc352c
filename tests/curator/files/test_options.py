"""The query parameters of an import are the fields of its maps."""

from __future__ import annotations

import pytest

from curator.files.market.nem12 import NemMap
from curator.files.metered import MeterMap
from curator.files.options import ImportOptions
from curator.files.tables.columns import ColumnMap


def test_every_field_of_a_map_is_a_parameter_with_its_default() -> None:
    offered = {
        field.alias or name: field.default for name, field in ImportOptions.model_fields.items()
    }
    columns = {
        field.alias or name: field.default
        for name, field in ColumnMap.model_fields.items()
        if name != "unit"
    }
    assert {name: offered[name] for name in columns} == columns
    meters = {field.alias or name for name, field in MeterMap.model_fields.items()}
    assert offered.keys() == columns.keys() | meters | {"form", "dry_run", "import_id"}
    assert NemMap.model_fields.keys() <= offered.keys()


@pytest.mark.parametrize("name", ["tab", "\\t", "\t"])
def test_a_tab_has_a_name(name: str) -> None:
    given = ImportOptions.model_validate({"unit": "kWh", "delimiter": name})
    assert given.column_map().delimiter == "\t"
