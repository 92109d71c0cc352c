"""One sentence for reports and pages: what declared operators are worth on one machine."""

from __future__ import annotations

import pytest

from tacit.report.statements import one_machine, operators_statements

HERE = ["http://127.0.0.1:8301", "http://localhost:8302", "http://[::1]:8303"]
APART = ["https://a.example", "https://b.example", "https://c.example"]


@pytest.mark.parametrize(
    ("urls", "begins"),
    [
        (HERE, "All 3 aggregators run on one machine"),
        (["https://x.example:1", "https://X.example:2"], "All 2 aggregators run on one machine"),
        ([*APART[:2], "https://b.example:8443"], "2 of 3 aggregators run on one machine"),
    ],
)
def test_aggregators_on_one_machine_are_named(urls: list[str], begins: str) -> None:
    assert (one_machine(urls) or "").startswith(begins)
    declared, warning = operators_statements([str(place) for place in range(len(urls))], urls)
    assert "different operator" in declared
    assert "is run by" not in declared
    assert warning == one_machine(urls)


def test_aggregators_apart_need_no_warning() -> None:
    assert one_machine(APART) is None
    assert one_machine(HERE[:1]) is None
    assert operators_statements(["a", "b", "c"], APART) == (
        "Each aggregator is run by a different operator, as declared.",
    )
    [statement] = operators_statements(["a", "b", "a"], APART)
    assert statement.startswith("3 aggregators are run by 2 operators")
