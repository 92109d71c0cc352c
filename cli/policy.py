"""`tacit policy`: what the curators of a curator service agree to, for all and for single ones; and
how they stop."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.markup import escape

from cli.context import (
    DEFAULT_HOME,
    Answer,
    AsJson,
    Home,
    Target,
    Token,
    Url,
    at_curator,
    plain_errors,
    tabled,
)
from cli.policy_changes import changed, differences, flat, policy_of
from tacit import Client
from tacit.client.exchange import Json

app = typer.Typer(
    no_args_is_help=True, help="What curators agree to: limits, mechanisms, algorithms."
)

Curator = Annotated[
    str | None, typer.Option("--curator", help="Of one curator, instead of all of the process.")
]


@app.command("show")
@at_curator
def show_policy(client: Client, curator: Curator = None) -> Answer:
    """The default policy of a curator service, or the one that holds for a curator."""
    found = client.policy(curator)
    rows = [[name, escape(value)] for name, value in flat(policy_of(found)).items()]
    title = "The default policy" if curator is None else f"The policy of {curator}"
    return tabled(found, title, ["field", "value"], rows)


@app.command("set")
def set_policy(
    changes: Annotated[
        list[str],
        typer.Argument(
            metavar="CHANGE",
            help="name=value (lists with commas, `none` for no limit), a JSON file, or JSON; "
            "what is not named stays.",
        ),
    ],
    curator: Curator = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change, and send nothing.")
    ] = False,
    home: Home = DEFAULT_HOME,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Change a policy; it holds from the next contribution on. What changes is shown first.

    Example: `tacit policy set record.period.epsilon=2.5 algorithms=kmeans,crowd-tasking`
    """
    with plain_errors(), Target(home, url, token).curator() as client:
        old = policy_of(client.policy(curator))
        new = changed(old, changes)
        found = differences(old, new)
        if not as_json:
            for item in found:
                typer.echo(f"{item.name}: {item.old} -> {item.new}")
        sent = bool(found) and not dry_run
        policy = new.model_dump(mode="json", exclude_none=True)
        if sent:
            policy = client.set_policy(policy, curator=curator)
    said = "nothing changes" if not found else "it is set" if sent else "nothing was sent"
    if sent and curator is not None:
        said += f"; `tacit policy drop {curator}` lets the default hold again"
    document = {"changes": [asdict(item) for item in found], "sent": sent, "policy": policy}
    Answer(document, lambda: typer.echo(said)).show(as_json)


@app.command("try")
@at_curator
def try_policy(
    client: Client,
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CHANGE]...", help="As for `tacit policy set`; none: as it is."),
    ] = None,
    curator: Curator = None,
) -> Answer:
    """Which rounds of the last 30 days would have been answered with these changes."""
    asked = changed(policy_of(client.policy(curator)), changes or [])
    policy = asked.model_dump(mode="json", exclude_none=True)
    found = client.preview_policy(policy, curator=curator)

    def human() -> None:
        typer.echo(
            f"rounds since {found['since']}: {found['rounds']}, of which "
            f"{found['answered']} would have been answered"
        )
        for name, count in found["refused"].items():
            typer.echo(f"  {count} refused: {name}")

    return Answer(found, human)


@app.command("drop")
def drop(
    curator: Annotated[str, typer.Argument(help="Id of the curator.")],
    home: Home = DEFAULT_HOME,
    url: Url = None,
    token: Token = None,
) -> None:
    """Delete your override of a curator's policy."""
    with plain_errors(), Target(home, url, token).curator() as client:
        client.drop_policy(curator)
    typer.echo(f"the default policy holds for {curator}")


@app.command("stop")
@at_curator
def stop(client: Client, curator: Curator = None) -> Answer:
    """Take part in nothing more: no round and no job, until started again. Readings are still
    collected; what was sent before cannot be called back."""
    return _stops(client.stop(curator), curator)


@app.command("start")
@at_curator
def start(client: Client, curator: Curator = None) -> Answer:
    """Resume. Removes your stop; stops set by others stay."""
    return _stops(client.start_again(curator), curator)


@app.command("stops")
@at_curator
def stops(client: Client, curator: Curator = None) -> Answer:
    """Whether curators take part in nothing, and who stopped them since when."""
    return _stops(client.stops(curator), curator)


def _stops(found: Json, curator: str | None) -> Answer:
    whose = "all curators of this process" if curator is None else curator
    by = {"process": found["since"]} if curator is None else found["by"]
    since = ", ".join(f"{who} since {at}" for who, at in by.items() if at is not None)
    said = f"{whose}: stopped ({since})" if found["stopped"] else f"{whose}: not stopped"
    return Answer(found, lambda: typer.echo(said))
