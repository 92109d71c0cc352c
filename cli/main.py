"""The `tacit` command."""

from __future__ import annotations

import signal
import sys
from typing import NoReturn

import typer

from cli import (
    algorithms,
    audit,
    backup,
    budget,
    config,
    datasets,
    demo,
    enroll,
    groups,
    jobs,
    keys,
    pairing,
    policy,
    queries,
    readings,
    recipients,
    recover,
    reproduce,
    rounds,
    simulate,
    tokens,
    trust,
    up,
    whatif,
)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Private sums over many data holders, with privacy statements that are true.",
)
app.command("up")(up.up)
app.command("serve")(up.serve)
app.command("health")(up.health)
app.command("demo")(demo.demo)
app.command("whatif")(whatif.whatif)
app.command("reproduce")(reproduce.reproduce)
app.command("simulate")(simulate.simulate)
app.command("algorithms")(algorithms.algorithms)
app.command("backup")(backup.backup)
app.command("restore")(backup.restore)
app.command("recover")(recover.recover_path)
app.command("recipient-key")(recipients.recipient_key)
app.command("attack-path")(recover.attack_path)
app.add_typer(enroll.app, name="enroll")
app.add_typer(readings.app, name="readings")
app.add_typer(queries.app, name="query")
app.add_typer(rounds.app, name="round")
app.add_typer(budget.app, name="budget")
app.add_typer(groups.app, name="group")
app.add_typer(datasets.app, name="dataset")
app.add_typer(jobs.app, name="job")
app.add_typer(audit.app, name="audit")
app.add_typer(policy.app, name="policy")
app.add_typer(tokens.app, name="token")
app.add_typer(trust.app, name="trust")
app.add_typer(keys.app, name="keys")
app.add_typer(pairing.app, name="pair")
app.add_typer(config.app, name="config")


def main() -> None:
    """Entry point of the command. Told to end, it ends the services that it started, too."""
    signal.signal(signal.SIGTERM, _end)
    app()


def _end(number: int, _: object) -> NoReturn:
    sys.exit(128 + number)


if __name__ == "__main__":
    main()
