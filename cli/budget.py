"""`tacit budget`: what the sources claim, what holds, what is left, and what a year will cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cli.budget_plot import draw_forecast
from cli.context import (
    DEFAULT_HOME,
    AsJson,
    Home,
    Target,
    Token,
    Url,
    console,
    fail,
    plain_errors,
    read_json,
    read_table,
    show,
    table,
)
from cli.words import amount, print_verified

app = typer.Typer(
    no_args_is_help=True, help="The privacy budget: bounds, limits, events, forecast."
)

Json = dict[str, Any]
SCENARIOS = {
    "a": "nobody colludes",
    "b": "all other curators",
    "c": "and aggregators that learn nothing",
    "d": "and all aggregators",
    "e": "as each query assumes",
}


@app.command("show")
def show_budget(
    query: Annotated[
        str | None,
        typer.Option(help="A query of mechanism local, for curators that declare no epsilon."),
    ] = None,
    delta: Annotated[
        str | None, typer.Option(help="Also compose numerically, at this delta.")
    ] = None,
    home: Home = DEFAULT_HOME,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """The three bounds of the sources, and beside them what really holds."""
    with plain_errors(), Target(home, url, token).coordinator() as client:
        found = client.budget(query_id=query, delta=delta)
    show(found, as_json, lambda: print_budget(found))


def print_budget(found: Json) -> None:
    """What is claimed, what holds, and what is limited, in tables."""
    counts = ", ".join(f"{count} {name}" for name, count in found["curators"].items() if count)
    console.print(f"ledger: {found['ledger']['seq']} events; curators: {counts or 'none'}")
    claimed = found["claimed"]
    if claimed["bounds"]:
        rows = [
            [bound["name"], amount(bound["epsilon"]), _yes(bound["applies"]), bound["reason"]]
            for bound in claimed["bounds"]
        ]
        title = f"What the sources claim of a local release ({claimed['stance']})"
        console.print(table(title, ["bound", "epsilon", "applies", "because"], rows))
        holds = claimed["holds"]
        console.print(
            f"What holds of it: epsilon {amount(holds['record'])} for one reading, "
            f"{amount(holds['curator'])} for a curator.",
            highlight=False,
        )
        console.print(f"[dim]{claimed['sentence']}[/dim]", highlight=False)
    else:
        console.print(f"The sources' bounds: no number, {claimed['reason']}", highlight=False)
    released = found["released"]
    for unit in ("record", "curator"):
        rows = [
            [
                SCENARIOS[row["key"]],
                row["trust_model"] or "",
                amount(row["epsilon"]),
                amount(row["delta"]),
                *([amount(row["tight"]["epsilon"])] if "tight" in row else []),
                _worst(row),
            ]
            for row in released[unit]
        ]
        tight = ["tight epsilon"] if "tight_sentence" in released else []
        columns = ["who colludes", "model", "epsilon", "delta", *tight, "worst"]
        title = f"What {released['rounds']} rounds cost together, unit {unit}"
        console.print(table(title, columns, rows))
    console.print(f"[dim]{released['sentence']}[/dim]", highlight=False)
    if "tight_sentence" in released:
        console.print(f"[dim]{released['tight_sentence']}[/dim]", highlight=False)
    _print_limits(found["limits"])


def _yes(value: bool | None) -> str:
    return "not known" if value is None else "yes" if value else "no"


def _worst(row: Json) -> str:
    worst = row.get("worst")
    if worst is None:
        return ""
    return f"{worst['curator']}{' at ' + worst['instant'] if 'instant' in worst else ''}"


def _print_limits(deployment: list[Json], own: list[Json] | None = None) -> None:
    """The limits that hold, and whose each is; `own`: of the one curator that is asked about."""
    named = [("the deployment", item) for item in deployment]
    named += [("this curator", item) for item in own or []]
    if not named:
        console.print("limits: none")
    for whose, item in named:
        delta = f", delta {item['delta']}" if "delta" in item else ""
        period = f" per {item['period_s']} s" if "period_s" in item else ""
        console.print(
            f"limit of {whose}: unit {item['unit']}, {item['scenario']}: epsilon "
            f"{item['epsilon']}{delta}{period}",
            highlight=False,
        )


@app.command("curator")
def curator(
    curator_id: Annotated[str, typer.Argument(help="Id of the curator.")],
    home: Home = DEFAULT_HOME,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Where a curator stands, and what it spent, in the coordinator's ledger."""
    with plain_errors(), Target(home, url, token).coordinator() as client:
        found = client.curator_budget(curator_id)

    def human() -> None:
        console.print(
            f"{found['curator']} of {found['party']}: {found['status']}, "
            f"{found['spent']['rounds']} rounds, data changed {found['refreshed']} times",
            highlight=False,
        )
        rows = [
            [SCENARIOS[one["key"]], amount(one["epsilon"]), amount(two["epsilon"])]
            for one, two in zip(found["spent"]["record"], found["spent"]["curator"], strict=True)
        ]
        console.print(table("Epsilon spent", ["who colludes", "one reading", "the curator"], rows))
        _print_limits(found["deployment_limits"], found["limits"])

    show(found, as_json, human)


@app.command("own")
def own(
    curator_id: Annotated[str, typer.Argument(help="Id of the curator.")],
    home: Home = DEFAULT_HOME,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """What a curator spent in its own ledger, which decides, and what each figure assumes."""
    with plain_errors(), Target(home, url, token).curator() as client:
        found = client.statement(curator_id)
    show(found, as_json, lambda: _print_own(found))


def _print_own(found: Json) -> None:
    for unit, spent in found["units"].items():
        rows = [
            [
                debit["made"],
                debit["epsilon"],
                debit["delta"],
                "credited" if debit["credited"] else debit["status"],
                debit["assumes"],
            ]
            for debit in spent["debits"]
        ]
        title = f"Charged to {found['curator']}, unit {unit}"
        console.print(table(title, ["when", "epsilon", "delta", "status", "if"], rows))
        period, lifetime = spent["period"], spent["lifetime"]
        console.print(
            f"period: epsilon {period['epsilon']}, delta {period['delta']}; "
            f"all time: epsilon {lifetime['epsilon']}, delta {lifetime['delta']}",
            highlight=False,
        )
    columns = ", ".join(found["public_columns"]) or "none"
    console.print(f"columns that may be sent as they are: {columns}", highlight=False, markup=False)


@app.command("events")
def events(
    curator_id: Annotated[str | None, typer.Option("--curator", help="Only this one's.")] = None,
    home: Home = DEFAULT_HOME,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """The ledger, row by row."""
    with plain_errors(), Target(home, url, token).coordinator() as client:
        found = list(client.budget_events(curator_id))

    def human() -> None:
        rows = [
            [str(item["seq"]), item["time"], item["kind"], _whom(item), item["hash"][:12]]
            for item in found
        ]
        console.print(table("Ledger", ["row", "time", "event", "about", "hash"], rows))

    show(found, as_json, human)


def _whom(item: Json) -> str:
    if "round" in item["payload"]:
        return f"round {item['payload']['round']}"
    if item["first"] is None:
        return "the deployment"
    last = item["first"] + item["count"] - 1
    return f"curator {item['first']}" if item["count"] == 1 else f"curators {item['first']}-{last}"


@app.command("note")
def note(
    kind: Annotated[
        str, typer.Argument(help="joined, left, refreshed, flagged, cleansed, non_compliant, ...")
    ],
    curators: Annotated[list[str], typer.Argument(help="Ids of curators.")],
    reason: Annotated[str | None, typer.Option(help="Why; it stands in the ledger.")] = None,
    declared: Annotated[
        str | None, typer.Option(help="What they declare from now on: a JSON file, or JSON.")
    ] = None,
    disclosed: Annotated[
        str | None, typer.Option(help="What one curator discloses (paper stance): JSON.")
    ] = None,
    home: Home = DEFAULT_HOME,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Tell the ledger what happened to curators or their data."""
    body: Json = {"kind": kind, "curators": curators}
    with plain_errors(), Target(home, url, token).coordinator() as client:
        if reason is not None:
            body["reason"] = reason
        if declared is not None:
            body["declared"] = read_json(declared)
        if disclosed is not None:
            body["disclosed"] = read_json(disclosed)
        found = client.record_event(body)
    rows = [str(item["seq"]) for item in found["events"]]
    show(found, as_json, lambda: console.print(f"row {', '.join(rows)}: {kind}"))


@app.command("verify")
def verify(
    transcript: Annotated[
        Path | None,
        typer.Option(
            help="A round's transcript or descriptor that you kept: its head is compared."
        ),
    ] = None,
    home: Home = DEFAULT_HOME,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Look at every row of the ledger; the first bad one is named, with exit code 1."""
    with plain_errors(), Target(home, url, token).coordinator() as client:
        kept = {} if transcript is None else _kept_head(transcript)
        found = client.verify_budget(**kept)
    show(found, as_json, lambda: print_verified(found))
    if not found["verified"]:
        raise typer.Exit(1)


def _kept_head(path: Path) -> Json:
    from common.models.base import parse_binary

    document = read_table(str(path))
    document = document.get("descriptor", document)
    carried = document.get("statement", document).get("ledger")
    if carried is None:
        raise ValueError(f"{path}: it carries no head of a ledger")
    return {"seq": carried["seq"], "head": parse_binary(carried["head"]).hex()}


@app.command("limits")
def limits(
    source: Annotated[
        str | None,
        typer.Argument(help='New limits: JSON such as \'{"limits": [{"epsilon": "12"}]}\'.'),
    ] = None,
    curator_id: Annotated[str | None, typer.Option("--curator", help="Of one curator.")] = None,
    home: Home = DEFAULT_HOME,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Show the limits on what is spent, or set new ones."""
    with plain_errors(), Target(home, url, token).coordinator() as client:
        if source is not None:
            wanted = read_table(source).get("limits", [])
            found = client.set_budget_limits(wanted, curator=curator_id)
        if curator_id is not None:
            found = client.curator_budget(curator_id)
        elif source is None:
            found = client.budget_limits()

    def human() -> None:
        if curator_id is not None:
            _print_limits(found["deployment_limits"], found["limits"])
        else:
            _print_limits(found["limits"])

    show(found, as_json, human)


@app.command("preview")
def preview(
    query_id: Annotated[str, typer.Argument(help="Id of the query.")],
    start: Annotated[str | None, typer.Option("--from", help="Start of the window.")] = None,
    end: Annotated[str | None, typer.Option("--to", help="End of the window (excluded).")] = None,
    home: Home = DEFAULT_HOME,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """What a round would cost, and whether it would be let in; nothing is spent."""
    if (start is None) != (end is None):
        fail("--from and --to go together")
    plan: Json = {"query_id": query_id}
    if start is not None:
        plan["window"] = {"start": start, "end": end}
    with plain_errors(), Target(home, url, token).coordinator() as client:
        found = client.preview_cost(plan)

    def human() -> None:
        rows = [
            [SCENARIOS[one["key"]], amount(one["epsilon"]), amount(two["epsilon"])]
            for one, two in zip(found["costs"]["record"], found["costs"]["curator"], strict=True)
        ]
        title = f"What a round costs each of {found['curators']} curators (epsilon)"
        console.print(table(title, ["who colludes", "one reading", "the curator"], rows))
        console.print("it would be let in" if found["allowed"] else "it would be refused:")
        for item in found["refusals"]:
            limit = item["limit"]
            console.print(
                f"  limit {limit['epsilon']} ({limit['unit']}, {limit['scenario']}): "
                f"{item['spent']['epsilon']} spent, {item['asked']['epsilon']} asked, "
                f"{item['curators']} curators blocked",
                highlight=False,
            )

    show(found, as_json, human)


@app.command("forecast")
def forecast(
    query: Annotated[str, typer.Argument(help="Id of a query, or a query as JSON or JSON file.")],
    days: Annotated[int, typer.Option(min=1, help="How far to look.")] = 365,
    period_s: Annotated[int | None, typer.Option(min=60, help="Seconds between rounds.")] = None,
    delta: Annotated[str, typer.Option(help="Delta of the tight figures.")] = "0.000001",
    plot: Annotated[Path | None, typer.Option(help="Also draw it: a .svg or .png file.")] = None,
    home: Home = DEFAULT_HOME,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """What a schedule costs per day, month and year, before it starts."""
    body: Json = {"days": days, "delta": delta}
    if period_s is not None:
        body["period_s"] = period_s
    with plain_errors(), Target(home, url, token).coordinator() as client:
        named = not query.lstrip().startswith("{") and not Path(query).is_file()
        body |= {"query_id": query} if named else {"query": read_json(query)}
        found = client.forecast_budget(body)
        if plot is not None:
            draw_forecast(found, plot)

    def human() -> None:
        rows = [
            [
                row["horizon"],
                row["unit"],
                SCENARIOS[row["key"]],
                str(row["touching"]),
                amount(row["basic"]["epsilon"]),
                amount(row["basic"]["delta"]),
                amount(row["tight"]),
            ]
            for row in found["rows"]
            if row["key"] in "de"
        ]
        columns = ["horizon", "unit", "who colludes", "rounds", "epsilon", "delta", "tight"]
        console.print(table(f"One round every {found['period_s']} s", columns, rows))
        console.print(f"[dim]tight: at delta {found['delta']}. {found['sentence']}[/dim]")
        if plot is not None:
            console.print(f"drawn: {plot}", highlight=False)

    show(found, as_json, human)
