"""`tacit notifications`: the messages about what needs an operator."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any

import typer

from cli.context import Answer, TextTable, at_coordinator, console, say
from tacit import Client

app = typer.Typer(
    no_args_is_help=True,
    help="Messages about what needs an operator, by webhook and e-mail.",
)


@app.command("test")
@at_coordinator
def test(client: Client) -> Answer:
    """Send a message to every outlet now; exit code 1 if one did not take it."""
    found = client.notifications.send_test()
    failed = [each for each in found["deliveries"] if each["delivered"] is None]
    lines = [f"{each['outlet']}: {_outcome(each)}" for each in found["deliveries"]]
    return Answer(found, lambda: say("\n".join(lines), markup=False), 1 if failed else 0)


@app.command("list")
@at_coordinator
def list_notifications(
    client: Client,
    limit: Annotated[int, typer.Option(min=1, help="How many, from the newest.")] = 20,
) -> Answer:
    """What needed an operator, the newest first, and what became of each message."""
    found = [dict(each) for each in islice(client.notifications.list(), limit)]
    rows = [
        [
            each["began"],
            each["ended"] or "lasts",
            each["sentence"],
            "; ".join(
                f"{sent['outlet']} {sent['event']}: {_outcome(sent)}" for sent in each["deliveries"]
            ),
        ]
        for each in found
    ]
    table = TextTable("Notifications", ["began", "ended", "what", "messages"], rows)
    return Answer(found, lambda: console.print(table))


def _outcome(delivery: Any) -> str:
    if delivery["delivered"] is not None:
        return "delivered"
    state = "given up" if delivery["due"] is None else f"next attempt {delivery['due']}"
    return f"{delivery['problem'] or 'not tried yet'} ({state})"
