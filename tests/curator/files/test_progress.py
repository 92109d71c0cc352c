"""The imports that a process remembers: by name, the newest ones."""

from __future__ import annotations

import pytest

from common.runtime.clock import ManualClock
from curator.errors import UnknownImport
from curator.files.upload import KEPT_IMPORTS, Imports


def test_an_import_is_found_by_its_name() -> None:
    imports = Imports(ManualClock(), max_errors=1)
    one, unnamed = imports.begin("one"), imports.begin(None)
    assert imports.find("one") is one
    assert imports.find(unnamed.id) is unnamed
    again = imports.begin("one")
    assert imports.find("one") is again
    assert again is not one
    with pytest.raises(UnknownImport):
        imports.find("two")


def test_the_oldest_import_is_forgotten() -> None:
    imports = Imports(ManualClock(), max_errors=1)
    names = [str(number) for number in range(KEPT_IMPORTS)]
    for name in names:
        imports.begin(name)
    imports.begin("0")  # the newest again
    imports.begin("one more")
    assert {imports.find(name).id for name in ["0", *names[2:]]} == {"0", *names[2:]}
    with pytest.raises(UnknownImport):
        imports.find("1")
