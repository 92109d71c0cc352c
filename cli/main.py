"""The `tacit` command.

Its modules are imported when a command of theirs is called: the list of commands takes a tenth of
a second, all modules together take two. A test holds each line here equal to the command's own.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Annotated, Any, Final, NoReturn, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from tacit.version import VERSION

os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")  # looking for them takes 20 ms


@dataclass(frozen=True)
class Place:
    """The place of a command (a function of a module in `cli`, or its group `app`) and the first
    line of its help."""

    name: str
    help: str

    def load(self, name: str) -> Any:
        """The command itself."""
        sys.modules.setdefault("httpx._main", cast(ModuleType, None))  # its command line: 30 ms
        module, _, attribute = self.name.rpartition(".")
        attribute_found = getattr(import_module(f"cli.{module}"), attribute)
        if isinstance(attribute_found, typer.Typer):
            command: Any = get_group(attribute_found)
        else:
            alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
            alone.command()(attribute_found)
            command = get_command(alone)
        command.name = name
        return command


COMMANDS: Final = {
    "up": Place("services.up.up", "Run a whole deployment on loopback until you press Ctrl-C."),
    "serve": Place(
        "services.up.serve",
        "Run one service in the foreground, with settings from the environment (TACIT_...).",
    ),
    "health": Place(
        "services.up.health",
        "Whether each service of the deployment is ready; exit code 1 if one is not.",
    ),
    "status": Place(
        "services.status.status",
        ("Services, aggregators, last and next round, and problems; exit code 1 if there is one."),
    ),
    "support-bundle": Place(
        "services.support.support_bundle",
        "Write versions, settings without secrets, status, counts and log lines into one zip file.",
    ),
    "demo": Place(
        "services.demo.demo",
        "Run private rounds on real or generated meter readings and show what they reveal.",
    ),
    "whatif": Place(
        "whatif.whatif",
        "Verified guarantees and expected error of a query, for colluders of your choice.",
    ),
    "console": Place(
        "services.up.browse", "Open the console in a browser. The address signs in once."
    ),
    "simulate": Place(
        "services.simulate.simulate",
        ("Sum over many simulated curators and compare with the truth, known in a simulation."),
    ),
    "algorithms": Place(
        "algorithms.algorithms",
        "The algorithms that run as jobs; for a named one, its parameters and its result.",
    ),
    "backup": Place(
        "services.backup.backup", "Back up a service, running or not, into one sealed file."
    ),
    "restore": Place(
        "services.backup.restore",
        "Put a backup in the place of a stopped service's state, whole or not at all.",
    ),
    "recover": Place(
        "recover.recover_path", "Recover a published path from the map that it was made of."
    ),
    "recipient-key": Place(
        "services.sealed_files.recipient_key",
        "Make a key pair for backups and sealed paths.",
    ),
    "attack-path": Place(
        "recover.attack_path",
        "What an adversary finds who knows the map and all but one step of the path.",
    ),
    "enroll": Place("participants.enroll_app", "Join tokens, and enrolling with them."),
    "readings": Place("curator_data.readings_app", "Readings of your own curators."),
    "items": Place("curator_data.items_app", "Sequences and sets of items of your own curators."),
    "records": Place("curator_data.records_app", "Tables of records of your own curators."),
    "query": Place("rounds.query_app", "What is asked: immutable queries."),
    "round": Place("rounds.round_app", "Rounds of a query, and their results."),
    "budget": Place("budget.app", "The privacy budget: bounds, limits, events, forecast."),
    "group": Place("participants.group_app", "Groups: sets of curators that a query may sum."),
    "dataset": Place("datasets.app", "Datasets that the coordinator stores for jobs."),
    "job": Place("jobs.app", "Algorithms on stored data or over curators."),
    "report": Place("report_export.app", "Privacy reports as evidence that others can cite."),
    "audit": Place(
        "audit.app", "Who may pollute sums: proposals that change nothing by themselves."
    ),
    "policy": Place("policy.app", "What curators agree to: limits, mechanisms, algorithms."),
    "token": Place("participants.token_app", "API tokens of a service: make, list, revoke."),
    "trust": Place(
        "trust.trust_app", "Identities obtained out of band, which a verification pins."
    ),
    "notifications": Place(
        "services.status.notifications_app",
        "Messages about what needs an operator, by webhook and e-mail.",
    ),
    "anchors": Place("trust.anchors_app", "One line that identifies all services, for comparison."),
    "keys": Place("keys.app", "Identities, their fingerprints, and rotation of keys."),
    "pair": Place("trust.pair_app", "Pair aggregators with their coordinator, and pin others."),
    "config": Place("services.config.app", "Settings of a service."),
}


class Commands(TyperGroup):
    """The group of all commands, each known by its help until it is called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {name: _listed(name, place.help) for name, place in COMMANDS.items()}

    def loaded(self) -> dict[str, Any]:
        """All commands themselves, by name."""
        return {name: place.load(name) for name, place in COMMANDS.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that the arguments name."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if name is None else COMMANDS[name].load(name), rest


def _listed(name: str, text: str) -> TyperCommand:
    return TyperCommand(name, help=text)


def _show_version(show_version: bool) -> None:
    if show_version:
        typer.echo(f"tacit {VERSION}")
        raise typer.Exit


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def tacit(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Private sums over many data holders, with privacy statements that are true."""


def main() -> None:
    """Entry point of the command. On SIGTERM, or when its terminal closes, it also ends the
    services that it started."""
    signal.signal(signal.SIGTERM, _end)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as `nohup` has it
        signal.signal(signal.SIGHUP, _end)
    app()


def _end(number: int, _: object) -> NoReturn:
    sys.exit(128 + number)


if __name__ == "__main__":
    main()
