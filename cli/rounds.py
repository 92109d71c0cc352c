"""`tacit round`: open, watch, read and verify rounds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from cli.context import (
    DEFAULT_HOME,
    AsJson,
    Home,
    Target,
    Token,
    Url,
    console,
    errors,
    fail,
    plain_errors,
    show,
)
from cli.trust import DEFAULT_FILE, read_trust
from cli.words import print_report, refusal_lines, result_lines
from common.models.report import PrivacyReport
from common.report.words import plain_words
from tacit import Client, Problem, RoundNotReleased

app = typer.Typer(no_args_is_help=True, help="Rounds of a query, and their results.")

STEPS = ("open", "frozen", "committed", "released")

RoundId = Annotated[str, typer.Argument(help="Id of the round.")]
Start = Annotated[str | None, typer.Option("--from", help="Start of the window, RFC 3339.")]
End = Annotated[str | None, typer.Option("--to", help="End of the window (excluded), RFC 3339.")]


@app.command("open")
def open_round(
    query_id: Annotated[str, typer.Argument(help="Id of the query.")],
    start: Start = None,
    end: End = None,
    deadline_s: Annotated[
        int | None, typer.Option(min=1, help="Seconds the round is open.")
    ] = None,
    watch: Annotated[bool, typer.Option(help="Wait for the result and print it.")] = False,
    home: Home = DEFAULT_HOME,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Open a round over a window of readings."""
    if (start is None) != (end is None):
        fail("--from and --to go together")
    window = None if start is None or end is None else {"start": start, "end": end}
    options: dict[str, Any] = {} if deadline_s is None else {"deadline_s": deadline_s}
    with plain_errors(), Target(home, url, token).coordinator() as client:
        opened = client.open_round(query_id, window=window, **options)
        if not watch:
            show(opened, as_json, lambda: typer.echo(opened["id"]))
            return
        follow(client, opened["id"])
        _print_result(client, opened["id"], as_json)


@app.command("watch")
def watch(
    round_id: RoundId,
    home: Home = DEFAULT_HOME,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Follow a round to its end and print the result."""
    with plain_errors(), Target(home, url, token).coordinator() as client:
        follow(client, round_id)
        _print_result(client, round_id, as_json)


@app.command("result")
def result(
    round_id: RoundId,
    home: Home = DEFAULT_HOME,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """The released result with its privacy report."""
    with plain_errors(), Target(home, url, token).coordinator() as client:
        _print_result(client, round_id, as_json)


@app.command("report")
def report(
    round_id: RoundId,
    home: Home = DEFAULT_HOME,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """The privacy report of a result, in plain words."""
    with plain_errors(), Target(home, url, token).coordinator() as client:
        found = client.get(f"/v1/rounds/{round_id}/report")
        text = plain_words(PrivacyReport.model_validate_json(json.dumps(found)))
    show(found, as_json, lambda: typer.echo(text, nl=False))


@app.command("verify")
def verify(
    round_id: RoundId,
    trust: Annotated[
        Path | None,
        typer.Option(
            envvar="TACIT_TRUST",
            help=f"Identities that you know from elsewhere (`tacit trust`); {DEFAULT_FILE} in this "
            "directory is taken by itself.",
        ),
    ] = None,
    home: Home = DEFAULT_HOME,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Check signatures and commitments here and recombine the sum; exit code 1 if it differs, 3 if
    no trust file pins the identities or nothing binds the number of participants."""
    if trust is None and DEFAULT_FILE.exists():
        trust = DEFAULT_FILE
    with plain_errors(), Target(home, url, token).coordinator() as client:
        checked = client.verify(round_id, trust=None if trust is None else read_trust(trust))
    show(checked, as_json, lambda: _print_verdict(checked))
    if not checked["matches"]:
        raise typer.Exit(1)
    if not (checked["anchored"] and checked["participants_bound"]):
        raise typer.Exit(3)


def _print_verdict(checked: dict[str, Any]) -> None:
    words = "matches" if checked["matches"] else "DOES NOT MATCH"
    lines = [
        f"{len(checked['aggregators'])} commitments checked; the recombined sum {words} "
        f"the published result. Coordinator {checked['coordinator_fingerprint'][:16]}..."
    ]
    if checked["participants_bound"]:
        lines.append(f"The aggregators committed to {checked['participants']} participants.")
    else:
        lines.append(
            f"Nothing binds the number of participants ({checked['participants']}): the transcript "
            "is in format 1, of an earlier version, or a coordinator that hides what was bound."
        )
    if not checked["anchored"]:
        lines.append(
            "Not pinned: any identity. The coordinator alone vouches for these aggregators, and "
            "could have invented them; see `tacit trust`."
        )
    elif checked["unknown_operators"]:
        lines.append(f"Who runs these is not pinned: {', '.join(checked['unknown_operators'])}.")
    else:
        lines.append("Every identity and operator is pinned by the trust file.")
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False)


@app.command("refusals")
def refusals(
    round_id: RoundId,
    home: Home = DEFAULT_HOME,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """How many curators refuse a round, by ground; never which."""
    with plain_errors(), Target(home, url, token).coordinator() as client:
        found = client.refusals(round_id)
    lines = refusal_lines(found) or ["no curator refuses"]
    show(found, as_json, lambda: console.print("\n".join(lines), highlight=False))


def follow(client: Client, round_id: str) -> None:
    """Draw the round's progress on standard error until it is finished."""
    bar = Progress(
        TextColumn("round {task.description}"), BarColumn(), TimeElapsedColumn(), console=errors
    )
    with bar:
        task = bar.add_task("open", total=len(STEPS) - 1)
        for state in client.watch(round_id):
            if state["state"] == "aborted":
                raise RoundNotReleased("; ".join([state["reason"], *_refused(client, round_id)]))
            step = STEPS.index(state["state"])
            bar.update(task, completed=step, description=state["state"])


def _refused(client: Client, round_id: str) -> list[str]:
    """Who refused, by ground, where there is somebody and the caller may know."""
    try:
        found = client.refusals(round_id)
    except Problem:
        return []
    return refusal_lines(found)


def _print_result(client: Client, round_id: str, as_json: bool) -> None:
    found = client.result(round_id)

    def human() -> None:
        for line in result_lines(found):
            console.print(line, highlight=False)
        print_report(found["report"])

    show(found, as_json, human)
