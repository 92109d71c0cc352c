"""`tacit keys rotate party`: identities of lone curators and hosts are replaced by command.

Spec: keys, section 5.2. Asked of the curator service that holds their private keys, which makes the
next ones itself: a party commits to none.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from cli.context import Answer, at_curator, fail, progress
from tacit import Client

_LOOK_S: Final = 0.5


@at_curator
def rotate_party(
    client: Client,
    parties: Annotated[
        list[str] | None, typer.Argument(help="Lone curators or hosts; all of them unless named.")
    ] = None,
    overlap_s: Annotated[
        int,
        typer.Option(
            min=600, max=2_592_000, help="How long what the old identity sealed is accepted."
        ),
    ] = 604_800,
    wait_s: Annotated[
        float, typer.Option(min=0, help="How long to wait until every service knows it.")
    ] = 600,
    compromised: Annotated[
        Path | None,
        typer.Option(
            metavar="JOIN_TOKEN",
            help="The old key may be stolen: file with a join token of `enroll token --replaces`.",
        ),
    ] = None,
) -> Answer:
    """Replace identities of the parties of a curator service, while rounds run.

    The same command again replaces them once more; what a crash left goes on by itself.
    """
    if compromised is not None:
        if not parties or len(parties) != 1:
            raise ValueError("name the one party whose key may be stolen")
        found = client.enrol_again(parties[0], compromised.read_text("ascii").strip())
        said = f"{parties[0]} has another identity, and new tokens at every service"
        return Answer(found, lambda: typer.echo(said))
    begun = client.rotate_parties(parties or None, overlap_s=overlap_s)["begun"]
    waiting = _waited(client, wait_s)
    if waiting:
        typer.echo("\n".join(_problem(each) for each in waiting[:10]), err=True)
        fail(f"{len(waiting)} identities wait: the curator service goes on showing them")
    return Answer({"begun": begun}, lambda: typer.echo(f"identities replaced: {begun}"))


def _waited(client: Client, wait_s: float) -> list[dict[str, Any]]:
    ends = time.monotonic() + wait_s
    with progress() as bar:
        waiting = client.waiting_parties()
        task = bar.add_task("replacing identities", total=max(1, len(waiting)))
        while waiting and time.monotonic() < ends:
            time.sleep(_LOOK_S)
            waiting = client.waiting_parties()
            bar.update(task, completed=(bar.tasks[0].total or 0) - len(waiting))
    return waiting


def _problem(found: dict[str, Any]) -> str:
    said = ", ".join(f"{name}: {problem}" for name, problem in sorted(found["problems"].items()))
    return f"{found['party']}: {said or 'not tried yet'}"
