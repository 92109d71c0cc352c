"""Reading trajectories: what comes out, and what is refused where."""

from __future__ import annotations

import io
import json

import pytest

from algorithms.datasets import trajectories
from algorithms.datasets.trajectories import (
    ABSENT,
    TimesNotIncreasing,
    Trajectories,
    read_csv,
    read_ndjson,
)
from tacit.records.text_files import MalformedRow, TooManyRows


def ndjson(*records: object) -> Trajectories:
    return read_ndjson(io.BytesIO("".join(json.dumps(each) + "\n" for each in records).encode()))


def parts(points: str, sensitive: str | None = None) -> Trajectories:
    found = {"points": io.BytesIO(points.encode())}
    if sensitive is not None:
        found = {"sensitive": io.BytesIO(sensitive.encode()), **found}
    return read_csv(found)


def as_lists(data: Trajectories) -> list[list[tuple[object, float]]]:
    found = []
    for start, stop in zip(data.offsets[:-1].tolist(), data.offsets[1:].tolist(), strict=True):
        times = data.times[start:stop].tolist()
        if data.coordinates is not None:
            where: list[object] = [tuple(each) for each in data.coordinates[start:stop].tolist()]
        else:
            where = [data.locations[place] for place in data.places[start:stop].tolist()]
        found.append(list(zip(where, times, strict=True)))
    return found


def test_ndjson() -> None:
    data = ndjson(
        {"path": [["a", 1], ["b", 2.5]], "sensitive": {"d": "x"}},
        {"path": []},
        {"path": [[7, -3], ["a", 9]], "sensitive": {"d": True, "e": 2}},
    )
    assert as_lists(data) == [[("a", 1), ("b", 2.5)], [], [("7", -3), ("a", 9)]]
    (d, e) = data.attributes
    assert (d.name, d.values, d.codes.tolist()) == ("d", ("x", "true"), [0, ABSENT, 1])
    assert (e.name, e.values, e.codes.tolist()) == ("e", ("2",), [ABSENT, ABSENT, 0])


def test_positions() -> None:
    data = ndjson({"path": [[[1, 2.5], 1], [[0, 0], 2]]})
    assert as_lists(data) == [[((1, 2.5), 1), ((0, 0), 2)]]
    assert data.locations == ()


def test_no_records_and_one_are_legal() -> None:
    assert ndjson().records == 0
    assert ndjson({"path": []}).records == 1
    assert parts("record,location,time\n").records == 0


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "JSON"),
        ('{"path": [], "id": 5}', "fields"),
        ('{"sensitive": {}}', "list of points"),
        ('{"path": [["a", 1], ["b"]]}', "point"),
        ('{"path": [["a", "1"]]}', "number"),
        ('{"path": [["a", 1e999]]}', "between"),
        ('{"path": [["a", %s]]}' % ("9" * 400), "between"),
        ('{"path": [["a", %s]]}' % ("9" * 5000), "JSON"),
        ('{"path": [[[1], 1]]}', "position"),
        ('{"path": [["a", 1], [[1, 2], 2]]}', "one file"),
        ('{"path": [], "sensitive": {"d": null}}', "text"),
        ("[" * 100_000, "JSON"),
    ],
    ids=range(12),
)
def test_malformed_lines_are_named(line: str, reason: str) -> None:
    with pytest.raises(MalformedRow, match=reason) as raised:
        read_ndjson(io.BytesIO(b'{"path": []}\n' + line.encode() + b"\n"))
    assert raised.value.row == 2
    assert "99999" not in str(raised.value)


@pytest.mark.parametrize("times", [(1, 1), (2, 1)])
def test_times_increase(times: tuple[int, int]) -> None:
    with pytest.raises(TimesNotIncreasing) as raised:
        ndjson({"path": [["a", 5]]}, {"path": [["a", times[0]], ["b", times[1]]]})
    assert (raised.value.row, raised.value.name) == (2, "times_not_increasing")
    with pytest.raises(TimesNotIncreasing) as raised:
        parts(f"record,location,time\nr,a,{times[0]}\ns,a,0\nr,b,{times[1]}\n")
    assert raised.value.row == 4


def test_what_is_no_text_and_what_is_too_long() -> None:
    with pytest.raises(MalformedRow, match="UTF-8"):
        read_ndjson(io.BytesIO(b'{"path": [["\xff", 1]]}\n'))
    with pytest.raises(MalformedRow, match="bytes"):
        read_ndjson(io.BytesIO(b" " * 10**7))


def test_csv_in_two_parts() -> None:
    data = parts(
        'time,record,location\n1,r2,a\n1,r1,"b, c"\n2,r2,b\n',
        "record,d,e\nr1,x,\nr2,y,z\nr3,x,z\n",
    )
    assert as_lists(data) == [[("b, c", 1)], [("a", 1), ("b", 2)], []]
    assert [each.name for each in data.attributes] == ["d", "e"]
    assert data.attributes[1].codes.tolist() == [ABSENT, 0, 0]


def test_csv_of_points_alone() -> None:
    data = parts("record,x,y,time\nq,1,2,5\np,0,0,1\nq,1.5,2,6\n")
    assert as_lists(data) == [[((1, 2), 5), ((1.5, 2), 6)], [((0, 0), 1)]]


@pytest.mark.parametrize(
    ("points", "sensitive", "row", "reason"),
    [
        ("", None, 1, "columns"),
        ("record,location,time\nr,a\n", None, 2, "fields"),
        ("record,location,time\nr,a,x\n", None, 2, "number"),
        ("record,location,time\nr,a,1_0\n", None, 2, "not a number"),
        ("record,location,time\nr,a,1\ns,b,1\n", "record,d\nr,x\n", 3, "sensitive part"),
        ("record,location,time\n", "record,d,d\n", 1, "columns"),
        ("record,location,time\n", "record,d\nr,x\nr,y\n", 3, "one row"),
        ('record,location,time\nr,"a,1\n', None, 2, "quotes are not closed"),
    ],
)
def test_malformed_csv_is_named(points: str, sensitive: str | None, row: int, reason: str) -> None:
    with pytest.raises(MalformedRow, match=reason) as raised:
        parts(points, sensitive)
    assert raised.value.row == row


def test_too_many_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trajectories, "MAX_RECORDS", 1)
    with pytest.raises(TooManyRows):
        ndjson({"path": []}, {"path": []})
    with pytest.raises(TooManyRows):
        parts("record,location,time\nr,a,1\ns,a,1\n")
    with pytest.raises(TooManyRows):
        parts("record,location,time\n", "record\nr\ns\n")
