"""`tacit job`: run an algorithm on data or over curators, follow and cancel jobs; `tacit job
schedule`: repeat a federated job in every period.
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
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.context import (
    Answer,
    ExitCode,
    Full,
    Target,
    TextTable,
    at_coordinator,
    at_target,
    console,
    errors,
    fail,
    progress,
    read_json,
    say,
    tabled,
)
from cli.datasets import declared_universe, format_of, parts_of
from cli.formatting import amount, print_report, summary_lines
from cli.services.deployment import FILE, Deployment, Running
from tacit import Client, Problem
from tacit.answers import base as api

if TYPE_CHECKING:
    from algorithms.contract import Picture

app = typer.Typer(no_args_is_help=True, help="Algorithms on stored data or over curators.")
schedule_app = typer.Typer(no_args_is_help=True, help="Federated jobs, repeated in every period.")
app.add_typer(schedule_app, name="schedule")

Json = dict[str, Any]

JobId = Annotated[str, typer.Argument(help="Id of the job.")]
ScheduleId = Annotated[str, typer.Argument(help="Id of the schedule.")]
Algorithm = Annotated[str, typer.Argument(help="Algorithm; see `tacit algorithms`.")]
Federation = Annotated[
    str | None, typer.Option(help="Over curators instead of a dataset: JSON, or a file with it.")
]
Params = Annotated[str, typer.Option("--params", help="Parameters: JSON, or a file with it.")]
Stance = Annotated[str, typer.Option(help="sound, or paper: literally what the source does.")]


# --- schedules -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scheduled:
    """Options of a job to repeat."""

    algorithm: Algorithm
    federation: Annotated[
        str,
        typer.Option(help="With `schedule` {first_start, period_s}: JSON, or a file with it."),
    ]
    params: Params = "{}"
    stance: Stance = "sound"

    def document(self) -> Json:
        """The body of the request."""
        return {
            "algorithm": self.algorithm,
            "params": read_json(self.params),
            "stance": self.stance,
            "federation": read_json(self.federation),
        }


@schedule_app.command("create")
@at_coordinator
def create(
    client: Client,
    job: Scheduled,
) -> Answer:
    """Request the job from curators after the end of every period, beginning with the first."""
    response = client.jobs.schedule(job.document())

    def human() -> None:
        typer.echo(response["id"])
        _print_forecast(response["forecast"])

    return Answer(response, human)


@schedule_app.command("preview")
@at_coordinator
def preview_schedule(
    client: Client,
    job: Scheduled,
    full: Full = False,
) -> Answer:
    """What a run would reveal, and what a day, a month and a year of runs cost a curator."""
    response = client.jobs.preview_schedule(job.document())

    def human() -> None:
        _print_forecast(response["forecast"])
        print_report(response["preview"], full=full)

    return Answer(response, human)


@schedule_app.command("list")
@at_coordinator
def list_schedules(client: Client) -> Answer:
    """Scheduled jobs, the newest first."""
    response = list(client.jobs.list_schedules())
    rows = [
        [
            item["id"],
            item["algorithm"],
            item["state"],
            f"{item['federation']['schedule']['period_s']} s",
            str(item["runs"]),
            (item["next_window"] or {}).get("start", ""),
        ]
        for item in response
    ]
    columns = ["id", "algorithm", "state", "period", "runs", "next from"]
    return tabled(response, "Scheduled jobs", columns, rows)


@schedule_app.command("show")
@at_coordinator
def show_schedule(client: Client, schedule_id: ScheduleId) -> Answer:
    """One scheduled job: its runs so far, the next window, and what that waits for."""
    response = client.jobs.get_schedule(schedule_id)

    def human() -> None:
        state, runs = response["state"], response["runs"]
        text = f"{response['algorithm']} ({response['stance']}): {state}, {runs} runs"
        if response["next_window"]:
            text += f"; next {response['next_window']['start']} to {response['next_window']['end']}"
        say(text)
        if response["waits_for"]:
            say(f"waits: {response['waits_for']['detail']}", markup=False)
        _print_forecast(response["forecast"])

    return Answer(response, human)


@schedule_app.command("stop")
@at_coordinator
def stop(client: Client, schedule_id: ScheduleId) -> Answer:
    """Request no further period. Jobs in progress continue: see `tacit job list`."""
    response = client.jobs.stop_schedule(schedule_id)
    return Answer(response, lambda: typer.echo(f"{schedule_id} is {response['state']}"))


def _print_forecast(forecast: Json) -> None:
    rows = [
        [
            f"a {item['horizon']}",
            str(item["runs"]),
            *(
                f"{amount(item[unit]['epsilon'])}, {amount(item[unit]['delta'])}"
                for unit in ("record", "curator")
            ),
        ]
        for item in forecast["horizons"]
    ]
    title = "Epsilon, delta at basic composition"
    console.print(TextTable(title, ["over", "runs", "a record", "a curator"], rows))


# --- jobs ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Upload:
    """Options of a file that becomes the dataset of a job."""

    epsilon: Annotated[
        str | None, typer.Option(help="Budget of the file; default: what the job costs.")
    ] = None
    delta: Annotated[str, typer.Option(help="Delta of that budget.")] = "0"
    format_name: Annotated[
        str | None, typer.Option("--format", help="Format of the file; by its name unless given.")
    ] = None
    label: Annotated[str | None, typer.Option(help="Column with reference labels.")] = None
    curator: Annotated[str | None, typer.Option(help="Column with the rows' owners.")] = None
    universe: Annotated[
        str | None, typer.Option(help="Public items: id of a dataset, or a JSON list or file.")
    ] = None
    sensitive: Annotated[
        Path | None, typer.Option(help="Second file of trajectories: the sensitive attributes.")
    ] = None

    def send(self, client: Client, file: Path, job: Json) -> str:
        """Upload the file with the given budget, or the one that the job costs; returns the
        dataset's id. The same content always has the same ledger."""
        kind = str(client.jobs.algorithm(job["algorithm"])["dataset_kind"])
        fields: Json = {"roles": {"label": self.label, "curator": self.curator}}
        if self.universe is not None:
            fields["universe"] = declared_universe(client, self.universe)
        if self.epsilon is not None:
            fields["budget"] = {"epsilon": self.epsilon, "delta": self.delta}

        def add() -> api.Answer:
            parts = parts_of(file, self.sensitive)
            written = self.format_name or format_of(file, kind)
            return client.datasets.add(file.name, kind, written, content=parts, **fields)

        dataset = add()
        if self.epsilon is None:
            with _removed_on_refusal(client, dataset["id"]):
                charge = client.jobs.preview({**job, "dataset": dataset["id"]})["charge"]
            if charge["reserved"] is not None and dataset["budget"] is None:
                client.datasets.delete(dataset["id"])  # its ledger stays
                fields["budget"] = charge["reserved"]
                dataset = add()
        return str(dataset["id"])


@dataclass(frozen=True)
class Release:
    """Options of how the result of a job is made and written."""

    out: Annotated[Path, typer.Option(help="Directory to write to.")] = Path("result")
    seed: Annotated[
        int | None, typer.Option(help="Makes the output repeatable, hence not private.")
    ] = None
    acknowledge_unverified: Annotated[
        bool, typer.Option(help="Release from production data without a verified figure.")
    ] = False


@app.command("run")
@at_target
def run(
    target: Target,
    algorithm: Algorithm,
    dataset: Annotated[str | None, typer.Option(help="A file, or the id of a dataset.")] = None,
    federation: Federation = None,
    params: Params = "{}",
    stance: Stance = "sound",
    *,
    release: Release,
    upload: Upload,
    full: Full = False,
) -> Answer:
    """Run an algorithm and write result, report and files to a directory. `tacit job plot` draws.

    Without a deployment in --home and without --url one is started for the job, and ended.
    """
    job: Json = {
        "algorithm": algorithm,
        "params": read_json(params),
        "stance": stance,
        "acknowledge_unverified": release.acknowledge_unverified,
    }
    if release.seed is not None:
        job["seed"] = release.seed
    if (dataset is None) == (federation is None):
        fail("give either --dataset or --federation")
    uploaded = None
    with _coordinator(target, alone=federation is None) as client:
        if federation is not None:
            client.jobs.algorithm(algorithm)  # a misspelt name is reported before its federation
            job["federation"] = read_json(federation)
        elif dataset is not None and Path(dataset).exists():
            job["dataset"] = uploaded = upload.send(client, Path(dataset), job)
        else:
            job["dataset"] = dataset
        with _removed_on_refusal(client, uploaded):
            submitted = client.jobs.submit(job)
        done = _follow(client, submitted["id"])
        _write_private(release.out, "job.json", done)
        if done["state"] != "succeeded":
            detail = (done["error"] or {}).get("detail", "")
            outcome = f"the job {done['state']}: {detail}{_left_behind(client, done, uploaded)}"
            fail(outcome, ExitCode.FAILED)
        _write(client, done, release.out)
    result = json.loads((release.out / "result.json").read_text("utf-8"))

    def human() -> None:
        for line in summary_lines(result["summary"]):
            say(f"  {line}", markup=False)
        print_report(json.loads((release.out / "report.json").read_text("utf-8")), full=full)
        say(f"written to {release.out}")
        if result["plots"]:
            say(f"plots: {', '.join(result['plots'])}; tacit job plot {release.out} draws them")

    return Answer(result, human)


@app.command("plot")
@at_target
def plot(
    target: Target,
    result: Annotated[str, typer.Argument(help="Directory of a result, or id of a job.")],
    out: Annotated[
        Path | None, typer.Option(help="Directory to write to; the result's, or the job's id.")
    ] = None,
) -> Answer:
    """Draw the plots of a result, as SVG and PNG.

    Those of a directory are drawn here, also those of an evaluation in `private`; those of a job by
    the coordinator, which keeps them.
    """
    drawn: dict[str, bytes] = {}
    if Path(result).is_dir():
        for name, picture in _pictures(Path(result)).items():
            drawn |= {f"{name}.svg": picture.svg, f"{name}.png": picture.png}
    else:
        with target.coordinator() as client:
            for name in client.jobs.result(result).plots:
                for file in (f"{name}.svg", f"{name}.png"):
                    drawn[f"plots/{file}"] = client.jobs.plot(result, file)
    out = out or Path(result)
    for file, content in drawn.items():
        folder = (out / file).parent
        folder.mkdir(mode=0o700 if "private" in file else 0o777, parents=True, exist_ok=True)
        (out / file).write_bytes(content)
    text = f"written to {out}: {', '.join(drawn)}" if drawn else "The result has no plots."
    return Answer({"directory": str(out), "files": list(drawn)}, lambda: say(text, markup=False))


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
    """What a job would cost, whether its result will be useful, and what would be verified.

    Nothing is queued or spent.
    """
    job: Json = {"algorithm": algorithm, "params": read_json(params), "stance": stance}
    job |= {"dataset": dataset} if federation is None else {"federation": read_json(federation)}
    with target.coordinator() as client:
        response = client.jobs.preview(job)

    def human() -> None:
        say(_cost(response["charge"]))
        print_report(response["preview"], full=full)

    return Answer(response, human)


@app.command("list")
@at_coordinator
def list_jobs(
    client: Client,
    state: Annotated[str | None, typer.Option(help="Only jobs in this state.")] = None,
    algorithm: Annotated[str | None, typer.Option(help="Only of this algorithm.")] = None,
    schedule: Annotated[str | None, typer.Option(help="Only runs of this schedule.")] = None,
) -> Answer:
    """Jobs, the newest first."""
    filters = {"state": state, "algorithm": algorithm, "schedule": schedule}
    response = list(client.pages("/v1/jobs", "jobs", **filters))  # without the models of a job
    rows = [
        [
            item["id"],
            item["algorithm"],
            item["stance"],
            item["state"],
            f"{100 * item.get('progress', 1):.0f} %",
            _stage(item),
        ]
        for item in response
    ]
    columns = ["id", "algorithm", "stance", "state", "done", "stage"]
    return tabled(response, "Jobs", columns, rows)


@app.command("show")
@at_coordinator
def show_job(client: Client, job_id: JobId) -> Answer:
    """One job: its state and progress, what it was charged, why it failed."""
    job = client.jobs.get(job_id)
    return Answer(job, lambda: _print_job(job, f", {100 * job['progress']:.0f} %, {_stage(job)}"))


@app.command("watch")
@at_coordinator
def watch(client: Client, job_id: JobId) -> Answer:
    """Follow a job to its end, with its entries in the ledger; Ctrl-C leaves it running."""
    with progress() as bar:
        task = bar.add_task("queued", total=1.0)
        for event in client.jobs.events(job_id):
            if event["event"] == "job":
                job = event["data"]
                bar.update(task, completed=job["progress"], description=_stage(job))
            else:
                bar.console.print(_entry(event["event"], event["data"]), highlight=False)
    return Answer(job, lambda: _print_job(job))


def _print_job(job: api.Answer, progress: str = "") -> None:
    say(f"{job['algorithm']} ({job['stance']}): {job['state']}{progress}")
    say(_cost(job["budget"]))
    if job["error"]:
        say(str(job["error"].get("detail")), markup=False)


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
    """Jobs side by side: their parameters, guarantees and results."""

    def text(value: object) -> str:
        return value if isinstance(value, str) else "" if value is None else json.dumps(value)

    response = client.jobs.compare(ids)
    rows = [
        [item["key"], *map(text, item["values"]), "differs" * item["differs"]]
        for item in response["keys"]
    ]
    return tabled(response, "Jobs", ["", *response["jobs"], ""], rows)


@app.command("cancel")
@at_coordinator
def cancel(client: Client, job_id: JobId) -> Answer:
    """End a job. What it was charged stays charged if noise was drawn."""
    client.jobs.cancel(job_id)
    ended = _follow(client, job_id)
    return Answer(ended, lambda: typer.echo(f"{job_id} is {ended['state']}"))


@contextmanager
def _coordinator(target: Target, *, alone: bool) -> Iterator[Client]:
    """The coordinator of the target; without a deployment, one that is started for this job."""
    if target.url is not None or (target.home / FILE).exists():
        with target.coordinator() as client:
            yield client
        return
    if not alone:
        fail(f"no deployment in {target.home}: a federated job needs a running one")
    from cli.services.up import service_settings

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


@contextmanager
def _removed_on_refusal(client: Client, dataset: str | None) -> Iterator[None]:
    """Delete the dataset that was uploaded for a job if the job is refused: nothing was charged.
    Its ledger stays, and the same content finds it again."""
    try:
        yield
    except Problem:
        if dataset is not None:
            with suppress(Problem):  # report the refusal, not this
                client.datasets.delete(dataset)
        raise


def _left_behind(client: Client, job: api.Answer, uploaded: str | None) -> str:
    """Delete the dataset that was uploaded for a job if no noise was drawn; else name it."""
    if uploaded is None:
        return ""
    if job["budget"]["noise_drawn"]:
        return f"; noise was drawn, what it cost stays charged, and dataset {uploaded} is kept"
    client.datasets.delete(uploaded)
    return "; nothing was charged, and the uploaded dataset is deleted"


def _follow(client: Client, job_id: str) -> api.Answer:
    """Wait for a job's end, showing how far it is; Ctrl-C cancels it."""
    with progress() as bar:
        task = bar.add_task("queued", total=1.0)
        try:
            for job in client.jobs.watch(job_id):
                bar.update(task, completed=job["progress"], description=_stage(job))
        except KeyboardInterrupt:
            client.jobs.cancel(job_id)
            raise
    return job


def _stage(job: Json | api.Answer) -> str:
    """The current step of a job and the time left. Progress restarts with each attempt, so attempts
    after the first are numbered."""
    stage = str(job.get("stage") or job["state"])
    attempt, left_s = job.get("attempt", 0), job.get("remaining_s")
    text = f"attempt {attempt}: {stage}" if attempt > 1 else stage
    return text if left_s is None else f"{text}, about {left_s} s left"


def _write_private(out: Path, name: str, document: api.Answer) -> None:
    """A document that is visible only to the operator."""
    directory = out / "private"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    (directory / name).write_text(json.dumps(dict(document), indent=1) + "\n", "utf-8")


def _write(client: Client, job: api.Answer, out: Path) -> None:
    """The published parts, and the evaluation in the operator's directory."""
    with zipfile.ZipFile(io.BytesIO(client.jobs.archive(job["id"]))) as archive:
        archive.extractall(out)
    for name in json.loads((out / "result.json").read_text("utf-8"))["plots"]:
        for drawn in (f"{name}.svg", f"{name}.png"):
            (out / "plots" / drawn).unlink(missing_ok=True)  # of an earlier job
    private = out / "private"
    (private / "evaluation.json").unlink(missing_ok=True)  # of an earlier job
    shutil.rmtree(private / "plots", ignore_errors=True)
    try:
        evaluation = client.jobs.evaluation(job["id"])
    except Problem as problem:
        if problem.status != 404:
            raise
        return
    _write_private(out, "evaluation.json", evaluation)


def _pictures(directory: Path) -> dict[str, Picture]:
    """The plots of a result that `tacit job run` wrote, by their paths in its directory; those
    of an evaluation too, which no service stores or sends."""
    # Loaded only here: other commands know no algorithm.
    from algorithms import catalogue
    from algorithms.contract import Plot
    from algorithms.drawing import can_draw, drawn
    from common.runtime.process import extra_needed

    if not can_draw():
        fail(extra_needed("drawing", "plots"))
    try:
        result = json.loads((directory / "result.json").read_text("utf-8"))
        algorithm = catalogue.find(result["algorithm"])
        pictures = {}
        for name in result["plots"]:
            values = directory / "plots" / f"{Path(name).name}.json"
            plot = Plot(name, json.loads(values.read_text("utf-8")))
            pictures[f"plots/{Path(name).name}"] = drawn(algorithm, plot)
        private = directory / "private" / "evaluation.json"
        if private.exists():
            evaluation = json.loads(private.read_text("utf-8"))["evaluation"]
            for picture in algorithm.evaluation_pictures(evaluation, result["summary"]):
                pictures[f"private/plots/{picture.name}"] = picture
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        fail(f"{directory} has no result that can be drawn: {type(error).__name__}")
    return pictures


def _cost(charge: Json) -> str:
    if charge["outside_budget"]:
        return f"released outside the dataset's budget: {charge['reason']}"
    if charge["reserved"] is None:
        return "costs its dataset nothing"
    cost, charged = charge["reserved"], charge.get("charged")
    text = f"costs its dataset epsilon {amount(cost['epsilon'])}, delta {amount(cost['delta'])}"
    if charged is not None:
        text += f"; charged {amount(charged['epsilon'])}, {amount(charged['delta'])}"
    return text
