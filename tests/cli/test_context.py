"""How commands get their target, and how their answers are printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, cast

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from cli.context import (
    EARLY,
    REFUSALS,
    Answer,
    ExitCode,
    Target,
    TextTable,
    at_target,
    exit_code,
    printed,
    say,
    tabled,
)
from cli.formatting import MAX_LENGTH, refused_lines, result_lines, summary_lines
from tacit import Problem

app = typer.Typer()


@app.command("count")
@printed
def count(words: Annotated[list[str], typer.Argument(help="What to count.")]) -> Answer:
    """How many words there are."""
    if "bad" in words:
        raise ValueError("one of them is bad\nand more about it")
    return Answer({"words": len(words)}, lambda: typer.echo(f"{len(words)} words"))


@app.command("where")
@at_target
def where(target: Target, wanted: int = 0) -> Answer:
    """Where the command goes."""
    found = {"home": str(target.home), "url": target.url, "token": target.token}
    return Answer(found, lambda: typer.echo(str(target.home)), wanted)


@app.command("refused")
@at_target
def refused(target: Target) -> Answer:
    raise Problem(409, "late", {"detail": "the round is closed"})


def _run(*words: str, **environment: str) -> tuple[int, str, str]:
    found = CliRunner().invoke(app, list(words), env=environment)
    return found.exit_code, found.stdout, found.stderr


def test_an_answer_is_printed_for_people_or_as_json() -> None:
    assert _run("count", "one", "two") == (0, "2 words\n", "")
    assert json.loads(_run("count", "one", "two", "--json")[1]) == {"words": 2}


def test_an_error_is_one_line_and_its_exit_code_says_what_kind() -> None:
    assert _run("count", "bad") == (2, "", "tacit: one of them is bad\n")
    assert _run("refused") == (1, "", "tacit: late: the round is closed\n")


def test_an_error_is_a_problem_document_in_one_line_under_json() -> None:
    code, out, line = _run("refused", "--json")
    assert (code, out, line.count("\n")) == (1, "", 1)
    assert json.loads(line) == {"detail": "the round is closed", "exit_code": 1}
    assert json.loads(_run("count", "bad", "--json")[2]) == {
        "detail": "one of them is bad",
        "exit_code": 2,
    }


@pytest.mark.parametrize(
    ("status", "name", "figures", "code"),
    [
        (400, "malformed_request", {}, ExitCode.USAGE),
        (404, "unknown_round", {}, ExitCode.USAGE),
        (422, "query_refused", {}, ExitCode.USAGE),
        (422, "exact_refused", {}, ExitCode.REFUSED),
        (409, "budget_exceeded", {}, ExitCode.REFUSED),
        (403, "scope_missing", {}, ExitCode.REFUSED),
        (401, "token_expired", {}, ExitCode.REFUSED),
        (409, "not_released", {"state": "aborted"}, ExitCode.FAILED),
        (409, "not_released", {"state": "open"}, ExitCode.NOT_READY),
        (409, "job_not_finished", {}, ExitCode.NOT_READY),
        (409, "anything", {"retryable": True}, ExitCode.NOT_READY),
        (429, "too_many_requests", {}, ExitCode.NOT_READY),
        (503, "not_ready", {}, ExitCode.NOT_READY),
        (410, "round_closed", {}, ExitCode.FAILED),
        (500, "http_500", {}, ExitCode.FAILED),
    ],
)
def test_the_exit_code_of_a_refusal(
    status: int, name: str, figures: dict[str, object], code: ExitCode
) -> None:
    assert exit_code(Problem(status, name, figures)) is code


def test_the_problems_that_exit_codes_name_exist() -> None:
    """A problem that is renamed would fall back to the code of its status."""
    root = Path(__file__).parents[2]
    rooms = ("aggregator", "algorithms", "common", "coordinator", "curator", "tacit")
    text = "\n".join(path.read_text() for room in rooms for path in root.glob(f"{room}/**/*.py"))
    assert {name for name in REFUSALS | EARLY if f'name = "{name}"' not in text} == set()


def test_the_target_comes_from_options_or_the_environment() -> None:
    by_option = _run("where", "--home", "x", "--url", "http://y", "--token", "z", "--json")
    variables = {"TACIT_HOME": "x", "TACIT_URL": "http://y", "TACIT_TOKEN": "z"}
    assert by_option == _run("where", "--json", **variables)
    assert json.loads(by_option[1]) == {"home": "x", "url": "http://y", "token": "z"}
    assert _run("where") == (0, ".tacit\n", "")


def test_an_answer_may_have_an_exit_code() -> None:
    assert _run("where", "--wanted", "3") == (3, ".tacit\n", "")


def test_the_help_has_the_command_s_own_parameters_first_and_not_the_target() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert [each.name for each in commands["count"].params] == ["words", "as_json"]
    names = ["wanted", "home", "url", "token", "as_json"]
    assert [each.name for each in commands["where"].params] == names
    assert commands["where"].help == "Where the command goes."


def test_no_deployment_is_said_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(typer.Exit) as ended:
        Target(tmp_path / "none").coordinator()
    assert ended.value.exit_code == 3


def test_a_line_keeps_its_brackets_where_asked(capsys: pytest.CaptureFixture[str]) -> None:
    say("[dim]quiet[/dim]")
    say("[dim]quiet[/dim]", markup=False)
    assert capsys.readouterr().out == "quiet\n[dim]quiet[/dim]\n"


def test_a_table_is_printed_with_its_columns(capsys: pytest.CaptureFixture[str]) -> None:
    tabled([{"name": "g"}], "Groups", ["name"], [["g"]]).show(as_json=False)
    title, *rest = capsys.readouterr().out.splitlines()
    assert title.strip() == "Groups"
    assert "name" in "".join(rest) and "g" in "".join(rest)


@pytest.mark.parametrize(("width", "stacked"), [(60, False), (40, True), (8, True)])
def test_a_table_breaks_no_word(width: int, stacked: bool) -> None:
    screen = Console(width=width, soft_wrap=True)
    name = "a-name-of-thirty-characters-ok"
    with screen.capture() as shown:
        screen.print(TextTable("Parties", ["id", "state"], [[name, "joined yesterday"]]))
    assert name in shown.get()
    assert (f"id: {name}\n" in shown.get()) is stacked


def test_who_was_refused_by_a_proof_is_listed_with_its_reasons() -> None:
    found = {
        "count": 3,
        "refused": [
            {"number": 7, "curator": "house-7", "reasons": ["proof"]},
            {"number": 9, "curator": None, "reasons": ["proof", "point"]},
        ],
        "statements": ["north: two verdicts"],
    }
    assert refused_lines(found) == [
        "3 refused by their proof",
        "house-7: proof",
        "9: proof, point",
        "and 1 more",
        "north: two verdicts",
    ]
    nobody = {"count": 0, "refused": [], "statements": []}
    assert refused_lines(nobody) == ["0 refused by their proof"]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"instances": 5, "local_ops": 3}, "instances 5, local_ops 3"),
        ([], "none"),
        ({}, "none"),
        (None, "none"),
        (True, "yes"),
        (0.14705882352941177, "0.147059"),
        ("0.5", "0.5"),
        ([[4.9384, 3.2], [6, 2]], "(4.9384, 3.2), (6, 2)"),
        ([{"items": ["19", "43"], "count": 7}], "(items (19, 43), count 7)"),
        (list(range(15)), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 3 more"),
        (["one thing", "another"], "one thing; another"),
    ],
)
def test_a_value_is_said_in_words(value: object, said: str) -> None:
    assert summary_lines({"name": value}) == [f"name: {said}"]


def test_a_long_one_is_cut_and_says_so() -> None:
    [line] = summary_lines({"patterns": [{"items": ["a"] * 9, "count": 3}] * 12})
    assert len(line) <= MAX_LENGTH and line.endswith(" ...")


def test_a_percentile_is_printed_with_its_interval() -> None:
    response: dict[str, Any] = {
        "round": "r",
        "window": {"start": "a", "end": "b"},
        "participants": 9,
        "unit": "kWh",
        "result": {"histogram": ["3", "6"], "p50": "1.25", "p95": None, "reason": "few"},
        "report": {
            "error": {
                "percentiles": [
                    {"part": "p50", "low": "1", "high": "2"},
                    {"part": "p95", "low": None, "high": None},
                ]
            }
        },
    }
    lines = result_lines(cast(Any, response))
    assert "  p50: 1.25 kWh, between 1 and 2 in 95 of 100 cases" in lines
    assert "  p95: - kWh" in lines
