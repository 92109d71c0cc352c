"""`tacit job`: run an algorithm on data or over curators, follow and end jobs; `tacit job
schedule`: the same federated job in every period.
"""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from algorithms import catalogue
from algorithms.drawing import can_draw
from cli.context import (
    DEFAULT_HOME,
    Answer,
    Full,
    Home,
    Target,
    Token,
    Url,
    at_coordinator,
    at_target,
    console,
    errors,
    fail,
    plain_errors,
    progress,
    read_json,
    say,
    table,
    tabled,
)
from cli.datasets import format_of, parts_of, universe_of
from cli.formatting import amount, print_report, summary_lines
from cli.services.deployment import FILE, Deployment, Running
from cli.services.up import service_settings
from common.runtime.process import extra_needed
from tacit import Client, Problem
from tacit.answers.jobs import Dataset
from tacit.client.objects import Job

schedule_app = typer.Typer(
    no_args_is_help=True, help="Federated jobs that are asked for in every period."
)

Json = dict[str, Any]

ScheduleId = Annotated[str, typer.Argument(help="Id of the schedule.")]
Algorithm = Annotated[str, typer.Argument(help="Algorithm; see `tacit algorithms`.")]
ScheduledFederation = Annotated[
    str,
    typer.Option(help="With `schedule` {first_start, period_s}: JSON, or a file with it."),
]
Params = Annotated[str, typer.Option("--params", help="Parameters: JSON, or a file with it.")]
Stance = Annotated[str, typer.Option(help="sound, or paper: literally what the source does.")]


@schedule_app.command("create")
@at_coordinator
def create(
    client: Client,
    algorithm: Algorithm,
    federation: ScheduledFederation,
    params: Params = "{}",
    stance: Stance = "sound",
) -> Answer:
    """Ask curators for the job in every period from the first start on, when the period is over."""
    found = client.schedule_job(_job(algorithm, federation, params, stance))

    def human() -> None:
        typer.echo(found["id"])
        _print_forecast(found["forecast"])

    return Answer(found, human)


@schedule_app.command("preview")
@at_coordinator
def preview_schedule(
    client: Client,
    algorithm: Algorithm,
    federation: ScheduledFederation,
    params: Params = "{}",
    stance: Stance = "sound",
    full: Full = False,
) -> Answer:
    """What a run would reveal, and what a day, a month and a year of runs cost a curator."""
    found = client.preview_job_schedule(_job(algorithm, federation, params, stance))

    def human() -> None:
        _print_forecast(found["forecast"])
        print_report(found["preview"], full=full)

    return Answer(found, human)


@schedule_app.command("list")
@at_coordinator
def list_schedules(client: Client) -> Answer:
    """Scheduled jobs, the newest first."""
    found = list(client.job_schedules())
    rows = [
        [
            item["id"],
            item["algorithm"],
            item["state"],
            f"{item['federation']['schedule']['period_s']} s",
            str(item["runs"]),
            (item["next_window"] or {}).get("start", ""),
        ]
        for item in found
    ]
    columns = ["id", "algorithm", "state", "period", "runs", "next from"]
    return tabled(found, "Scheduled jobs", columns, rows)


@schedule_app.command("show")
@at_coordinator
def show_schedule(client: Client, schedule_id: ScheduleId) -> Answer:
    """One scheduled job: its runs so far, the next window, and why that waits."""
    found = client.job_schedule(schedule_id)

    def human() -> None:
        text = f"{found['algorithm']} ({found['stance']}): {found['state']}, {found['runs']} runs"
        if found["next_window"]:
            text += f"; next {found['next_window']['start']} to {found['next_window']['end']}"
        say(text)
        if found["waits_for"]:
            say(f"waits: {found['waits_for']['detail']}", markup=False)
        _print_forecast(found["forecast"])

    return Answer(found, human)


@schedule_app.command("stop")
@at_coordinator
def stop(client: Client, schedule_id: ScheduleId) -> Answer:
    """Ask for no further period. Jobs that were asked for go on: see `tacit job list`."""
    found = client.stop_job_schedule(schedule_id)
    return Answer(found, lambda: typer.echo(f"{schedule_id} is {found['state']}"))


def _job(algorithm: str, federation: str, params: str, stance: str) -> Json:
    return {
        "algorithm": algorithm,
        "params": read_json(params),
        "stance": stance,
        "federation": read_json(federation),
    }


def _print_forecast(found: Json) -> None:
    rows = [
        [
            f"a {item['horizon']}",
            str(item["runs"]),
            *(
                f"{amount(item[who]['epsilon'])}, {amount(item[who]['delta'])}"
                for who in ("record", "curator")
            ),
        ]
        for item in found["horizons"]
    ]
    title = "Epsilon, delta at basic composition"
    console.print(table(title, ["over", "runs", "a record", "a curator"], rows))


# `tacit job`: run an algorithm on data and write what it publishes; look at jobs, end them.

app = typer.Typer(no_args_is_help=True, help="Algorithms on stored data or over curators.")
app.add_typer(schedule_app, name="schedule")


JobId = Annotated[str, typer.Argument(help="Id of the job.")]
Federation = Annotated[
    str | None, typer.Option(help="Over curators instead of a dataset: JSON, or a file with it.")
]


@dataclass(frozen=True)
class Source:
    """A file to declare as a dataset, and what its columns are."""

    file: Path
    kind: str
    format: str
    fields: Json
    sensitive: Path | None

    def add(self, client: Client, budget: Json | None) -> Dataset:
        """The dataset that holds it; the same content finds the same ledger."""
        parts = parts_of(self.file, self.sensitive)
        fields = self.fields if budget is None else {**self.fields, "budget": budget}
        return client.add_dataset(self.file.name, self.kind, self.format, content=parts, **fields)


@app.command("run")
@at_target
def run(
    target: Target,
    algorithm: Algorithm,
    dataset: Annotated[str | None, typer.Option(help="A file, or the id of a dataset.")] = None,
    federation: Federation = None,
    params: Params = "{}",
    stance: Stance = "sound",
    out: Annotated[Path, typer.Option(help="Directory to write to.")] = Path("result"),
    seed: Annotated[
        int | None, typer.Option(help="Makes the output repeatable, hence not private.")
    ] = None,
    acknowledge_unverified: Annotated[
        bool, typer.Option(help="Release from production data without a verified figure.")
    ] = False,
    epsilon: Annotated[
        str | None, typer.Option(help="Budget of the file; what the job costs unless given.")
    ] = None,
    delta: Annotated[str, typer.Option(help="Delta of that budget.")] = "0",
    format_name: Annotated[
        str | None, typer.Option("--format", help="Format of the file; by its name unless given.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="Column with reference labels.")] = None,
    curator: Annotated[str | None, typer.Option(help="Column with the rows' owners.")] = None,
    universe: Annotated[
        str | None, typer.Option(help="Public items: id of a dataset, or a JSON list or file.")
    ] = None,
    sensitive: Annotated[
        Path | None, typer.Option(help="Second file of trajectories: the sensitive attributes.")
    ] = None,
    full: Full = False,
) -> Answer:
    """Run an algorithm and write result, report, files and plots to a directory.

    Without a deployment in --home and without --url one is started for the job, and ended.
    """
    job: Json = {
        "algorithm": algorithm,
        "params": read_json(params),
        "stance": stance,
        "acknowledge_unverified": acknowledge_unverified,
    }
    if seed is not None:
        job["seed"] = seed
    if (dataset is None) == (federation is None):
        fail("give either --dataset or --federation")
    source = None
    if dataset is not None and Path(dataset).exists():
        fields: Json = {"roles": {"label": label, "curator": curator}}
        if universe is not None:
            fields["universe"] = universe_of(universe)
        file = Path(dataset)
        source = Source(file, "", format_name or "", fields, sensitive)
    with _coordinator(target, alone=federation is None) as client:
        if federation is not None:
            job["federation"] = read_json(federation)
        elif source is None:
            job["dataset"] = dataset
        else:
            kind = str(client.algorithm(algorithm)["dataset_kind"])
            written = source.format or format_of(source.file, kind)
            declared = Source(source.file, kind, written, source.fields, sensitive)
            budget = None if epsilon is None else {"epsilon": epsilon, "delta": delta}
            job["dataset"] = _declared(client, declared, job, budget)
        uploaded = None if source is None else str(job["dataset"])
        with _removed_on_refusal(client, uploaded):
            made = client.submit_job(job)
        done = _follow(client, made["id"])
        _note(done, out)
        if done["state"] != "succeeded":
            detail = (done["error"] or {}).get("detail", "")
            fail(f"the job {done['state']}: {detail}{_left_behind(client, done, uploaded)}")
        _write(client, done, out)
    result = json.loads((out / "result.json").read_text("utf-8"))

    def human() -> None:
        for line in summary_lines(result["summary"]):
            say(f"  {line}", markup=False)
        print_report(json.loads((out / "report.json").read_text("utf-8")), full=full)
        say(f"written to {out}")

    return Answer(result, human)


@app.command("preview")
@at_target
def preview_job(
    target: Target,
    algorithm: Algorithm,
    dataset: Annotated[str | None, typer.Option(help="Id of a dataset.")] = None,
    federation: Federation = None,
    params: Params = "{}",
    stance: Stance = "sound",
    full: Full = False,
) -> Answer:
    """What a job would cost and what would be verified. Nothing is queued or spent."""
    job: Json = {"algorithm": algorithm, "params": read_json(params), "stance": stance}
    job |= {"dataset": dataset} if federation is None else {"federation": read_json(federation)}
    with target.coordinator() as client:
        found = client.preview_job(job)

    def human() -> None:
        say(_cost(found["charge"]))
        print_report(found["preview"], full=full)

    return Answer(found, human)


@app.command("list")
@at_coordinator
def list_jobs(
    client: Client,
    state: Annotated[str | None, typer.Option(help="Only jobs in this state.")] = None,
    algorithm: Annotated[str | None, typer.Option(help="Only of this algorithm.")] = None,
    schedule: Annotated[str | None, typer.Option(help="Only runs of this schedule.")] = None,
) -> Answer:
    """Jobs, the newest first."""
    found = list(client.jobs(state=state, algorithm=algorithm, schedule=schedule))
    rows = [
        [
            item["id"],
            item["algorithm"],
            item["stance"],
            item["state"],
            f"{100 * item.get('progress', 1):.0f} %",
            _stage(item),
        ]
        for item in found
    ]
    columns = ["id", "algorithm", "stance", "state", "done", "stage"]
    return tabled(found, "Jobs", columns, rows)


@app.command("show")
@at_coordinator
def show_job(client: Client, job_id: JobId) -> Answer:
    """One job: where it stands, what it was charged, why it failed."""
    found = client.job(job_id)

    def human() -> None:
        say(
            f"{found['algorithm']} ({found['stance']}): {found['state']}, "
            f"{100 * found['progress']:.0f} %, {_stage(found)}"
        )
        say(_cost(found["budget"]))
        if found["error"]:
            say(str(found["error"].get("detail")), markup=False)

    return Answer(found, human)


@app.command("watch")
@at_coordinator
def watch(client: Client, job_id: JobId) -> Answer:
    """Follow a job to its end, with its entries in the ledger; Ctrl-C leaves it running."""
    found: Json = {}
    with progress() as bar:
        task = bar.add_task("queued", total=1.0)
        for each in client.job_events(job_id):
            if each["event"] == "job":
                found = each["data"]
                bar.update(task, completed=found["progress"], description=_stage(found))
            else:
                bar.console.print(_entry(each["event"], each["data"]), highlight=False)

    def human() -> None:
        say(f"{found['algorithm']} ({found['stance']}): {found['state']}")
        say(_cost(found["budget"]))
        if found["error"]:
            say(str(found["error"].get("detail")), markup=False)

    return Answer(found, human)


def _entry(kind: str, entry: Json) -> str:
    """An entry of a job in the ledger."""
    if kind == "job_debited":
        return f"debited once: epsilon {entry['epsilon']} for each {entry['unit']}"
    return f"settled: {entry['curators']} curators in {entry['rounds']} rounds"


@app.command("compare")
@at_coordinator
def compare(
    client: Client,
    ids: Annotated[list[str], typer.Argument(help="Ids of two to four jobs that succeeded.")],
) -> Answer:
    """Jobs side by side: what was asked, what is guaranteed, what came out."""
    found = client.compare_jobs(ids)
    rows = [
        [each["key"], *(_told(value) for value in each["values"]), "differs" * each["differs"]]
        for each in found["keys"]
    ]
    return tabled(found, "Jobs", ["", *found["jobs"], ""], rows)


def _told(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


@app.command("cancel")
def cancel(job_id: JobId, home: Home = DEFAULT_HOME, url: Url = None, token: Token = None) -> None:
    """End a job. What it was charged stays charged if noise was drawn."""
    with plain_errors(), Target(home, url, token).coordinator() as client:
        client.cancel_job(job_id)
        ended = _follow(client, job_id)
    typer.echo(f"{job_id} is {ended['state']}")


@contextmanager
def _coordinator(target: Target, *, alone: bool) -> Iterator[Client]:
    """The coordinator that is named, or else one of its own for as long as it is needed."""
    if target.url is not None or (target.home / FILE).exists():
        with target.coordinator() as client:
            yield client
        return
    if not alone:
        fail(f"no deployment in {target.home}: curators are asked through a running one")
    with TemporaryDirectory(prefix="tacit-job-") as directory:
        deployment = Deployment.plan(Path(directory), aggregators=0)
        running = Running(deployment, service_settings())
        try:
            with errors.status("starting a coordinator for this job"):
                running.start()
            with deployment.coordinator.client() as client:
                yield client
        finally:
            running.stop()


def _declared(client: Client, source: Source, job: Json, budget: Json | None) -> str:
    """The id of a file's dataset, with the budget that is given or that the job costs."""
    made = source.add(client, budget)
    if budget is None:
        with _removed_on_refusal(client, made["id"]):
            charge = client.preview_job({**job, "dataset": made["id"]})["charge"]
        if charge["reserved"] is not None and made["budget"] is None:
            client.delete_dataset(made["id"])  # its ledger goes on
            made = source.add(client, charge["reserved"])
    return str(made["id"])


@contextmanager
def _removed_on_refusal(client: Client, dataset: str | None) -> Iterator[None]:
    """A dataset that was handed in for a job goes where the job is refused: nothing was charged.
    Its ledger stays, and the same content finds it again."""
    try:
        yield
    except Problem:
        if dataset is not None:
            with suppress(Problem):  # what was refused is the news
                client.delete_dataset(dataset)
        raise


def _left_behind(client: Client, job: Job, uploaded: str | None) -> str:
    """Removes what was handed in for a job that ended before noise was drawn; else names it."""
    if uploaded is None:
        return ""
    if job["budget"]["noise_drawn"]:
        return f"; noise was drawn, what it cost stays charged, and dataset {uploaded} is kept"
    client.delete_dataset(uploaded)
    return "; nothing was charged, and what was handed in for it is removed"


def _follow(client: Client, job_id: str) -> Job:
    """Wait for a job's end, showing how far it is; Ctrl-C cancels it."""
    with progress() as bar:
        task = bar.add_task("queued", total=1.0)
        try:
            for job in client.watch_job(job_id):
                bar.update(task, completed=job["progress"], description=_stage(job))
        except KeyboardInterrupt:
            client.cancel_job(job_id)
            raise
    return job


def _stage(job: Json | Job) -> str:
    """What a job does now, and for about how long. Its progress begins again with each attempt: a
    later one is named."""
    stage = str(job.get("stage") or job["state"])
    attempt, left_s = job.get("attempt", 0), job.get("remaining_s")
    told = f"attempt {attempt}: {stage}" if attempt > 1 else stage
    return told if left_s is None else f"{told}, about {left_s} s left"


def _private(out: Path) -> Path:
    """The directory for the operator's eyes."""
    found = out / "private"
    found.mkdir(mode=0o700, parents=True, exist_ok=True)
    return found


def _note(job: Job, out: Path) -> None:
    """The job itself, however it ended: state, times, error, charge."""
    (_private(out) / "job.json").write_text(json.dumps(dict(job), indent=1) + "\n", "utf-8")


def _write(client: Client, job: Job, out: Path) -> None:
    """The published parts, and beside them what is for the operator's eyes."""
    with zipfile.ZipFile(io.BytesIO(client.job_archive(job["id"]))) as archive:
        archive.extractall(out)
    private = _private(out)
    (private / "evaluation.json").unlink(missing_ok=True)  # of an earlier job
    shutil.rmtree(private / "plots", ignore_errors=True)
    try:
        evaluation = client.job_evaluation(job["id"])
    except Problem as problem:
        if problem.status != 404:
            raise
        return
    (private / "evaluation.json").write_text(json.dumps(dict(evaluation), indent=1) + "\n", "utf-8")
    result = json.loads((out / "result.json").read_text("utf-8"))
    _draw(result, evaluation["evaluation"], private / "plots")


def _draw(result: Json, evaluation: Json, directory: Path) -> None:
    """The plots of an evaluation. They are made here: no service keeps or sends them."""
    if not can_draw():
        errors.print(extra_needed("drawing the evaluation", "plots"), highlight=False, markup=False)
        return
    algorithm = catalogue.find(result["algorithm"])
    for plot in algorithm.evaluation_pictures(evaluation, result["summary"]):
        directory.mkdir(mode=0o700, exist_ok=True)
        (directory / f"{plot.name}.svg").write_bytes(plot.svg)
        (directory / f"{plot.name}.png").write_bytes(plot.png)


def _cost(charge: Json) -> str:
    if charge["outside_budget"]:
        return f"released outside the dataset's budget: {charge['reason']}"
    if charge["reserved"] is None:
        return "costs its dataset nothing"
    found = charge["reserved"]
    text = f"costs its dataset epsilon {amount(found['epsilon'])}, delta {amount(found['delta'])}"
    kept = charge.get("charged")
    if kept is not None:
        text += f"; charged {amount(kept['epsilon'])}, {amount(kept['delta'])}"
    return text
