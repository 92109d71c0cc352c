"""`tacit budget`: what the sources claim, the verified figures, what is left, and what a year will
cost, also drawn.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cli.context import (
    Answer,
    Target,
    TextTable,
    at_coordinator,
    at_curator,
    at_target,
    console,
    fail,
    read_json,
    read_table,
    say,
    tabled,
)
from cli.formatting import amount, verified
from common.runtime.process import extra_needed
from tacit import Client
from tacit.answers import base as api

UNITS = {"record": "one reading", "curator": "a curator"}


def draw_forecast(forecast_answer: api.Answer, path: Path) -> None:
    """Draw a forecast; the suffix of the file chooses the format."""
    try:
        import matplotlib
    except ImportError:
        raise RuntimeError(extra_needed("drawing", "plots")) from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    if path.suffix not in (".svg", ".png", ".pdf"):
        raise ValueError(f"{path}: use .svg, .png or .pdf")
    figure, axes = pyplot.subplots(figsize=(7.5, 4.5), layout="constrained")
    for color, unit in zip(("tab:blue", "tab:orange"), UNITS, strict=True):
        points = [point for point in forecast_answer["curve"] if point["unit"] == unit]
        basic = [(point["day"], point["basic"]["epsilon"]) for point in points]
        tight = [(point["day"], point["tight"]) for point in points]
        zcdp = [(point["day"], point["zcdp"]) for point in points]
        for style, label, line in (
            ("-", "basic, enforced", basic),
            ("-.", f"rho at delta {forecast_answer['delta']}, enforced", zcdp),
            ("--", f"tight at delta {forecast_answer['delta']}", tight),
        ):
            days = [day for day, epsilon in line if epsilon != "inf"]
            epsilons = [float(epsilon) for _, epsilon in line if epsilon != "inf"]
            if days:
                axes.plot(days, epsilons, style, color=color, label=f"{UNITS[unit]}: {label}")
    axes.set_xlabel("days since the schedule began")
    axes.set_ylabel("epsilon, as each query assumes collusion")
    axes.set_yscale("log")
    axes.set_title(f"One round every {forecast_answer['period_s']} s")
    axes.grid(visible=True, which="both", alpha=0.25)
    if axes.lines:
        axes.legend()
    else:
        axes.text(0.5, 0.5, "no finite guarantee", ha="center", transform=axes.transAxes)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


app = typer.Typer(
    no_args_is_help=True, help="The privacy budget: bounds, limits, events, forecast."
)

Json = dict[str, Any]
_YES = {None: "not known", True: "yes", False: "no"}
SCENARIOS = {
    "a": "nobody colludes",
    "b": "all other curators",
    "c": "and aggregators that learn nothing",
    "d": "and all aggregators",
    "e": "as each query assumes",
}


@app.command("show")
@at_coordinator
def show_budget(
    client: Client,
    query: Annotated[
        str | None,
        typer.Option(help="A query of mechanism local, for curators that declare no epsilon."),
    ] = None,
    delta: Annotated[
        str | None, typer.Option(help="Also compose numerically, at this delta.")
    ] = None,
) -> Answer:
    """The three bounds from the papers, next to the verified ones."""
    response = client.budget.get(query_id=query, delta=delta)
    return Answer(response, lambda: print_budget(response))


def print_budget(budget_answer: api.Answer) -> None:
    """The claimed bounds, the verified figures and the limits, in tables."""
    counts = ", ".join(
        f"{count} {name}" for name, count in budget_answer["curators"].items() if count
    )
    console.print(f"ledger: {budget_answer['ledger']['seq']} events; curators: {counts or 'none'}")
    claimed = budget_answer["claimed"]
    if claimed["bounds"]:
        rows = [
            [bound["name"], amount(bound["epsilon"]), _YES[bound["applies"]], bound["reason"]]
            for bound in claimed["bounds"]
        ]
        title = f"Claims of the papers for a local release ({claimed['stance']})"
        console.print(TextTable(title, ["bound", "epsilon", "applies", "because"], rows))
        holds = claimed["holds"]
        say(
            f"Verified: epsilon {amount(holds['record'])} for one reading, "
            f"{amount(holds['curator'])} for a curator."
        )
        say(f"[dim]{claimed['sentence']}[/dim]")
    else:
        say(f"The papers' bounds: no number, {claimed['reason']}")
    released = budget_answer["released"]
    for unit in ("record", "curator"):
        rows = [
            [
                SCENARIOS[row["key"]],
                row["trust_model"] or "",
                amount(row["epsilon"]),
                amount(row["delta"]),
                amount(row["rho"]),
                *([amount(row["tight"]["epsilon"])] if "tight" in row else []),
                _worst(row),
            ]
            for row in released[unit]
        ]
        tight = ["tight epsilon"] if "tight_sentence" in released else []
        columns = ["who colludes", "model", "epsilon", "delta", "rho", *tight, "worst"]
        title = f"What {released['rounds']} rounds cost together, unit {unit}"
        console.print(TextTable(title, columns, rows))
    say(f"[dim]{released['sentence']}[/dim]")
    if "tight_sentence" in released:
        say(f"[dim]{released['tight_sentence']}[/dim]")
    _print_limits(budget_answer["limits"])


def _by_scenario(title: str, figures: Json) -> TextTable:
    """Epsilon of a reading and of a curator, by who colludes."""
    rows = [
        [SCENARIOS[one["key"]], amount(one["epsilon"]), amount(two["epsilon"])]
        for one, two in zip(figures["record"], figures["curator"], strict=True)
    ]
    return TextTable(title, ["who colludes", "one reading", "the curator"], rows)


def _worst(row: Json) -> str:
    worst = row.get("worst")
    if worst is None:
        return ""
    return f"{worst['curator']}{' at ' + worst['instant'] if 'instant' in worst else ''}"


def _print_limits(deployment: list[Json], of_curator: list[Json] | None = None) -> None:
    """The limits and whom each applies to; `own`: those of one curator."""
    named = [("the deployment", item) for item in deployment]
    named += [("this curator", item) for item in of_curator or []]
    if not named:
        console.print("limits: none")
    for whose, item in named:
        delta = f", delta {item['delta']}" if "delta" in item else ""
        period = f" per {item['period_s']} s" if "period_s" in item else ""
        in_rho = " in zcdp" if item["currency"] == "zcdp" else ""
        say(
            f"limit of {whose}: unit {item['unit']}, {item['scenario']}: epsilon "
            f"{item['epsilon']}{delta}{in_rho}{period}"
        )


@app.command("curator")
@at_coordinator
def curator(
    client: Client,
    curator_id: Annotated[str, typer.Argument(help="Id of the curator.")],
) -> Answer:
    """The state of a curator, and what it spent, in the coordinator's ledger."""
    response = client.budget.curator(curator_id)

    def human() -> None:
        say(
            f"{response['curator']} of {response['party']}: {response['status']}, "
            f"{response['spent']['rounds']} rounds, data changed {response['refreshed']} times"
        )
        console.print(_by_scenario("Epsilon spent", response["spent"]))
        _print_limits(response["deployment_limits"], response["limits"])

    return Answer(response, human)


@app.command("own")
@at_curator
def own(
    client: Client,
    curator_id: Annotated[str, typer.Argument(help="Id of the curator.")],
) -> Answer:
    """What a curator spent in its own ledger, which limits it, and what each figure assumes."""
    response = client.ledger.statement(curator_id)
    return Answer(response, lambda: _print_own(response))


def _print_own(response: api.Answer) -> None:
    for unit, spent in response["units"].items():
        rows = [
            [
                debit["made"],
                debit["epsilon"],
                debit["delta"],
                debit["rho"],
                "credited" if debit["credited"] else debit["status"],
                debit["assumes"],
            ]
            for debit in spent["debits"]
        ]
        title = f"Charged to {response['curator']}, unit {unit}"
        console.print(TextTable(title, ["when", "epsilon", "delta", "rho", "status", "if"], rows))
        period, lifetime = spent["period"], spent["lifetime"]
        say(
            f"period: epsilon {period['epsilon']}, delta {period['delta']}, rho {period['rho']}; "
            f"all time: epsilon {lifetime['epsilon']}, delta {lifetime['delta']}, "
            f"rho {lifetime['rho']}"
        )
    columns = ", ".join(response["public_columns"]) or "none"
    say(f"columns that may be sent as they are: {columns}", markup=False)


@app.command("events")
@at_coordinator
def events(
    client: Client,
    curator_id: Annotated[
        str | None, typer.Option("--curator", help="Only events of this curator.")
    ] = None,
) -> Answer:
    """List the rows of the ledger."""
    response = list(client.budget.events(curator_id))
    rows = [
        [str(item["seq"]), item["time"], item["kind"], _whom(item), item["hash"][:12]]
        for item in response
    ]
    return tabled(response, "Ledger", ["row", "time", "event", "about", "hash"], rows)


def _whom(item: api.Answer) -> str:
    if "round" in item["payload"]:
        return f"round {item['payload']['round']}"
    if item["first"] is None:
        return "the deployment"
    last = item["first"] + item["count"] - 1
    return f"curator {item['first']}" if item["count"] == 1 else f"curators {item['first']}-{last}"


@app.command("note")
@at_coordinator
def note(
    client: Client,
    kind: Annotated[
        str, typer.Argument(help="joined, left, refreshed, flagged, cleansed, non_compliant, ...")
    ],
    curators: Annotated[list[str], typer.Argument(help="Ids of curators.")],
    reason: Annotated[str | None, typer.Option(help="Reason, recorded in the ledger.")] = None,
    declared: Annotated[
        str | None, typer.Option(help="Their new declaration: a JSON file, or JSON.")
    ] = None,
    disclosed: Annotated[
        str | None, typer.Option(help="Values that one curator discloses (paper stance): JSON.")
    ] = None,
) -> Answer:
    """Record an event (joined, left, data changed) in the ledger."""
    body: Json = {"kind": kind, "curators": curators}
    if reason is not None:
        body["reason"] = reason
    if declared is not None:
        body["declared"] = read_json(declared)
    if disclosed is not None:
        body["disclosed"] = read_json(disclosed)
    response = client.budget.record_event(body)
    rows = [str(item["seq"]) for item in response["events"]]
    return Answer(response, lambda: console.print(f"row {', '.join(rows)}: {kind}"))


@app.command("verify")
@at_coordinator
def verify(
    client: Client,
    transcript: Annotated[
        Path | None,
        typer.Option(
            help="A round's transcript or descriptor that you kept: its head is compared."
        ),
    ] = None,
) -> Answer:
    """Check every row of the ledger; prints the first bad one, with exit code 1."""
    kept_head = {} if transcript is None else _kept_head(transcript)
    return verified(client.budget.verify(**kept_head))


def _kept_head(path: Path) -> Json:
    from tacit.wire import parse_binary

    document = read_table(str(path))
    document = document.get("descriptor", document)
    carried = document.get("statement", document).get("ledger")
    if carried is None:
        raise ValueError(f"{path}: has no head of a ledger")
    return {"seq": carried["seq"], "head": parse_binary(carried["head"]).hex()}


@app.command("limits")
@at_coordinator
def limits(
    client: Client,
    source: Annotated[
        str | None,
        typer.Argument(help='New limits: JSON such as \'{"limits": [{"epsilon": "12"}]}\'.'),
    ] = None,
    curator_id: Annotated[str | None, typer.Option("--curator", help="Of one curator.")] = None,
) -> Answer:
    """Show the budget limits, or set new ones."""
    if source is not None:
        wanted_limits = read_table(source).get("limits", [])
        response: api.Answer = client.budget.set_limits(wanted_limits, curator=curator_id)
    if curator_id is not None:
        response = client.budget.curator(curator_id)
    elif source is None:
        response = client.budget.limits()

    of_curator = curator_id is not None
    shown = (
        (response["deployment_limits"], response["limits"]) if of_curator else (response["limits"],)
    )
    return Answer(response, lambda: _print_limits(*shown))


@app.command("preview")
@at_target
def preview(
    target: Target,
    query_id: Annotated[str, typer.Argument(help="Id of the query.")],
    start: Annotated[str | None, typer.Option("--from", help="Start of the window.")] = None,
    end: Annotated[str | None, typer.Option("--to", help="End of the window (excluded).")] = None,
) -> Answer:
    """What a round would cost, and whether it would be accepted; nothing is spent."""
    if (start is None) != (end is None):
        fail("--from and --to go together")
    plan: Json = {"query_id": query_id}
    if start is not None:
        plan["window"] = {"start": start, "end": end}
    with target.coordinator() as client:
        response = client.budget.preview(plan)

    def human() -> None:
        title = f"What a round costs each of {response['curators']} curators (epsilon)"
        console.print(_by_scenario(title, response["costs"]))
        console.print("it would be accepted" if response["allowed"] else "it would be refused:")
        for item in response["refusals"]:
            limit = item["limit"]
            figure = "rho" if limit["currency"] == "zcdp" else "epsilon"
            delta = f" at delta {limit['delta']}" if figure == "rho" else ""
            say(
                f"  limit {limit['epsilon']}{delta} ({limit['unit']}, {limit['scenario']}): "
                f"{figure} {item['spent'][figure]} spent, {item['asked'][figure]} requested, "
                f"{item['curators']} curators blocked"
            )

    return Answer(response, human)


@app.command("forecast")
@at_coordinator
def forecast(
    client: Client,
    query: Annotated[str, typer.Argument(help="Id of a query, or a query as JSON or JSON file.")],
    days: Annotated[int, typer.Option(min=1, help="Days to forecast.")] = 365,
    period_s: Annotated[int | None, typer.Option(min=60, help="Seconds between rounds.")] = None,
    delta: Annotated[str, typer.Option(help="Delta of the tight figures.")] = "0.000001",
    plot: Annotated[
        Path | None, typer.Option(help="Also draw it into this .svg, .png or .pdf file.")
    ] = None,
) -> Answer:
    """What a schedule costs per day, month and year, before it starts."""
    body: Json = {"days": days, "delta": delta}
    if period_s is not None:
        body["period_s"] = period_s
    named = not query.lstrip().startswith("{") and not Path(query).is_file()
    body |= {"query_id": query} if named else {"query": read_json(query)}
    response = client.budget.forecast(body)
    if plot is not None:
        draw_forecast(response, plot)

    def human() -> None:
        rows = [
            [
                row["horizon"],
                row["unit"],
                SCENARIOS[row["key"]],
                str(row["touching"]),
                amount(row["basic"]["epsilon"]),
                amount(row["basic"]["delta"]),
                amount(row["rho"]),
                amount(row["zcdp"]),
                amount(row["tight"]),
            ]
            for row in response["rows"]
            if row["key"] in "de"
        ]
        names = ["horizon", "unit", "who colludes", "rounds", "epsilon", "delta"]
        columns = [*names, "rho", "of rho", "tight"]
        console.print(TextTable(f"One round every {response['period_s']} s", columns, rows))
        console.print(
            f"[dim]of rho, tight: epsilon at delta {response['delta']}. "
            f"{response['sentence']}[/dim]"
        )
        if plot is not None:
            say(f"drawn: {plot}")

    return Answer(response, human)


@app.command("history")
@at_coordinator
def history(
    client: Client,
    unit: Annotated[str, typer.Option(help="curator or record.")] = "curator",
    scenario: Annotated[str, typer.Option(help="assumed or all-aggregators.")] = "assumed",
    period_s: Annotated[
        int | None, typer.Option(min=60, help="Count within periods of a limit.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--from", help="First instant (default: the first round).")
    ] = None,
    until: Annotated[str | None, typer.Option("--to", help="Last instant (default: now).")] = None,
    step_s: Annotated[int | None, typer.Option(min=1, help="Seconds between two lines.")] = None,
) -> Answer:
    """The spending of the worst curator over time."""
    response = client.budget.history(
        unit=unit, scenario=scenario, period_s=period_s, since=since, until=until, step_s=step_s
    )
    rows = [
        [
            point["at"],
            *(amount(point[name]) for name in ("epsilon", "delta", "rho")),
            str(point["rounds"]),
        ]
        for point in response["points"]
    ]
    title = f"Spent by the worst curator, unit {response['unit']}"
    return tabled(response, title, ["at", "epsilon", "delta", "rho", "rounds"], rows)


@app.command("outlook")
@at_coordinator
def outlook(
    client: Client,
    query: Annotated[
        list[str] | None,
        typer.Argument(help="Queries (default: all running schedules)."),
    ] = None,
    period_s: Annotated[int | None, typer.Option(min=60, help="Seconds between rounds.")] = None,
    days: Annotated[int, typer.Option(min=1, help="Days to look ahead.")] = 365,
) -> Answer:
    """When each limit is used up, and what would make it last."""
    body: Json = {"days": days}
    if query:
        period = {} if period_s is None else {"period_s": period_s}
        body["queries"] = [{"query_id": query_id, **period} for query_id in query]
    response = client.budget.outlook(body)

    def human() -> None:
        for item in response["schedules"]:
            say(
                f"{item['name']}: every {item['period_s']} s, epsilon {amount(item['epsilon'])} "
                f"and rho {amount(item['rho'])} a round, next {item['next']}"
            )
        if not response["schedules"]:
            say("no schedule is running: name a query, with --period-s")
        if not response["limits"]:
            say("limits: none. Spending is not limited: `tacit budget limits` sets limits")
        for item in response["limits"]:
            _print_limits([item["limit"]])
            figure = "rho" if item["limit"]["currency"] == "zcdp" else "epsilon"
            say(f"  {figure} {amount(item['left'])} of {item['most']} left; {_lasts(item)}")
        say(f"[dim]{response['sentence']}[/dim]")

    return Answer(response, human)


def _lasts(item: Json) -> str:
    if item["exhausted"] is None:
        return "lasts to the end"
    advice = item["advice"]
    if advice is None:
        return f"used up at {item['exhausted']}, and no pace of these rounds would make it last"
    ways = [] if advice["every"] is None else [f"only every {advice['every']}th round"]
    share = f"at most {advice['share']} of each round's price"
    currency = next((name for name in ("epsilon", "rho") if advice[name] is not None), None)
    ways.append(share if currency is None else f"{currency} at most {advice[currency]} a round")
    return f"used up at {item['exhausted']}; to last: {', or '.join(ways)}"
