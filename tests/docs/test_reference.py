"""The generated pages are what the code says, and every setting and command is explained."""

from __future__ import annotations

import pytest

from docs.generate import DOCS, PAGES, SERVICES, settings_class


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_up_to_date(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("TACIT_HOME", "TACIT_URL", "TACIT_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    page = (DOCS / name).read_text(encoding="utf-8")
    assert page == PAGES[name](), "run `make docs`"


@pytest.mark.parametrize("service", SERVICES)
def test_every_setting_is_explained(service: str) -> None:
    for name, field in settings_class(service).model_fields.items():
        assert field.description, f"{service}: {name}"
