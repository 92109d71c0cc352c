"""`tacit simulate --chaos` and `--liars`: the soak's processes and its figures, and a declared and
a proved sum over the same liars.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from algorithms.drawing import can_draw
from cli.context import Answer, TextTable, console, errors, fail, progress, say
from cli.formatting import amount
from cli.services.deployment import (
    Deployment,
    Running,
    ServiceAddress,
    free_ports,
    join_token,
    pair,
)
from cli.services.up import service_settings
from simulation import chaos
from simulation.liars import Comparison, Lie, LiedRound, compare, comparison, plot
from simulation.plots import draw
from simulation.populations import Population
from tacit.protocol.enrolment import PartyKind
from tacit.query.query import Query

PERIOD_S = 86_400
HOSTS = 3
CURATORS_PER_HOST = 8
SOAK_SETTINGS: dict[str, dict[str, str]] = {
    "coordinator": {"TACIT_POLL_S": "0.1", "TACIT_PATIENCE_S": "20", "TACIT_LEASE_S": "1.1"},
    "aggregator": {},
    "curator": {
        "TACIT_RETRY_S": "0.3",
        "TACIT_SETTLE_AFTER_S": "1",
        "TACIT_SEND_WINDOW_SHARE": "0.5",
        "TACIT_PREPARE_LEAD_S": "0.1",
        "TACIT_POLICY_EPSILON": "100000000",
        "TACIT_POLICY_DELTA": "1",
    },
}


def counted(subject: str) -> Progress:
    """A bar that also shows how many of how many."""
    words = TextColumn("{task.description}")
    return progress(
        TextColumn(subject), BarColumn(), MofNCompleteColumn(), words, TimeElapsedColumn()
    )


@dataclass(frozen=True)
class _Machines:
    """The services of a soak as processes."""

    running: Running
    services: dict[str, ServiceAddress]

    @property
    def names(self) -> list[str]:
        return list(self.services)

    def kill(self, name: str) -> None:
        process = self.running.processes[name]
        process.kill()
        process.wait()

    def start(self, name: str) -> None:
        self.running.start_one(self.services[name])

    def wait_until_ready(self, name: str) -> None:
        self.running.wait_for(self.services[name])


def soak(
    aggregators: int,
    kills: int,
    seconds: float | None,
    seed: int,
    out: Path,
) -> Answer:
    """Run a soak; what must hold, with exit code 1 if anything does not."""
    if aggregators < 2:
        fail("a soak shares sums among at least two aggregators")
    directory = Path(tempfile.mkdtemp(prefix="tacit-soak-"))
    try:
        document = _soak_in(directory, aggregators, kills, seconds, seed)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    (out / "soak.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return Answer(document, lambda: _print_soak(document), 0 if document["passed"] else 1)


def _soak_in(
    directory: Path, aggregators: int, kills: int, seconds: float | None, seed: int
) -> dict[str, Any]:
    from simulation import chaos_checks

    deployment = Deployment.plan(directory, aggregators)
    hosts = [
        ServiceAddress("curator", name, f"http://127.0.0.1:{port}", str(directory / name))
        for name, port in zip(
            [f"host-{place + 1}" for place in range(HOSTS)], free_ports(HOSTS), strict=True
        )
    ]
    services = {item.id: item for item in (*_shared(deployment), *hosts)}
    settings = service_settings(exact_from=2)
    for kind, changed in SOAK_SETTINGS.items():
        settings[kind] |= changed
    running = Running(deployment, settings)
    machines = _Machines(running, services)
    plan = chaos.Plan(kills, seconds, seed)
    try:
        with errors.status("starting the services"):
            for name in services:
                machines.start(name)
            for name in services:
                machines.wait_until_ready(name)
            pair(deployment)
            site = _site(deployment, hosts)
        soaked = _watched(plan, site, machines)
        with errors.status("asking everybody what happened"):
            answers = asyncio.run(chaos_checks.ask(site))
    finally:
        running.stop()
    aggregator_stores = {
        item.id: Path(item.directory) / "aggregator.db" for item in deployment.aggregators
    }
    host_stores = [Path(item.directory) / "curator.db" for item in hosts]
    evidence = asyncio.run(
        chaos_checks.collect(site, soaked, answers, aggregator_stores, host_stores, PERIOD_S)
    )
    outcomes = chaos_checks.checks(soaked, evidence)
    return chaos_checks.document(plan, soaked, outcomes)


def _shared(deployment: Deployment) -> tuple[ServiceAddress, ...]:
    return (deployment.coordinator, *deployment.aggregators)


def _site(deployment: Deployment, hosts: Sequence[ServiceAddress]) -> chaos.Site:
    """Every host enrolled with its curators."""
    curators = {}
    for host in hosts:
        names = tuple(f"{host.id}-meter-{place}" for place in range(CURATORS_PER_HOST))
        join = join_token(deployment, host.id, PartyKind.HOST, len(names), 3600)
        with host.client() as client:
            client.parties.enrol(join.to_text(), list(names))
            policy = client.policies.get()
            client.policies.set({**policy, "min_participants": 1})
        curators[host.id] = names
    return chaos.Site(
        chaos.Access(deployment.coordinator.url, deployment.coordinator.token),
        {host.id: chaos.Access(host.url, host.token) for host in hosts},
        curators,
        len(deployment.aggregators),
    )


def _watched(plan: chaos.Plan, site: chaos.Site, machines: chaos.Machines) -> chaos.Soak:
    with counted("kills") as bar:
        task = bar.add_task("", total=plan.kills)

        def show(soaked: chaos.Soak) -> None:
            bar.update(task, completed=soaked.killed, description=f"{len(soaked.rounds)} rounds")

        return asyncio.run(chaos.soak(plan, site, machines, show))


def _print_soak(document: dict[str, Any]) -> None:
    killed = ", ".join(f"{name} {count}" for name, count in document["kills"].items())
    say(
        f"{document['killed']} kills in {document['seconds']:.0f} s ({killed}); "
        f"{document['released']} rounds released, {document['aborted']} aborted"
    )
    cells = [[item["name"], f"{item['cases']:,}", _verdict(item)] for item in document["checks"]]
    console.print(TextTable("What must hold", ["statement", "cases", ""], cells))
    for item in document["checks"]:
        for failure in item["failures"][:5]:
            console.print(f"  {item['name']}: {failure}", style="red", highlight=False)


def _verdict(check: dict[str, Any]) -> str:
    if check["passed"]:
        return "holds"
    return "FAILS" if check["failures"] else "not tried"


# `tacit simulate --liars`: a declared and a proved sum over the same liars, side by side.

LARGEST_WRITTEN_OUT = 1e9


def share_of(text: str) -> Fraction:
    """A share as 5% or 0.05; exit code 2 for anything else, and outside of (0, 1]."""
    number, percent, rest = text.partition("%")
    try:
        share = Fraction(number) / (100 if percent else 1)
    except (ValueError, ZeroDivisionError):
        share = Fraction(0)
    if rest or not 0 < share <= 1:
        fail(f"--liars {text}: give a share of the curators, such as 5%")
    return share


def compared(
    query: Query,
    people: Population,
    share: Fraction,
    rounds: int,
    seed: int,
    out: Path,
) -> Answer:
    """Run both rounds as often; JSON and a picture into `out`."""
    rows: list[LiedRound] = []
    with counted("rounds") as bar:
        task = bar.add_task("round", total=rounds)
        for row in compare(query, people, share, rounds, seed):
            rows.append(row)
            bar.update(task, advance=1, description=f"{row.named} named")
    comparison_made = comparison(query, people, share, seed, tuple(rows))
    _write(comparison_made, out)
    return Answer(comparison_made.document(), lambda: _print(comparison_made))


def _write(response: Comparison, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(response.document(), indent=2) + "\n"
    (out / "liars.json").write_text(text, encoding="utf-8")
    if can_draw():
        draw(plot(response), out)


def _print(response: Comparison) -> None:
    curators = response.population["curators"]
    columns = ("round", "true", "declared", "proved", "lied", "named")
    rows = [
        (
            str(row.round),
            _figure(row.true),
            _figure(row.declared),
            _figure(row.proved),
            str(row.told),
            str(row.named),
        )
        for row in response.rows
    ]
    title = f"{response.liars} of {curators} curators lie, amounts in {response.unit}"
    console.print(TextTable(title, columns, rows))
    for lie in Lie:
        lies_told = sum(
            lie_told.told for row in response.rows for lie_told in row.lies if lie_told.lie is lie
        )
        named = sum(
            lie_told.named for row in response.rows for lie_told in row.lies if lie_told.lie is lie
        )
        say(f"{lie.value}: says {response.claims[lie.value]}, {named} of {lies_told} named")
    figures = response.figures()
    declared = amount(figures["mean_absolute_declared_error"])
    proved = amount(figures["mean_absolute_proved_error"])
    say(f"mean absolute error: declared {declared}, proved {proved}")
    say(
        f"lies within the range that passed: {figures['passed']}; each moves the sum by at most "
        f"{amount(response.reach)}"
    )
    if figures["honest_named"]:
        say(f"{figures['honest_named']} honest contributions were refused")
    if any(row.proved is None for row in response.rows):
        say("a proved round of too few honest contributions releases nothing")


def _figure(value: str | None) -> str:
    """A total for a column: to a tenth, so that near ones differ, unless it is enormous."""
    if value is None:
        return "-"
    number = float(Fraction(value))
    return f"{number:.1f}" if abs(number) < LARGEST_WRITTEN_OUT else f"{number:.3g}"
