"""`tacit query` and `tacit round`: create and preview queries; open, watch, read and verify their
rounds.
"""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.context import (
    TRUST_FILE,
    Answer,
    Full,
    Target,
    TextTable,
    at_coordinator,
    at_target,
    console,
    fail,
    progress,
    read_json,
    say,
    tabled,
)
from cli.formatting import amount, print_report, refusal_lines, refused_lines, result_lines
from tacit import Client, Problem, RoundNotReleased
from tacit.answers import base as api
from tacit.protocol.round.state import RoundState
from tacit.query.terms import Validity
from tacit.report.figures import of_a_hundred
from tacit.wire import format_exact

if TYPE_CHECKING:
    from tacit import Result

query_app = typer.Typer(no_args_is_help=True, help="What is asked: immutable queries.")

Source = Annotated[str, typer.Argument(help="The query: a JSON file, or JSON text.")]
ValidityOption = Annotated[
    Validity | None,
    typer.Option(
        "--validity",
        help="In place of the query's: `declared`, or `proved`, in which each contribution carries "
        "a proof of its range. Choose `proved` where curators or hosts may lie.",
    ),
]
NoiseTail = Annotated[
    str | None,
    typer.Option(
        help="In place of the query's: how much total variation the clamping of curators' noise "
        "may cost over a proved round, a decimal.",
    ),
]


@query_app.command("create")
@at_coordinator
def create(
    client: Client,
    source: Source,
    validity: ValidityOption = None,
    noise_tail: NoiseTail = None,
) -> Answer:
    """Create a query. The same content is the same query.

    Where curators or hosts may lie, add `"validity": "proved"` (or `--validity proved`): a lie
    then moves the sum by no more than the preview says. It costs each lone curator some 500 bytes
    and a few milliseconds, needs additive sharing, and helps while every aggregator is honest. A
    declared sum (the default) is moved by a lie by any amount.
    """
    query_made = client.queries.create(_asked(source, validity, noise_tail))
    return Answer(query_made, lambda: typer.echo(query_made["id"]))


@query_app.command("preview")
@at_coordinator
def preview(
    client: Client,
    source: Source,
    validity: ValidityOption = None,
    noise_tail: NoiseTail = None,
    epsilon: Annotated[
        list[str] | None,
        typer.Option(help="Also try this epsilon; may be repeated (at most 32)."),
    ] = None,
    rho: Annotated[
        list[str] | None,
        typer.Option(help="Of Gaussian noise: also try this rho; may be repeated (at most 32)."),
    ] = None,
    full: Full = False,
) -> Answer:
    """What a result would reveal, its error, and how far a lie could move it, before anything is
    spent."""
    document = _asked(source, validity, noise_tail)
    response = client.queries.preview(document, epsilons=epsilon or None, rhos=rho or None)

    def human() -> None:
        print_report({name: response[name] for name in response.keys() - {"stops"}}, full=full)
        if "stops" in response:
            rows = [
                [amount(stop["epsilon"]), stop.get("rho") or "", _error(stop), _guess(stop)]
                for stop in response["stops"]
            ]
            columns = ["epsilon", "rho", "error, 95 of 100", "right guesses"]
            console.print(TextTable("At another epsilon or rho", columns, rows))

    return Answer(response, human)


def _error(stop: Any) -> str:
    parts = (stop["error"] or {}).get("parts", ())
    return ", ".join(f"± {part['interval']['half_width']} {part['unit']}" for part in parts)


def _guess(stop: Any) -> str:
    return f"{of_a_hundred(stop['guess'])} of 100"


def _asked(source: str, validity: Validity | None, noise_tail: str | None) -> Any:
    document = read_json(source)
    if not isinstance(document, dict):  # the coordinator refuses it
        return document
    options = {"validity": validity and validity.value, "noise_tail": noise_tail}
    return {**document, **{name: value for name, value in options.items() if value is not None}}


@query_app.command("list")
@at_coordinator
def list_queries(client: Client) -> Answer:
    """List all queries."""
    response = list(client.pages("/v1/queries", "queries"))  # without the model of a query
    columns = ["id", "name", "function", "mechanism", "validity"]
    rows = []
    for item in response:
        cells = [item["query"].get(key, "declared") for key in columns[1:]]
        rows.append([item["id"], *cells, str(item["rounds"])])
    return tabled(response, "Queries", [*columns, "rounds"], rows)


@query_app.command("stop")
@at_coordinator
def stop(
    client: Client, query_id: Annotated[str, typer.Argument(help="Id of a scheduled query.")]
) -> Answer:
    """End the schedule of a query. Open rounds continue."""
    response = client.queries.stop(query_id)
    return Answer(
        response, lambda: typer.echo(f"{query_id} opens no rounds since {response['stopped']}")
    )


round_app = typer.Typer(no_args_is_help=True, help="Rounds of a query, and their results.")

STEPS = ("open", "frozen", "verified", "committed", "released")


RoundId = Annotated[str, typer.Argument(help="Id of the round.")]
Start = Annotated[str | None, typer.Option("--from", help="Start of the window, RFC 3339.")]
End = Annotated[str | None, typer.Option("--to", help="End of the window (excluded), RFC 3339.")]


@round_app.command("open")
@at_target
def open_round(
    target: Target,
    query_id: Annotated[str, typer.Argument(help="Id of the query.")],
    start: Start = None,
    end: End = None,
    deadline_s: Annotated[
        int | None, typer.Option(min=1, help="Seconds the round is open.")
    ] = None,
    watch: Annotated[bool, typer.Option(help="Wait for the result and print it.")] = False,
    full: Full = False,
) -> Answer:
    """Open a round over a window of readings."""
    if (start is None) != (end is None):
        fail("--from and --to go together")
    window = None if start is None or end is None else {"start": start, "end": end}
    options: dict[str, Any] = {} if deadline_s is None else {"deadline_s": deadline_s}
    with target.coordinator() as client:
        opened = client.rounds.open(query_id, window=window, **options)
        if not watch:
            return Answer(opened, lambda: typer.echo(opened["id"]))
        follow(client, opened["id"])
        return _result(client, opened["id"], full)


@round_app.command("list")
@at_coordinator
def list_rounds(
    client: Client,
    query: Annotated[str | None, typer.Option(help="Only of this query: its id.")] = None,
    state: Annotated[RoundState | None, typer.Option(help="Only in this state.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 20,
) -> Answer:
    """Rounds, the newest first."""
    response = list(
        islice(client.rounds.list(state=state, query_id=query, newest_first=True), limit)
    )
    lines = [line for item in response for line in _lines(item)] or ["no round"]
    return Answer(response, lambda: say("\n".join(lines), markup=False))


def _lines(shown: api.Answer) -> list[str]:
    """A round for people; its id begins a line, so that every screen shows it whole."""
    window, curators = shown["window"], shown["participants"]
    state = shown["state"] if curators is None else f"{shown['state']}, {curators} curators"
    why = [] if shown["reason"] is None else [f"  {shown['reason']}"]
    figures = shown["figures"]
    return [
        f"{shown['id']}  {state}",
        f"  {shown['query']}, {window['start']} to {window['end']}",
        *([] if figures is None else [f"  {_told(figures, shown['unit'])}"]),
        *why,
    ]


def _told(figures: dict[str, Any], unit: str) -> str:
    """The single numbers of a result, their error, and how well anyone could guess."""
    parts = [f"{name} {value}" for name, value in figures["result"].items() if value is not None]
    if figures["interval"] is not None:
        parts[0] += f" {unit} ± {figures['interval']['half_width']}" if parts else ""
    guessed = of_a_hundred(figures["guess"])
    return ", ".join([*parts, f"guessed right at most {guessed} times of 100"])


@round_app.command("watch")
@at_coordinator
def watch(client: Client, round_id: RoundId, full: Full = False) -> Answer:
    """Follow a round to its end and print the result."""
    follow(client, round_id)
    return _result(client, round_id, full)


@round_app.command("result")
@at_coordinator
def result(
    client: Client,
    round_id: RoundId,
    full: Full = False,
    suppress: Annotated[
        int | None,
        typer.Option(
            help="Of a table of counts without noise: print it without counts from 1 to below this "
            "number, nor those from which they could be computed."
        ),
    ] = None,
) -> Answer:
    """The released result with its privacy report."""
    return (
        _result(client, round_id, full)
        if suppress is None
        else _without_small_counts(client.rounds.result(round_id), suppress)
    )


def _without_small_counts(response: Result, least: int) -> Answer:
    """A table to be passed on, and none of what it leaves out."""
    # Loaded only here: few results are suppressed.
    from tacit.report.tables import grid, records, text_lines

    try:
        figures = response.suppressed(least)
    except ValueError as reason:
        fail(str(reason))
    columns = response.columns or []
    rows = [
        {name: _exact(value) for name, value in row.items()}
        for row in records(columns, figures, "1")
    ]
    lines = [
        *text_lines(grid(columns, figures)),
        f"x: suppressed, so that no count from 1 to {least - 1} can be computed from the others.",
        "Anyone who may read the round has all counts.",
    ]
    return Answer({"rows": rows}, lambda: say("\n".join(lines), markup=False))


@round_app.command("compare")
@at_coordinator
def compare(
    client: Client,
    first_round: Annotated[str, typer.Argument(metavar="ROUND", help="Id of a released round")],
    second_round: Annotated[str, typer.Argument(metavar="ROUND", help="The one to compare with")],
    per_curator: Annotated[
        bool, typer.Option("--per-curator", help="Divide figures by their number of curators")
    ] = False,
) -> Answer:
    """Difference and ratio of two results, with the noise of both; costs no privacy."""
    comparison = client.rounds.compare(first_round, second_round, per_curator=per_curator)
    rows = [{name: _exact(value) for name, value in row.items()} for row in comparison.rows]
    return Answer({"rows": rows}, lambda: say(str(comparison)))


def _exact(value: Any) -> Any:
    return format_exact(Fraction(value)) if isinstance(value, Fraction | Decimal) else value


@round_app.command("report")
@at_coordinator
def report(client: Client, round_id: RoundId, full: Full = False) -> Answer:
    """The privacy report of a result: who would have to collude to learn more; with --full the
    whole page."""
    response = client.rounds.report(round_id)

    def human() -> None:
        if full:
            # Loaded only here, as below: other commands need no model of a report and no protocol.
            from tacit.report.model import PrivacyReport
            from tacit.report.text import plain_words

            typer.echo(
                plain_words(PrivacyReport.model_validate_json(json.dumps(dict(response)))), nl=False
            )
        else:
            print_report(response)

    return Answer(response, human)


@round_app.command("verify")
@at_target
def verify(
    target: Target,
    round_id: RoundId,
    trust: Annotated[
        Path | None,
        typer.Option(
            envvar="TACIT_TRUST",
            help=f"Identities obtained out of band (`tacit trust`); {TRUST_FILE} in this "
            "directory is used by default.",
        ),
    ] = None,
    curator: Annotated[
        str | None,
        typer.Option(
            help="A curator that answered: its own service knows which round it answered and to "
            "which keys it sealed its pieces. No trust file is needed."
        ),
    ] = None,
) -> Answer:
    """Check signatures and commitments here and recombine the sum; exit code 1 if it differs, 3 if
    no trust file pins the identities or nothing binds the number of participants."""
    if curator is not None:
        if trust is not None:
            fail("--curator and --trust exclude each other")
        with target.curator() as client:
            answered = client.contributions.check(curator, round_id)
        code = 0 if answered["same_round"] else 1
        return Answer(answered, lambda: _print_check(answered), code)
    from cli.trust import read_trust

    if trust is None and TRUST_FILE.exists():
        trust = TRUST_FILE
    with target.coordinator() as client:
        checked = client.rounds.verify(round_id, trust=None if trust is None else read_trust(trust))
    code = 1 if not checked["matches"] else 0 if checked["anchored"] else 3
    return Answer(checked, lambda: _print_verdict(checked), code)


def _print_check(response: dict[str, Any]) -> None:
    if not response["same_round"]:
        lines = [
            "The curator answered ANOTHER round than the coordinator published:",
            f"  answered   {response['answered']}",
            f"  published  {response['published']}",
        ]
    else:
        lines = [
            f"The curator answered this round ({response['answered']}).",
            f"{len(response['aggregators'])} commitments of the aggregators with its pieces are "
            f"checked; {response['participants']} curators participated.",
            "The partial sums give:",
            *(f"  {name}: {value}" for name, value in response["result"].items()),
        ]
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False)


def _print_verdict(checked: dict[str, Any]) -> None:
    words = "matches" if checked["matches"] else "DOES NOT MATCH"
    lines = [
        f"{len(checked['aggregators'])} commitments checked; the recombined sum {words} "
        f"the published result. Coordinator {checked['coordinator_fingerprint'][:16]}..."
    ]
    lines.append(f"The aggregators committed to {checked['participants']} participants.")
    if not checked["anchored"]:
        lines.append(
            "No identity is pinned. Only the coordinator vouches for these aggregators, and it "
            "could have invented them; see `tacit trust`."
        )
    elif checked["unknown_operators"]:
        lines.append(f"Who runs these is not pinned: {', '.join(checked['unknown_operators'])}.")
    else:
        lines.append("Every identity and operator is pinned by the trust file.")
    for name, document in checked["sealed_by"].items():
        lines.append(f"Sealed for years by {name}, identity document {document}.")
    lines.extend(checked["validity"]["sentences"])
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False)


@round_app.command("received")
@at_coordinator
def received(client: Client, round_id: RoundId) -> Answer:
    """Progress of an open round: how many curators it awaits, and how many each aggregator has."""
    response = client.rounds.received(round_id)
    least = "unknown" if response["least"] is None else response["least"]
    awaited = "unknown" if response["expected"] is None else response["expected"]
    lines = [
        f"{response['state']}: every aggregator has {least} or more of {awaited} awaited, "
        f"{response['minimum']} needed",
        *(
            f"  {aggregator['id']}: {aggregator['accepted']}"
            for aggregator in response["aggregators"]
        ),
        *(f"  refused ({ground}): {count}" for ground, count in response["refused"].items()),
    ]
    return Answer(response, lambda: say("\n".join(lines), markup=False))


@round_app.command("flow")
@at_coordinator
def flow(
    client: Client,
    start: Annotated[
        str | None, typer.Option("--from", help="RFC 3339; at most 31 days ago.")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", help="RFC 3339; by default now.")] = None,
) -> Answer:
    """Whether contributions arrive, and where they stop: counts of the last 24 hours, or a span."""
    response = client.rounds.flow(since=start, until=end)
    return Answer(response, lambda: say("\n".join(_flow_lines(response)), markup=False))


def _flow_lines(response: api.Answer) -> list[str]:
    rounds = ", ".join(f"{count} {state}" for state, count in response["rounds"].items())
    refused = ", ".join(f"{ground} {count}" for ground, count in response["refused"].items())
    lines = [
        f"{response['from']} to {response['to']}",
        f"rounds: {rounds or 'none'}",
        f"refused by curators: {refused or 'none reported'}",
    ]
    for aggregator in response["aggregators"]:
        if aggregator["problem"] is not None:
            lines.append(f"{aggregator['id']}: no counts ({aggregator['problem']})")
            continue
        counts = [
            f"{form} {outcome} {count}"
            for form in ("lone", "batch")
            for outcome, count in aggregator[form].items()
        ]
        text = ", ".join(counts) or "nothing reported"
        lines.append(f"{aggregator['id']}: {text}, until {aggregator['until']}")
    return [*lines, response["sentence"]]


@round_app.command("refusals")
@at_coordinator
def refusals(client: Client, round_id: RoundId) -> Answer:
    """How many curators refuse a round, by reason; never which."""
    response = client.rounds.refusals(round_id)
    lines = refusal_lines(response) or ["no curator refuses"]
    return Answer(response, lambda: say("\n".join(lines)))


@round_app.command("refused")
@at_coordinator
def refused(client: Client, round_id: RoundId) -> Answer:
    """Which curators of a proved round were refused by their proof, and why; for operators."""
    response = client.rounds.refused_by_proof(round_id)
    return Answer(response, lambda: say("\n".join(refused_lines(response))))


def follow(client: Client, round_id: str) -> None:
    """Show the round's progress on standard error until it ends."""
    states = client.rounds.watch(round_id)
    first = next(states)  # before anything is shown: there may be no such round
    with progress() as bar:
        task = bar.add_task(f"round {first['state']}", total=len(STEPS) - 1)
        for state in chain([first], states):
            if state["state"] == "aborted":
                raise RoundNotReleased("; ".join([state["reason"], *_refused(client, round_id)]))
            step = STEPS.index(state["state"])
            bar.update(task, completed=step, description=f"round {state['state']}")


def _refused(client: Client, round_id: str) -> list[str]:
    """How many refused, by reason, where the caller may see it."""
    try:
        response = client.rounds.refusals(round_id)
    except Problem:
        return []
    return refusal_lines(response)


def _result(client: Client, round_id: str, full: bool) -> Answer:
    response = client.rounds.result(round_id)

    def human() -> None:
        for line in result_lines(response):
            say(line)
        print_report(response["report"], full=full)

    return Answer(response, human)
