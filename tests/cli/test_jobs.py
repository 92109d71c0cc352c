"""`tacit job` and `tacit algorithms`: a file in, a directory out; refusals in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from algorithms import catalogue
from cli import jobs
from cli.algorithms import parameters
from cli.main import app
from tacit import Client
from tests.cli.conftest import OPERATOR

PARAMS = {"k": 3, "epsilon": "1", "bounds": [[0, 10]] * 4, "n_hint": 150}
LABEL = ("--label", "species")


def tacit(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == code, done.output
    return done.output


@pytest.fixture(scope="module")
def iris(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("samples")
    tacit("dataset", "sample", "kmeans", "--out", str(folder))
    return str(folder / "iris.csv")


def test_a_file_in_and_a_directory_out(coordinator: str, iris: str, tmp_path: Path) -> None:
    place = ("--url", coordinator, "--token", OPERATOR)
    parameters = tmp_path / "params.json"
    parameters.write_text(json.dumps({**PARAMS, "evaluate": True}), "utf-8")
    out = tmp_path / "out"
    command = ("job", "run", "kmeans", "--dataset", iris, "--label", "species", *place)
    text = tacit(*command, "--params", str(parameters), "--out", str(out))
    assert "centres" in text
    assert "\na  1        0      74 of 100" in text, text
    result = json.loads((out / "result.json").read_text("utf-8"))
    assert result["params"]["k"] == 3
    assert {item["name"] for item in result["files"]} == {
        path.name for path in (out / "files").iterdir()
    }
    values = {path.stem for path in (out / "plots").iterdir()}
    assert values == set(result["plots"])
    assert f"tacit job plot {out} draws them" in text
    tacit("job", "plot", str(out))
    here = {path.name: path.read_bytes() for path in (out / "plots").iterdir()}
    assert set(here) == {f"{name}.{kind}" for name in values for kind in ("json", "svg", "png")}
    tacit("job", "plot", result["job"], "--out", str(tmp_path / "there"), *place)
    there = {path.name: path.read_bytes() for path in (tmp_path / "there" / "plots").iterdir()}
    assert there == {name: drawn for name, drawn in here.items() if not name.endswith(".json")}
    assert "Privacy report" in (out / "report.txt").read_text("utf-8")
    assert json.loads((out / "report.json").read_text("utf-8"))["charged"]["epsilon"] == "1"
    assert json.loads((out / "private" / "evaluation.json").read_text("utf-8"))["private"]
    job = json.loads((out / "private" / "job.json").read_text("utf-8"))
    assert (job["id"], job["state"], job["error"]) == (result["job"], "succeeded", None)
    assert job["created"] <= job["started"] <= job["finished"]
    watched = json.loads(tacit("job", "watch", result["job"], *place, "--json"))
    assert (watched["id"], watched["state"]) == (result["job"], "succeeded")
    assert "kmeans (sound): succeeded" in tacit("job", "watch", result["job"], *place)
    drawn = {path.name for path in (out / "private" / "plots").iterdir()}
    assert drawn == {"sizes.svg", "sizes.png", "shifts.svg", "shifts.png"}
    assert (out / "private").stat().st_mode & 0o077 == 0

    # The budget was what the job costs: the same file again has nothing left.
    text = tacit(*command, "--params", json.dumps(PARAMS), "--out", str(out), code=4)
    assert text.startswith("tacit: budget_exceeded: the job needs epsilon 1; epsilon 0 is left")
    assert "run it again with --epsilon 2; what was charged stays charged" in text
    assert len(text.splitlines()) == 1
    with Client(coordinator, OPERATOR) as client:
        ledger = client.datasets.ledger(result["dataset"])
        kept = [item["id"] for item in client.datasets.list() if item["name"] == "iris.csv"]
    kinds = [event["kind"] for event in ledger["events"]]
    first = ["declared", "deleted", "declared", "reserved", "charged"]
    assert kinds == [*first, "declared", "deleted"]
    assert kept == [result["dataset"]]  # of what was refused, and of the look at the price, nothing

    # The way out that it names.
    tacit(*command, "--params", json.dumps(PARAMS), "--out", str(out), "--epsilon", "2")
    assert json.loads((out / "result.json").read_text("utf-8"))["dataset"] not in kept

    export = ("report", "export", result["job"], "--organisation", "Grid", "--region", "EU", *place)
    record = tmp_path / "record.yaml"
    written = (*export, "--use", "planning", "--format", "opendp-registry", "--out", str(record))
    assert tacit(*written) == f"written to {record}\n"
    basic = json.loads(record.read_text("utf-8"))["deployment"]["basic"]
    assert (basic["name"], basic["publication_date"]) == ("kmeans", job["finished"][:10])
    cited = json.loads(tacit(*export, "--use", "planning", "--format", "json-ld"))
    assert cited["additionalProperty"]["value"]["verified"][0]["epsilon"] == "1"
    assert cited["additionalProperty"]["value"]["subject"]["id"] == result["job"]
    for wrong, said in (
        (("--sector", "x"), "--sector: one of"),
        ((), "no round and no job nothing"),
    ):
        other = ("report", "export", "nothing", *export[3:], "--use", "x", "--format", "json-ld")
        assert said in tacit(*other, *wrong, code=2)

    listed = json.loads(tacit("job", "list", "--algorithm", "kmeans", "--json", *place))
    assert result["job"] in [item["id"] for item in listed]
    assert "charged 1" in tacit("job", "show", result["job"], *place)
    asked = ("--dataset", result["dataset"], "--params", json.dumps({**PARAMS, "epsilon": "0.5"}))
    preview = tacit("job", "preview", "kmeans", *asked, *place)
    assert "epsilon 0.5" in preview
    assert "The result is expected to be" in preview
    assert "job_over" in tacit("job", "cancel", result["job"], *place, code=1)


WRONG = (
    (["kmeans"], "either --dataset or --federation"),
    (["kmeans", "--dataset", "x", "--params", "nothing.json"], "nothing.json"),
    (["nothing", "--dataset", "IRIS"], "unknown_algorithm"),
    (["kmeans", "--dataset", "IRIS", *LABEL, "--params", '{"k": 0}'], "/params/k"),
    (["crowd-tasking", "--dataset", "IRIS"], "row 1"),
)


def test_refusals(coordinator: str, iris: str) -> None:
    with Client(coordinator, OPERATOR) as client:
        before = [item["id"] for item in client.datasets.list()]
        for arguments, said in WRONG:
            filled = [iris if item == "IRIS" else item for item in arguments]
            text = tacit("job", "run", *filled, "--url", coordinator, "--token", OPERATOR, code=2)
            assert text.startswith("tacit: ")
            assert said in text
            assert len(text.splitlines()) == 1
        assert [item["id"] for item in client.datasets.list()] == before


@pytest.mark.parametrize("drawn", [True, False])
def test_a_job_that_fails(
    coordinator: str, iris: str, drawn: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end, as the client would hear it: the upload goes, unless noise was drawn from it."""

    def ended(client: Client, job_id: str) -> dict[str, Any]:
        client.jobs.cancel(job_id)
        *_, last = client.jobs.watch(job_id)
        budget = {**last["budget"], "noise_drawn": drawn}
        return {**last, "state": "failed", "error": {"detail": "too long"}, "budget": budget}

    monkeypatch.setattr(jobs, "_follow", ended)
    changed = tmp_path / "iris.csv"
    changed.write_text(Path(iris).read_text("utf-8") + f"{int(drawn)},1,1,1,x\n", "utf-8")
    command = ("job", "run", "kmeans", "--dataset", str(changed), "--label", "species")
    place = ("--url", coordinator, "--token", OPERATOR, "--out", str(tmp_path / "out"))
    with Client(coordinator, OPERATOR) as client:
        before = {item["id"] for item in client.datasets.list()}
        text = tacit(*command, "--params", json.dumps(PARAMS), *place, code=1)
        left = {item["id"] for item in client.datasets.list()} - before
    assert text.startswith("tacit: the job failed: too long; ")
    if drawn:
        (kept,) = left
        assert f"dataset {kept} is kept" in text
    else:
        assert not left
        assert "the uploaded dataset is deleted" in text


def test_a_later_attempt_is_named() -> None:
    for attempt, said in ((1, "queued"), (2, "attempt 2: queued")):
        assert jobs._stage({"state": "running", "stage": "queued", "attempt": attempt}) == said
    assert jobs._stage({"state": "succeeded"}) == "succeeded"  # what an analyst sees
    running = {"state": "running", "stage": "zone 2 of 3", "attempt": 1, "remaining_s": 12}
    assert jobs._stage(running) == "zone 2 of 3, about 12 s left"


def test_a_federation_needs_curators(tmp_path: Path) -> None:
    command = ("job", "run", "kmeans", "--federation", '{"collect": "rounds"}')
    assert "no deployment in" in tacit(*command, "--home", str(tmp_path), code=2)


@pytest.mark.slow
def test_a_job_brings_its_own_coordinator(iris: str, tmp_path: Path) -> None:
    out, home = tmp_path / "out", tmp_path / "home"
    command = ("job", "run", "kmeans", "--dataset", iris, "--label", "species")
    tacit(*command, "--params", json.dumps(PARAMS), "--out", str(out), "--home", str(home))
    assert (out / "result.json").exists()
    assert not home.exists()


def test_the_catalogue_at_a_terminal() -> None:
    text = tacit("algorithms", "--json")
    assert [item["name"] for item in json.loads(text)] == list(catalogue.NAMES)
    listed = tacit("algorithms")
    for name in catalogue.NAMES:
        assert name in listed
        assert "Parameters" in tacit("algorithms", name)
    both = " ".join(tacit("algorithms", "dpbv-clustering").split())
    assert "Over curators by rounds: stance sound, method grid-core" in both
    assert "Over curators by reports: stance sound, method grid-ldp" in both
    assert "see `tacit algorithms`" in tacit("algorithms", "nothing", code=2)


def rows_of(name: str) -> dict[str, tuple[str, str, str]]:
    listed = parameters(catalogue.shown(name)["parameters"])
    found = {path: (kind, default, meaning) for path, kind, default, meaning in listed}
    assert len(found) == len(listed), "every path once"
    return found


def test_what_is_inside_has_a_path() -> None:
    crowd = rows_of("crowd-tasking")
    assert crowd["sensor"][0] == "object"
    assert crowd["sensor.name"][:2] == ("string", "needed")
    assert crowd["sensor.coordinates"][0] == "array"
    assert crowd["sensor.coordinates[].lower"][1] == "needed"
    assert crowd["sensor.steps"][1] == "65536"


def test_one_of_several_models_is_named() -> None:
    check = rows_of("privacy-check")
    assert check["models[k-anonymity].k"][:2] == ("integer 1..", "-")
    assert check["models[alpha-k-anonymity].alpha"][1] == "needed"
    assert check["ground_distance.*[tree].edges"][1] == "needed"
    assert not [path for path in check if path.endswith(".model")]


def test_no_model_is_left_out() -> None:
    """Every field of every model that a schema has is in some row."""
    for name in catalogue.NAMES:
        schema: dict[str, Any] = catalogue.shown(name)["parameters"]
        told = {path.rpartition(".")[2] for path in rows_of(name)}
        for model in schema.get("$defs", {}).values():
            fields = {k for k, each in model.get("properties", {}).items() if "const" not in each}
            assert fields <= told
