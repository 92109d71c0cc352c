"""`python -m reproduction`: what it lists, writes and answers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import reproduction.__main__
from reproduction.__main__ import app
from reproduction.experiment import Experiment, Outcome, Row, Run, quoted, trend
from reproduction.registry import experiment, experiments
from tests.docs.walkthrough import walk

GOOD = Row("a row that is as expected", 1.0, "printed", 1.0, 0.03)
BAD = Row("a row that is not", 1.0, "printed", 2.0, 0.03)


def tacit(*arguments: str) -> tuple[int, str]:
    """Exit code, and everything printed in one line."""
    done = CliRunner().invoke(app, [*arguments])
    return done.exit_code, " ".join(done.output.split())


def small(name: str, *rows: Row) -> Experiment:
    """An experiment that finds these rows."""

    def run(run: Run) -> Outcome:
        run.progress(1.0)
        return Outcome(rows, (), ("made up",), ("a note",))

    return replace(experiment("table-5.1"), id=name, run=run)


def test_the_list_names_every_id() -> None:
    code, text = tacit("--list")
    assert code == 0
    for each in experiments():
        assert each.id in text
        assert f"{each.seconds} s" in text
    assert text.count("(checks:") == len(experiments())


def test_one_id_writes_into_the_directory_itself(tmp_path: Path) -> None:
    code, text = tacit("fig-4.4", "--quick", "--out", str(tmp_path / "f"))
    assert code == 0
    names = sorted(path.name for path in (tmp_path / "f").iterdir())
    assert names == ["fig-4.4.png", "fig-4.4.svg", "lines.csv", "result.json", "rows.csv"]
    document = json.loads((tmp_path / "f" / "result.json").read_text())
    assert (document["format"], document["id"]) == ("tacit.reproduction/1", "fig-4.4")
    assert document["effort"] == "quick"
    assert all(row["ok"] for row in document["rows"])
    assert document["checked"]["recomputed"] == [34, 34]
    assert "34 recomputed and 1 trend hold" in text
    assert "NOT OK" not in text


def test_all_writes_a_directory_each_and_shows_what_is_not_ok(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = (small("fig-1.1", GOOD), small("table-1.1", GOOD, BAD))
    monkeypatch.setattr(reproduction.__main__, "experiments", lambda: found)
    code, text = tacit("all", "--out", str(tmp_path))
    assert code == 1
    for each in found:
        document = json.loads((tmp_path / each.id / "result.json").read_text())
        assert (document["id"], document["effort"]) == (each.id, "full")
        assert each.id in text
    assert "2 of 3 printed hold" in text
    assert "that is not" in text
    assert "as expected" not in text
    assert tacit("fig-1.1", "--out", str(tmp_path))[0] == 0


def test_rows_that_cannot_fail_and_stand_in_data_are_counted_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = (GOOD, trend("it rises", True), quoted("its seconds", 3.0))
    monkeypatch.setattr(reproduction.__main__, "experiments", lambda: (small("fig-1.1", *rows),))
    code, text = tacit("fig-1.1", "--out", str(tmp_path))
    assert code == 0
    assert "1 printed and 1 trend hold; 1 quoted" in text
    assert "not checked" in text
    assert "stand-in" not in text
    row = trend("it rises", True, stand_in=True)
    monkeypatch.setattr(reproduction.__main__, "experiments", lambda: (small("fig-1.1", row),))
    code, text = tacit("fig-1.1", "--out", str(tmp_path))
    assert code == 0
    assert "1 of the checks on stand-in data" in text
    assert json.loads((tmp_path / "result.json").read_text())["rows"][0]["stand_in"] is True


def test_an_id_that_checks_nothing_is_exit_code_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = replace(small("fig-1.1", quoted("its seconds", 3.0)), needs="the file x")
    found = (nothing, small("table-1.1", GOOD))
    monkeypatch.setattr(reproduction.__main__, "experiments", lambda: found)
    code, text = tacit("fig-1.1", "--out", str(tmp_path))
    assert code == 3
    assert "fig-1.1: not reproduced here: needs the file x" in text
    assert "nothing checked; 1 quoted" in text
    assert tacit("all", "--out", str(tmp_path))[0] == 3
    failing = (nothing, small("table-1.1", BAD))
    monkeypatch.setattr(reproduction.__main__, "experiments", lambda: failing)
    assert tacit("all", "--out", str(tmp_path))[0] == 1


def test_data_are_where_they_are_named_and_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Path | None] = []

    def run(run: Run) -> Outcome:
        seen.append(run.data)
        return Outcome((GOOD,))

    each = replace(experiment("table-5.1"), id="fig-1.1", run=run)
    monkeypatch.setattr(reproduction.__main__, "experiments", lambda: (each,))
    out = ("--out", str(tmp_path / "out"))
    assert tacit("fig-1.1", *out)[0] == 0
    assert tacit("fig-1.1", *out, "--data", str(tmp_path))[0] == 0
    assert seen == [None, tmp_path]
    code, text = tacit("fig-1.1", *out, "--data", str(tmp_path / "nowhere"))
    assert code == 2
    assert "--data" in text


@pytest.mark.release
def test_without_the_file_of_click_paths_nothing_is_checked(tmp_path: Path) -> None:
    """A real id: its stand-in is no comparison."""
    code, text = tacit("chen-table-6.10", "--quick", "--out", str(tmp_path))
    assert code == 3
    assert "not reproduced here: needs the click paths of MSNBC" in text


def test_bad_usage_is_exit_code_2(tmp_path: Path) -> None:
    for arguments, words in (
        ((), "name an id"),
        (("fig-9.9", "--out", "x"), "nothing is called fig-9.9"),
        (("fig-4.4",), "--out"),
    ):
        code, text = tacit(*arguments)
        assert (code, words in text) == (2, True)
    (tmp_path / "file").write_text("")
    assert tacit("table-5.1", "--out", str(tmp_path / "file"))[0] == 2


def test_without_the_extra_for_plots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduction.__main__, "can_draw", lambda: False)
    code, text = tacit("table-5.1", "--out", str(tmp_path / "x"))
    assert code == 2
    assert "plots" in text
    assert not (tmp_path / "x").exists()


@pytest.mark.release
def test_the_page_is_true(tmp_path: Path) -> None:
    walk(
        Path(__file__).parents[2] / "docs" / "how-to" / "reproduce.md", tmp_path, {"COLUMNS": "110"}
    )
