"""Numbers as pages show them. Spec: console, section 4."""

import pytest

from common.web.console import formatting

THIN = formatting.THIN


@pytest.mark.parametrize(
    ("value", "half_width", "shown"),
    [
        ("811.681", "50.68", ("812", "51")),
        ("795.137", "2.551", ("795.1", "2.6")),
        ("1234567.8", "51000", (f"1{THIN}235{THIN}000", f"51{THIN}000")),
        ("-0.5", "0.0123", ("−0.500", "0.012")),
        ("770.2", "436.9", ("770", "440")),
        ("12.5", None, ("12.5", None)),
        ("12", "0", ("12", None)),
    ],
)
def test_a_value_goes_to_the_place_of_its_error(
    value: str, half_width: str | None, shown: tuple[str, str | None]
) -> None:
    assert formatting.with_error(value, half_width) == shown


def test_groups_of_digits_begin_at_10_000() -> None:
    assert formatting.grouped(9999) == "9999"
    assert formatting.grouped(10_000) == f"10{THIN}000"
    assert formatting.grouped("-12345.25") == f"−12{THIN}345.25"


@pytest.mark.parametrize(("amount", "bounded"), [("2.5", True), ("inf", False), (None, False)])
def test_no_bound_is_never_a_figure(amount: str | None, bounded: bool) -> None:
    assert formatting.no_bound(amount) is not bounded


def test_states_are_sign_and_word() -> None:
    assert formatting.state("released").kind == "done"
    assert formatting.state("aborted").kind == "ended"
    assert {formatting.state(name).sign for name in ("open", "frozen", "committed")} == {"…"}


def test_a_fingerprint_is_read_in_groups() -> None:
    assert formatting.fingerprint("4bbd5c38be9d5775") == "4bbd 5c38 be9d 5775"
