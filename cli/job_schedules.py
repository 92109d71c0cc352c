"""`tacit job schedule`: the same federated job in every period; what that costs, and its end."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cli.context import Answer, Full, at_coordinator, console, read_json, say, table, tabled
from cli.words import amount, print_report
from tacit import Client

app = typer.Typer(no_args_is_help=True, help="Federated jobs that are asked for in every period.")

Json = dict[str, Any]

ScheduleId = Annotated[str, typer.Argument(help="Id of the schedule.")]
Algorithm = Annotated[str, typer.Argument(help="Algorithm; see `tacit algorithms`.")]
Federation = Annotated[
    str,
    typer.Option(help="With `schedule` {first_start, period_s}: JSON, or a file with it."),
]
Params = Annotated[str, typer.Option("--params", help="Parameters: JSON, or a file with it.")]
Stance = Annotated[str, typer.Option(help="sound, or paper: literally what the source does.")]


@app.command("create")
@at_coordinator
def create(
    client: Client,
    algorithm: Algorithm,
    federation: Federation,
    params: Params = "{}",
    stance: Stance = "sound",
) -> Answer:
    """Ask curators for the job in every period from the first start on, when the period is over."""
    found = client.schedule_job(_job(algorithm, federation, params, stance))

    def human() -> None:
        typer.echo(found["id"])
        _print_forecast(found["forecast"])

    return Answer(found, human)


@app.command("preview")
@at_coordinator
def preview(
    client: Client,
    algorithm: Algorithm,
    federation: Federation,
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


@app.command("list")
@at_coordinator
def listing(client: Client) -> Answer:
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


@app.command("show")
@at_coordinator
def one(client: Client, schedule_id: ScheduleId) -> Answer:
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


@app.command("stop")
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
