"""Answers as objects: items stay the JSON, attributes are exact Python values."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tacit
from tacit import Result, Round
from tacit.answers.base import read
from tacit.answers.budget import Limits
from tacit.answers.rounds import RoundHead
from tacit.client.exchange import Group
from tacit.client.objects import number
from tests.tacit.examples import METERED, fields

QUERY = fields(**METERED, min_participants=3, n_max=100)
WINDOW = {"start": "2025-11-03T18:00:00Z", "end": "2025-11-03T19:00:00Z"}


def result(released: dict[str, Any], **changes: Any) -> Result:
    return read(
        Result,
        {
            "format": "tacit.round-result/1",
            "round": "r-1",
            "query_id": "q-1",
            "function": changes.get("function", "sum"),
            "unit": changes.get("unit", "kWh"),
            "window": WINDOW,
            "participants": 7,
            "completeness": {"answered": 7, "with_readings": None, "note": ""},
            "result": released,
            "report": dict(tacit.price(tacit.Query.of(**QUERY | changes), 7)),
        },
    )


ROUND: dict[str, Any] = {
    **dict.fromkeys(RoundHead.model_fields),
    "id": "r-1",
    "query_id": "q-1",
    "query": "load",
    "state": "aborted",
    "reason": "too few",
    "opened": WINDOW["start"],
    "deadline": WINDOW["end"],
    "window": WINDOW,
    "descriptor_hash": "",
    "aggregators": [],
    "unit": "kWh",
    "steps": [],
    "aborts": [],
}


def test_a_round_has_python_values_as_attributes_and_the_json_of_the_api_by_name() -> None:
    came = ROUND | {"new": 3}
    found = read(Round, came)
    assert dict(found) == came and {**found} == came and json.dumps(dict(found))
    assert found.window.start == datetime(2025, 11, 3, 18, tzinfo=UTC)
    assert found["window"]["start"] == found.window["start"] == WINDOW["start"]
    assert found.over and str(found) == "round r-1 aborted: too few"
    assert "new" in found and found.get("newer") is None
    assert getattr(found, "new") == 3  # noqa: B009, a field that this release does not know
    with pytest.raises(AttributeError, match=r"Round.* has no attribute 'stat'"):
        getattr(found, "stat")  # noqa: B009
    for copied in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert copied == found and dict(copied) == came


def test_an_answer_of_another_release_has_its_fields_as_plain_json() -> None:
    came = ROUND | {"state": "paused", "opened": None}
    found = read(Round, came)
    assert dict(found) == came and found.state == "paused" and found.opened is None
    assert read(Round, {"state": "open"}).state == "open"


def test_an_answer_that_a_service_makes_has_the_same_json() -> None:
    assert dict(Limits(limits=[])) == {"limits": []} and Limits(limits=[])["limits"] == []


@given(st.decimals(-(10**9), 10**9, places=6), st.fractions(max_denominator=10**6))
def test_amounts_are_exact(decimal: Decimal, fraction: Fraction) -> None:
    assert number(f"{decimal:f}") == decimal
    text = f"{fraction.numerator}/{fraction.denominator}"
    assert number(text) == fraction
    assert number("inf") == Decimal("Infinity")


def test_a_sum_has_its_interval_and_is_told_to_the_place_of_its_noise() -> None:
    found = result({"sum": "1234.56789"})
    width = found.half_width
    assert found.value == Decimal("1234.56789") and width is not None
    error = found["report"]["error"]["parts"][0]["interval"]
    assert width == Decimal(error["half_width"])
    assert found.interval == (Decimal("1234.56789") - width, Decimal("1234.56789") + width)
    assert (
        found.headline == "sum 1235 kWh ± 24 kWh of noise in 95 of 100 cases; 7 curators answered"
    )
    assert str(found).startswith(found.headline + "\n") and "d  none" in str(found)
    (row,) = found.rows()
    assert (row["low"], row["high"]) == found.interval and row["unit"] == "kWh"


def test_a_mean_has_an_interval_of_its_own() -> None:
    found = result({"count": "7", "mean": "1/3"}, function="mean")
    width = found.half_width
    assert width is not None and found.value == Fraction(1, 3)
    assert found.interval == (Fraction(1, 3) - Fraction(width), Fraction(1, 3) + Fraction(width))
    assert [row["low"] is None for row in found.rows()] == [True, False]
    assert found.headline.startswith("count 7, mean 0.3 kWh ± 3.3 kWh of noise in 95 of 100 cases")
    assert [row["unit"] for row in found.rows()] == ["1", "kWh"]
    empty = result({"count": "0", "mean": None, "reason": "below 1"}, function="mean")
    assert empty.value is None and set(empty.figures) == {"count", "mean"}
    assert empty.headline == "count 0; 7 curators answered"


def test_a_vector_has_a_row_for_each_figure() -> None:
    changes = {"function": "vector_sum", "dimension": 3, "l1_bound": "4"}
    price = tacit.price(tacit.Query.of(**QUERY | changes), 7)
    (part,) = [each.part for each in price.errors]
    found = result({part: ["1", "2", "3"]}, **changes)
    rows = found.rows()
    assert [row["index"] for row in rows] == [0, 1, 2]
    width = price.errors[0].interval.half_width
    assert all(row["high"] - row["value"] == row["value"] - row["low"] == width for row in rows)
    assert found.plot().axes[0].get_ylabel() == "kWh"


def test_a_notebook_gets_no_markup_of_others() -> None:
    hostile = '<script>alert("x")</script>'
    found = result({"sum": "1"}, unit="kWh")
    found["report"]["verified"][0]["description"] = hostile
    found["report"]["caveats"] = [hostile]
    page = found._repr_html_()
    assert "<script" not in page and "&lt;script&gt;" in page
    assert "because" in page and "<details>" in page


def calls(client: object) -> dict[str, Any]:
    """The calls of a client and of its groups, by name."""
    names = [name for name in dir(client) if not name.startswith("_")]
    members = {name: getattr(client, name) for name in names}
    groups = [member for member in members.values() if isinstance(member, Group)]
    found = {name: member for name, member in members.items() if callable(member)}
    for group in groups:
        found |= {f"{type(group).__name__}.{name}": getattr(group, name) for name in dir(group)}
        del found[f"{type(group).__name__}.client"]
    return found


@pytest.mark.parametrize("kind", [tacit.Client, tacit.AsyncClient])
def test_each_call_has_a_real_signature(kind: type[tacit.Client | tacit.AsyncClient]) -> None:
    client = kind("http://it.test")
    found = calls(client)
    assert len(found) > 150
    for name in ("run", "iterate", "run_async", "iterate_async"):
        found.pop(name, None)  # what takes a call itself
    for name, call in found.items():
        shown = inspect.signature(call)
        assert "Steps" not in str(shown) and "Stream" not in str(shown), name
        assert call.__doc__, name
        assert call.__name__ == name.rpartition(".")[2]
    awaited = kind is tacit.AsyncClient
    listed = AsyncIterator[Round] if awaited else Iterator[Round]
    assert inspect.signature(client.rounds.get).return_annotation is Round
    assert inspect.signature(client.rounds.list).return_annotation == listed
    assert inspect.iscoroutinefunction(client.rounds.get) is awaited
    assert inspect.iscoroutinefunction(client.jobs.run) is awaited


def test_one_family_of_errors() -> None:
    assert issubclass(tacit.Problem, tacit.Error) and issubclass(tacit.NoAnswer, tacit.Error)
    assert issubclass(tacit.RoundNotReleased, tacit.Error)
    assert issubclass(tacit.TranscriptNotAnchored, tacit.Error)
    with (
        tacit.Client("http://127.0.0.1:9", retry=tacit.Retry(attempts=1)) as client,
        pytest.raises(tacit.NoAnswer, match=r"http://127\.0\.0\.1:9 \("),
    ):
        client.rounds.get("r")


def test_a_query_of_wrong_fields_names_them_all_in_one_sentence() -> None:
    wrong = {"epsilon": "-1", "n_max": 2.5, "epslon": "1"}
    with pytest.raises(tacit.Error) as refused:
        tacit.Query.of(**QUERY | wrong)
    assert isinstance(refused.value, tacit.FieldsRefused) and isinstance(refused.value, ValueError)
    assert sorted(str(refused.value).split("; ")) == [
        "/epsilon: must be above 0 (and at most 10000)",
        "/epslon: no such field: did you mean epsilon?",
        "/n_max: must be a whole number",
    ]


def test_a_directory_without_a_deployment_is_named(tmp_path: Path) -> None:
    with pytest.raises(tacit.NoDeployment, match="start one with `tacit up`"):
        tacit.Client.at_home(tmp_path)


def job_result(**files: bytes) -> tacit.JobResult:
    """A result as `client.jobs.result` gives it, from a service that has these files."""
    document = {
        **{"format": "tacit.job-result/1", "job": "j", "algorithm": "kmeans", "version": "1"},
        **{"stance": "sound", "params": {}, "public_seeds": {}, "plots": []},
        **{"dataset": "d", "federation": None},
        "summary": {"spent": "2", "centres": [[1.5, 7], [0.25, 19]]},
        "files": [
            {"name": name.replace("_", "."), "media_type": "text/csv", "bytes": len(content)}
            | {"sha256": "0" * 64, "description": "rows"}
            for name, content in files.items()
        ],
    }

    def service(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/result"):
            return httpx.Response(200, json=document)
        return httpx.Response(200, content=files[request.url.path.split("/")[-1].replace(".", "_")])

    with tacit.Client("http://it.test", transport=httpx.MockTransport(service)) as client:
        return client.jobs.result("j")


def test_a_jobs_result_has_its_tables() -> None:
    centres = b"load,hour,noisy_count\n1.5,7,40\n0.25,19,60\n"
    groups = b"count,length,items\n40,1,007\n3,2,0 1\n2,1,nan\n1,1,1_000\n"
    result = job_result(centres_csv=centres, groups_csv=groups, edges_txt=b"0\t6\n6\t9\n")
    assert result.tables == ["centres.csv", "groups.csv", "edges.txt"]
    assert result.rows() == [
        {"load": 1.5, "hour": 7, "noisy_count": 40},
        {"load": 0.25, "hour": 19, "noisy_count": 60},
    ]
    assert [row["items"] for row in result.rows("groups.csv")] == ["007", "0 1", "nan", "1_000"]
    assert result.rows("edges.txt") == [{"source": 0, "target": 6}, {"source": 6, "target": 9}]
    with pytest.raises(ValueError, match=r"no table 'x'; there are: centres.csv"):
        result.rows("x")
    assert str(result).splitlines() == [
        "kmeans (sound), job j",
        "spent 2",
        "2 centres",
        "files: centres.csv, groups.csv, edges.txt",
    ]
    assert job_result().rows() == [{"spent": "2", "centres": [[1.5, 7], [0.25, 19]]}]


def test_a_jobs_table_is_drawn_by_what_it_holds() -> None:
    centres = b"load,hour,noisy_count\n1.5,7,40\n0.25,19,80\n"
    groups = b"count,items\n40,a b\n3,b\n"
    result = job_result(centres_csv=centres, groups_csv=groups, edges_txt=b"0\t6\n6\t9\n")
    points = result.plot().axes[0]
    (drawn,) = points.collections
    assert drawn.get_offsets().tolist() == [[1.5, 7], [0.25, 19]]
    assert drawn.get_sizes()[1] == 2 * drawn.get_sizes()[0]
    bars = result.plot("groups.csv").axes[0]
    assert [tick.get_text() for tick in bars.get_yticklabels()] == ["b", "a b"]
    assert [bar.get_width() for bar in bars.patches] == [3, 40]
    (dots,) = result.plot("edges.txt").axes[0].collections
    assert dots.get_offsets().tolist() == [[0, 6], [6, 9]]
    with pytest.raises(ValueError, match="no table of numbers"):
        job_result().plot()


def test_equal_queries_are_equal_however_they_are_written() -> None:
    same = tacit.Query.of(**QUERY | {"epsilon": Decimal(1)})
    assert same == tacit.Query.of(**QUERY)


def test_a_missing_extra_is_named_with_the_command_that_installs_it() -> None:
    code = (
        "import json, sys; sys.modules['Crypto'] = None; import tacit\n"
        f"fields = json.loads({json.dumps(json.dumps(QUERY | {'validity': 'proved'}))})\n"
        "try: tacit.Query.of(**fields)\n"
        "except tacit.Error as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "proved queries need pycryptodome: pip install pycryptodome\n"
