"""`tacit dataset` and `tacit items`: uploads, lists, deletions, and samples."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from algorithms.catalogue import find
from algorithms.datasets.declaration import DatasetDeclaration
from algorithms.datasets.kinds import KINDS, read
from cli.curator_data import items_app
from cli.datasets import app, format_of, universe_of
from cli.services.deployment import Deployment
from simulation.samples import SAMPLES
from tacit import Client, NotFound
from tests.cli.conftest import OPERATOR


def tacit(url: str, *arguments: str) -> str:
    place = [] if arguments[0] == "sample" else ["--url", url, "--token", OPERATOR]
    done = CliRunner().invoke(app, [*arguments, *place])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_dataset_from_its_sample_to_its_deletion(coordinator: str, tmp_path: Path) -> None:
    tacit(coordinator, "sample", "kmeans", "--out", str(tmp_path))
    file = str(tmp_path / "iris-owners.csv")
    more = ("--label", "species", "--curator", "owner", "--epsilon", "2", "--production")
    made = tacit(coordinator, "add", file, "--kind", "numeric-table", *more).strip()
    found = json.loads(tacit(coordinator, "show", made, "--json"))
    assert (found["name"], found["purpose"]) == ("iris-owners.csv", "production")
    assert found["schema"]["rows"] == 150
    assert found["schema"]["has_curator"]
    assert [event["kind"] for event in found["events"]] == ["declared"]
    shown = tacit(coordinator, "show", made)
    assert "sepal_length" in shown
    assert "declared" in shown
    assert "setosa" not in shown
    assert made[:8] in tacit(coordinator, "list", "--kind", "numeric-table")
    assert json.loads(tacit(coordinator, "list", "--kind", "table", "--json")) == []
    assert "its ledger stays" in tacit(coordinator, "rm", made)
    with Client(coordinator, OPERATOR) as client:
        with pytest.raises(NotFound):
            client.datasets.get(made)
        kinds = [event["kind"] for event in client.datasets.ledger(made)["events"]]
    assert kinds == ["declared", "deleted"]


def test_items_and_two_files(coordinator: str, tmp_path: Path) -> None:
    tacit(coordinator, "sample", "set-valued", "--out", str(tmp_path))
    items, table = tmp_path / "msnbc-like-items.txt", str(tmp_path / "table-4.1.txt")
    universe = tacit(coordinator, "add", str(items), "--kind", "universe").strip()
    add = ("--kind", "transactions", "--universe")
    assert tacit(coordinator, "add", str(tmp_path / "msnbc-like.txt"), *add, universe).strip()
    assert tacit(coordinator, "add", table, *add, '["I1", "I2", "I3", "I4"]').strip()
    place = ["--url", coordinator, "--token", OPERATOR]
    assert CliRunner().invoke(app, ["add", table, *add, '["I1"]', *place]).exit_code == 2
    many = tmp_path / "many.txt"  # longer than a request may be: a dataset of its own
    many.write_text("".join(f"item {number}\n" for number in range(150_000)))
    few = tmp_path / "few.txt"
    few.write_text("item\n")
    assert CliRunner().invoke(app, ["add", str(few), *add, str(many), *place]).exit_code == 2
    few.write_text('["item 7", "item 149999"]\n')
    made = tacit(coordinator, "add", str(few), *add, str(many), "--format", "ndjson").strip()
    assert json.loads(tacit(coordinator, "show", made, "--json"))["schema"]["rows"] == 1
    listed = json.loads(tacit(coordinator, "list", "--kind", "universe", "--json"))
    assert any(each["schema"].get("rows", each["schema"].get("items")) for each in listed)
    points, sensitive = tmp_path / "points.csv", tmp_path / "sensitive.csv"
    points.write_text("record,location,time\n1,a,1\n1,b,2\n")
    sensitive.write_text("record,disease\n1,flu\n")
    both = ("--kind", "trajectories", "--sensitive", str(sensitive))
    made = tacit(coordinator, "add", str(points), *both).strip()
    assert json.loads(tacit(coordinator, "show", made, "--json"))["schema"]["rows"] == 1


def test_formats_by_name_and_kind() -> None:
    for name, kind, format_name in (
        ("a.csv.gz", "numeric-table", "csv"),
        ("a.parquet", "transactions", "parquet"),
        ("a.ndjson.xz", "sequences", "ndjson"),
        ("a", "sequences", "text"),
        ("a.txt", "edge-list", "snap"),  # the only one of its kind, whatever the name
        ("a.csv", "a-kind-of-tomorrow", "csv"),
    ):
        assert format_of(Path(name), kind) == format_name


def test_public_items_come_from_a_list_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "items.txt").write_text("one\tgroup\n\ntwo\n")
    (tmp_path / "items.json").write_text('["one", "two"]')
    for text in ('["one", "two"]', str(tmp_path / "items.txt"), str(tmp_path / "items.json")):
        assert universe_of(text) == ["one", "two"]
    assert universe_of("0198-id") == {"dataset": "0198-id"}


def test_an_unknown_algorithm_has_no_sample(tmp_path: Path) -> None:
    assert CliRunner().invoke(app, ["sample", "guessing", "--out", str(tmp_path)]).exit_code == 2


ROLES = {"iris.csv": {"label": "species"}, "two-moons.csv": {"label": "moon"}}


@pytest.mark.parametrize("algorithm", sorted(SAMPLES))
def test_the_reader_of_its_kind_takes_every_sample(algorithm: str, tmp_path: Path) -> None:
    made = json.loads(tacit("", "sample", algorithm, "--out", str(tmp_path), "--json"))
    assert made["samples"]
    own = find(algorithm)
    params = own.params.model_validate_json(Path(made["params"]).read_text("utf-8"))
    assert own.preview(params, "sound").verified is not None
    words = made["command"].split()
    assert words[:4] == ["tacit", "job", "run", algorithm]
    there = [word for word in words if word.startswith(str(tmp_path))]
    assert all(Path(word).exists() for word in there[:-1])
    for item in made["samples"]:
        path = Path(item["path"])
        roles = ROLES.get(path.name, {})
        if path.name == "iris-owners.csv":
            roles = {"label": "species", "curator": "owner"}
        assert path.stat().st_size > 0
        if item["kind"] not in KINDS:
            continue
        declaration = DatasetDeclaration.model_validate(
            {"kind": item["kind"], "format": item["format"], "roles": roles}
        )
        with path.open("rb") as stream:
            dataset = read(declaration, stream)
        assert KINDS[item["kind"]].outline(dataset)["rows"] > 0


def items(deployment: Deployment, *arguments: str, code: int = 0) -> str:
    curator = deployment.curator
    place = ["--url", curator.url, "--token", curator.token]
    done = CliRunner().invoke(items_app, [*arguments, *place])
    assert done.exit_code == code, done.output
    return done.output


def test_a_file_in_listed_and_gone(deployment: Deployment, tmp_path: Path) -> None:
    file = tmp_path / "visits.spmf"
    file.write_text("home -1 news -1 -2\nnews -1 -2\n")
    form = ("--format", "spmf", "--name", "visits")
    shown = items(deployment, "import", "sequences", "house-1", str(file), *form)
    assert "visits: 2 records of 2 different items" in shown
    listed = json.loads(items(deployment, "list", "sequences", "house-1", "--json"))
    assert listed["tables"] == [{"name": "visits", "records": 2, "timed": False}]
    items(deployment, "import", "transactions", "house-1", str(file), *form, code=2)
    file.write_text("home -1 news -1 -2\nnews\n")
    items(deployment, "import", "sequences", "house-1", str(file), *form, code=2)
    assert "visits: 2 records" in items(deployment, "list", "sequences", "house-1")
    items(deployment, "delete", "sequences", "house-1", "--name", "visits")
    assert json.loads(items(deployment, "list", "sequences", "house-1", "--json"))["tables"] == []
