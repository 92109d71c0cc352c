"""Ids and values that look like numbers, or that nobody has: whoever reads them as numbers makes
several people one, and whoever looks for nothing finds everything satisfied."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.adversary.uploads import upload
from tests.coordinator.jobs.office import Office

LARGE = 1840000000000000000
SENSOR = {
    "name": "s",
    "unit": "u",
    "coordinates": [{"name": "rate", "lower": 0, "upper": 10}],
}
TASK: dict[str, Any] = {"aggregate": "AVG", "sensor": SENSOR, "n": 9, "T": 2, "epsilon": "2"}
K = {"model": "k-anonymity"}


def kept(it: Office, kind: str, content: bytes, form: str = "csv", **fields: Any) -> str:
    answer = upload(it, kind, content, form, **fields)
    assert answer.status_code == 201, answer.text
    found: str = answer.json()["id"]
    return found


def findings(it: Office, dataset: str, *models: Any, **params: Any) -> Any:
    """The findings of a check, or the problem."""
    asked = {"qid": ["z"], "sensitive": ["d"], "models": models or [K], **params}
    answer = it.ask("POST", "/v1/jobs", it.job(dataset, "privacy-check", params=asked))
    if answer.status_code != 202:
        return answer.json()
    it.succeeded(answer.json()["id"])
    path = f"/v1/jobs/{answer.json()['id']}/evaluation"
    return it.ask("GET", path).json()["evaluation"]["findings"]


def columns(ids: pa.Array) -> bytes:
    out = io.BytesIO()
    parquet.write_table(pa.table({"z": ids, "d": [f"v{at}" for at in range(len(ids))]}), out)
    return out.getvalue()


@pytest.mark.parametrize(
    ("form", "content"),
    [
        ("parquet", columns(pa.array([LARGE + at for at in range(4)]))),
        ("csv", b"z,d\n007,a\n07,b\n7,c\n7.0,e\n"),
    ],
)
def test_as_many_people_as_ids_are_written(it: Office, form: str, content: bytes) -> None:
    (found,) = findings(it, kept(it, "table", content, form))
    assert (found["value"], found["groups"]) == (1, 4)


def test_a_float_that_may_have_lost_digits_is_no_id(it: Office) -> None:
    answer = upload(it, "table", columns(pa.array([float(LARGE), 1.0])), "parquet")
    assert answer.status_code == 422
    assert (answer.json()["row"], answer.json()["column"]) == (1, "z")


def test_numbers_of_an_order_are_compared_exactly(it: Office) -> None:
    """The control: where a parameter says that cells are numbers, 7.0 and 7 are one place."""
    rows = f"z,d\na,{LARGE}\na,{LARGE + 1}\nb,{LARGE + 1}.0\nb,{LARGE}\n"
    model = {"model": "t-closeness"}
    dataset = kept(it, "table", rows.encode())
    order = {"d": {"kind": "ordered"}}
    (exact,) = findings(it, dataset, model, ground_distance=order)
    (equal,) = findings(it, dataset, model)
    assert (exact["value"], equal["value"]) == (0, pytest.approx(1 / 4))


@pytest.mark.parametrize(
    ("users", "limits", "joined"),
    [
        ([str(LARGE + at) for at in range(4)], {str(LARGE): "0.1", str(LARGE + 1): "3"}, 3),
        (["1", "2"], {"01": "0.1"}, None),
        (["ann"], {"ann ": "0.1"}, None),
    ],
)
def test_a_limit_is_that_of_the_user_of_this_name(
    it: Office, users: list[str], limits: dict[str, str], joined: int | None
) -> None:
    content = "user,round,rate\n" + "".join(f"{u},{t},{t}\n" for u in users for t in (1, 2))
    budget = {"epsilon": "100", "delta": "0.1"}
    dataset = kept(it, "user-series", f"{content}".encode(), budget=budget)
    asked = it.job(dataset, "crowd-tasking", params={**TASK, "epsilon_limits": limits})
    answer = it.ask("POST", "/v1/jobs", asked)
    if joined is None:
        assert answer.status_code == 422
        assert answer.json()["type"].endswith("value_unknown")
        assert answer.json()["errors"][0]["pointer"] == "/params/epsilon_limits"
        assert all(user not in answer.text for user in ("ann", "01"))
        return
    assert it.succeeded(answer.json()["id"])["summary"]["users"]["joined"] == joined


def test_a_row_without_an_owner_is_nobodys(it: Office) -> None:
    for row in ("2,", '2," "'):
        content = f"x,who\n1,007\n{row}\n".encode()
        answer = upload(it, "numeric-table", content, roles={"curator": "who"})
        assert (answer.status_code, answer.json()["row"]) == (422, 3)
    answer = upload(it, "user-series", b"user,round,x\n,1,1\n")
    assert (answer.status_code, answer.json()["row"]) == (422, 2)


def test_owners_are_as_many_as_are_written(it: Office) -> None:
    """300 people with a row each, half of them with a zero before their number: with one record a
    curator all rows count."""
    ids = [f"{zeros}{at}" for at in range(1, 151) for zeros in ("", "00")]
    content = "x,who\n" + "".join(f"5,{who}\n" for who in ids)
    dataset = kept(
        it,
        "numeric-table",
        content.encode(),
        roles={"curator": "who"},
        privacy_unit="curator",
        budget={"epsilon": "100"},
    )
    params = {
        "k": 1,
        "epsilon": "50",
        "bounds": [[0, 10]],
        "n_hint": 300,
        "mode": "synopsis",
        "privacy_unit": "curator",
        "contribution_bound": 1,
    }
    job = it.submit(dataset, "kmeans", params=params)
    (count,) = it.succeeded(job)["summary"]["noisy_counts"]
    assert abs(count - 300) < 30


@pytest.mark.parametrize(
    ("cell", "values", "satisfied"),
    [
        ("007", ["007"], False),
        ("1.50", ["1.50"], False),
        ("HIV", ["hiv"], None),
        ("7", ["007"], None),
        ("HIV", ["HIV", "hiv"], None),
    ],
)
def test_a_listed_value_is_found_as_it_is_written_or_refused(
    it: Office, cell: str, values: list[str], satisfied: bool | None
) -> None:
    content = "z,d\n" + f"A,{cell}\n" * 9 + "A,010\n"
    model = {"model": "alpha-k-anonymity", "alpha": "1/10", "k": 2, "values": values}
    found = findings(it, kept(it, "table", content.encode()), model)
    if satisfied is None:
        assert found["type"].endswith("value_unknown")
        assert found["errors"][0]["pointer"] == "/params/models/0/values"
    else:
        assert (found[0]["value"], found[0]["satisfied"]) == (0.9, satisfied)


def test_nothing_that_is_asked_is_left_unchecked(it: Office) -> None:
    dataset = kept(it, "table", b"z,d\nA,hiv\nA,flu\n")
    template = {"qid": ["z"], "value": "hiv", "h": "1/10"}
    bounding = {"model": "confidence-bounding"}
    for models, params in (
        ([K], {"templates": [template]}),
        ([bounding], {}),
        ([K], {"ground_distance": {"e": {"kind": "equal"}}}),
        ([K], {"leaves": {"y": {"domain": 2, "under": {}}}}),
        ([{"model": "alpha-k-anonymity", "alpha": "1/10", "k": 1, "values": []}], {}),
    ):
        assert findings(it, dataset, *models, **params)["status"] == 422
    (found,) = findings(it, dataset, bounding, templates=[template])
    assert found["satisfied"] is False


def test_one_content_has_one_ledger_however_its_numbers_are_spelled(it: Office) -> None:
    made = [
        it.ask(
            "POST",
            "/v1/datasets",
            content=b'{"name": "n", "kind": "numeric-table", "format": "csv", "columns": ["a", "b"]'
            b', "budget": {"epsilon": "1"}, "rows": [[%s, %s]]}' % pair,
            headers={"Content-Type": "application/json"},
        )
        for pair in ((b"71", b"0.5"), (b"71.0", b"5e-1"), (b"7.1e1", b"0.50"))
    ]
    assert len({each.json()["ledger"] for each in made}) == 1


@pytest.mark.parametrize("text", ["1_000", "-1E-5000"])
def test_what_is_no_number_is_refused_and_never_another_one(it: Office, text: str) -> None:
    answer = upload(it, "numeric-table", f"x,y\n1,2\n3,{text}\n".encode())
    assert answer.status_code == 422
    assert (answer.json()["row"], answer.json()["column"]) == (3, "y")
