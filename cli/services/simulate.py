"""`tacit simulate`: many curators, in process or through services (the soak: `soak`)."""

from __future__ import annotations

import csv
import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from algorithms.drawing import can_draw
from cli.context import Answer, TextTable, Token, console, errors, fail, printed, say
from cli.formatting import amount
from cli.services.deployment import Deployment, Running, join_token, pair
from cli.services.soak import compared, counted, share_of, soak
from cli.services.up import service_settings
from simulation import populations
from simulation.network import Network, Traffic
from simulation.plots import draw
from simulation.populations import Population, Rates, stream
from simulation.simulated_rounds import CAUSES, Driver, Row, Summary, plot, row
from tacit.protocol.enrolment import JoinToken, PartyKind
from tacit.query.query import Query
from tacit.randomness import SeededRandom
from tacit.units import DEFAULT, mismatch
from tacit.wire import first_of, format_exact


@dataclass(frozen=True)
class Simulation:
    """What is simulated: the options that also apply to --liars and --chaos."""

    curators: Annotated[int, typer.Option(min=1, help="How many curators.")] = 1000
    aggregators: Annotated[int, typer.Option(min=1, max=16, help="How many aggregators.")] = 5
    rounds: Annotated[int, typer.Option(min=1, help="How many rounds.")] = 10
    mechanism: Annotated[str, typer.Option(help="distributed, two-layer, local or exact.")] = (
        "distributed"
    )
    population: Annotated[
        str,
        typer.Option(
            help="normal, households, factories, movielens, or a wide CSV of meters in kWh "
            "(.csv, .gz, .xz)."
        ),
    ] = "normal"
    epsilon: Annotated[
        str, typer.Option(help="Epsilon; two-layer takes 3/4 of it for curators.")
    ] = "10"
    corrupt: Annotated[
        int, typer.Option(min=0, help="Aggregators that are assumed to collude.")
    ] = 0
    sharing: Annotated[
        str, typer.Option(help="additive or shamir (with the smallest majority).")
    ] = "additive"
    field: Annotated[
        list[str] | None,
        typer.Option("--field", help="Any field of the query, name=value (value may be JSON)."),
    ] = None
    events: Annotated[
        str,
        typer.Option(
            help="Probabilities per curator and round, such as dropout=0.05,join=0.01: "
            "outside, join, leave, refresh, dropout, straggler, liar, non_compliant; and "
            "straggler_s."
        ),
    ] = ""
    network: Annotated[
        str,
        typer.Option(
            help="Such as loss=0.01,delay_s=0.05: loss, duplicate, reorder, delay_s, hold_s, "
            "retry_s."
        ),
    ] = ""
    seed: Annotated[int, typer.Option(min=0, help="Seed of the whole simulation.")] = 1


@dataclass(frozen=True)
class Deployed:
    """Where the rounds run: in this process, or through real services."""

    services: Annotated[
        bool, typer.Option("--services", help="Through services that are started for it.")
    ] = False
    against: Annotated[
        str | None, typer.Option(help="Through the deployment of this coordinator.")
    ] = None
    token: Token = None
    join: Annotated[
        str | None,
        typer.Option(help="With --against: a join token for a host of this many curators."),
    ] = None

    @property
    def real(self) -> bool:
        """Whether there are services."""
        return self.services or self.against is not None


@dataclass(frozen=True)
class Instead:
    """What --liars and --chaos do in place of the plain rounds."""

    liars: Annotated[
        str | None,
        typer.Option(
            help="Compare a declared with a proved sum instead; this share of the curators "
            "lies, such as 5%."
        ),
    ] = None
    chaos: Annotated[
        bool, typer.Option("--chaos", help="Kill services at random instead; see --kills.")
    ] = False
    kills: Annotated[int, typer.Option(min=1, help="With --chaos: how many kills.")] = 100
    seconds: Annotated[
        float | None, typer.Option(min=1, help="With --chaos: stop after this time at the latest.")
    ] = None


@printed
def simulate(
    simulation: Simulation,
    deployed: Deployed,
    out: Annotated[
        Path, typer.Option(help="A directory for a line of each round (CSV), JSON and a plot.")
    ] = Path("simulation"),
    *,
    instead: Instead,
) -> Answer:
    """Sum over many simulated curators and compare with the truth, known in a simulation.

    In this process a million curators take less than a second a round. With --services or
    --against the same rounds go through real services. --liars shows how lies change a declared
    and a proved sum. --chaos kills services during many rounds and checks that nothing was
    lost, summed or debited twice; exit code 1 if it was.
    """
    seed = simulation.seed
    if instead.liars is not None and (
        instead.chaos or deployed.real or simulation.events or simulation.network
    ):
        fail("--liars is in this process: no --services, --against, --events, --network or --chaos")
    if instead.chaos:
        return soak(simulation.aggregators, instead.kills, instead.seconds, seed, out)
    people = _population(simulation.population, simulation.curators, SeededRandom(seed))
    changed = [
        *(simulation.field or []),
        *(["validity=proved"] if instead.liars is not None else []),
    ]
    query = _query(people, simulation, changed)
    if instead.liars is not None:
        return compared(query, people, share_of(instead.liars), simulation.rounds, seed + 1, out)
    rates = Rates(**_pairs(simulation.events, Rates))
    network = Network(**_pairs(simulation.network, Network))
    happening = stream(people.curators, rates, SeededRandom(seed + 2))
    rows, traffic = [], Traffic()
    with (
        _driver(people, query, seed, deployed) as driver,
        counted("rounds") as bar,
    ):
        task = bar.add_task(f"preparing {people.curators:,} curators", total=simulation.rounds)
        for outcome in driver.run(query, people, simulation.rounds, happening, network):
            rows.append(row(query, outcome))
            traffic = traffic.plus(outcome.traffic)
            bar.update(task, advance=1, description=outcome.state.value)
    summary = Summary(
        "services" if deployed.real else "in process",
        json.loads(query.canonical()),
        {
            "name": people.name,
            "curators": people.curators,
            "readings": int(people.counts.sum()),
            "provenance": people.provenance,
        },
        query.unit,
        seed,
        tuple(rows),
        asdict(traffic),
    )
    written = _write(summary, out)
    return Answer(summary.document(), lambda: _print(summary, written))


# --- the population and the query ----------------------------------------------------------------


def _population(name: str, curators: int, source: SeededRandom) -> Population:
    match name:
        case "normal":
            return populations.normal_records(curators, source)
        case "households":
            return populations.household_loads(curators, 1, source)
        case "factories":
            return populations.factory_loads(curators, 1, source)
        case "movielens":
            return populations.movielens(populations.shared_data(), source)
    path = Path(name)
    if not path.exists():
        fail(f"no population {name!r}: normal, households, factories, movielens, or a file")
    bounds = (Fraction(0), Fraction(5))
    return populations.read_csv(path, unit="kWh", bounds=bounds, resolution=Fraction(1, 1000))


def _noise(mechanism: str, epsilon: str) -> dict[str, Any]:
    """The fields of a mechanism; of two-layer, epsilon split as in the thesis, section 4.3."""
    match mechanism:
        case "two-layer":
            total = Fraction(epsilon)
            parts = {
                "epsilon_u": format_exact(total * 3 / 4),
                "epsilon_s": format_exact(total / 4),
            }
            return {"mechanism": mechanism, **parts, "pr_u": "1", "pr_s": "1"}
        case "local":
            return {"mechanism": mechanism, "epsilon_i": epsilon, "sharing": "none"}
        case "exact":
            return {"mechanism": mechanism, "rule": {"min_participants": 2}}
    return {"mechanism": mechanism, "epsilon": epsilon}


def _query(people: Population, simulation: Simulation, changed: Sequence[str]) -> Query:
    noise, sharing = _noise(simulation.mechanism, simulation.epsilon), simulation.sharing
    local = noise["mechanism"] == "local"
    document: dict[str, Any] = {
        "name": f"simulated-{people.name}",
        "function": "sum",
        "unit": people.unit,
        "bounds": [format_exact(bound) for bound in people.bounds],
        "max_readings": people.max_readings,
        "resolution": format_exact(people.resolution),
        "sharing": sharing,
        "aggregators": 1 if local else simulation.aggregators,
        "collusion": {"curators": 0, "aggregators": simulation.corrupt},
        "min_participants": min(2, people.curators),
        "n_max": people.curators,
        "deadline_s": 60,
        **noise,
    }
    if mismatch(DEFAULT, people.unit) is not None:
        document["register"] = "simulated"  # a name outside the catalogue takes any unit
    if document["sharing"] == "shamir":
        document["threshold"] = simulation.aggregators // 2 + 1
    for item in changed:
        name, equals, value = item.partition("=")
        if not equals:
            fail(f"--field {item}: give name=value")
        document[name] = _plain(name, value)
    chosen = any(item.startswith("resolution=") for item in changed)
    while True:
        try:
            return Query.model_validate_json(json.dumps(document))
        except ValidationError as error:
            too_fine = [item["loc"] for item in error.errors()] == [("resolution",)]
            if chosen or not too_fine or Fraction(document["resolution"]) > max(people.bounds):
                fail(first_of(error))
            # The noise needs a coarser resolution than the population's own.
            document["resolution"] = format_exact(10 * Fraction(document["resolution"]))


def _plain(name: str, value: str) -> Any:
    """A list, an object, a whole number or a quoted text is parsed as JSON; anything else is a
    text. Numbers in a field of exact amounts stay texts."""
    if value[:1] not in ("[", "{", '"') and not value.isdecimal():
        return {"true": True, "false": False, "null": None}.get(value, value)
    model = {field.alias or key: field for key, field in Query.model_fields.items()}
    exact = name in model and "Fraction" in str(model[name].annotation)
    try:
        return json.loads(value, parse_float=str, parse_int=str if exact else int)
    except ValueError:
        fail(f"--field {name}: {value} is not JSON")


def _pairs(text: str, kind: type[Rates] | type[Network]) -> dict[str, float]:
    """name=value,... for the fields of a dataclass."""
    names = {field.name for field in fields(kind)}
    values = {}
    for item in filter(None, text.split(",")):
        name, _, value = item.partition("=")
        if name not in names:
            fail(f"{item}: one of {', '.join(sorted(names))}")
        values[name] = float(value)
    return values


# --- drivers -------------------------------------------------------------------------------------


@contextmanager
def _driver(people: Population, query: Query, seed: int, deployed: Deployed) -> Iterator[Driver]:
    # Both import a curator service, which takes a while.
    from common.runtime.logs import configure_logging
    from simulation.in_process_driver import InProcess
    from simulation.services_driver import Services

    source = SeededRandom(seed + 1)
    token, join = deployed.token, deployed.join
    if deployed.real:
        configure_logging("warning")  # the curator service in this process logs every step
    if deployed.against is not None:
        if token is None or join is None:
            fail("--against needs --token (an operator's) and --join (a host's join token)")
        if JoinToken.from_text(join).max_curators < people.curators:
            fail("the join token allows fewer curators than the population has")
        with tempfile.TemporaryDirectory(prefix="tacit-simulate-") as directory:
            yield Services(deployed.against, token, join, Path(directory), source, alone=False)
    elif deployed.services:
        with _deployment(
            query.aggregators,
            exact_from=None if query.rule is None else query.rule.min_participants,
        ) as running:
            deployment = running.deployment
            host = join_token(deployment, "simulated", PartyKind.HOST, people.curators, 3600)
            yield Services(
                deployment.coordinator.url,
                deployment.coordinator.token,
                host.to_text(),
                deployment.directory / "simulated",
                source,
                cpu_s=lambda: (
                    time.process_time()
                    + sum(
                        running.cpu_s(service)
                        for service in deployment.services
                        if service.id in running.processes
                    )
                ),
            )
    else:
        yield InProcess(source)


@contextmanager
def _deployment(aggregators: int, *, exact_from: int | None) -> Iterator[Running]:
    """A coordinator and aggregators for this simulation; their directory is deleted afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="tacit-simulate-"))
    deployment = Deployment.plan(directory, aggregators)
    running = Running(deployment, service_settings(exact_from=exact_from))
    needed = (deployment.coordinator, *deployment.aggregators)
    try:
        with errors.status("starting the services"):
            for service in needed:
                running.start_one(service)
            for service in needed:
                running.wait_for(service)
            pair(deployment)
        yield running
    finally:
        running.stop()
        shutil.rmtree(directory, ignore_errors=True)


# --- output ------------------------------------------------------------------------------------


def _print(summary: Summary, written: Sequence[Path]) -> None:
    columns = ["#", "in sum", "out", "late", "lie", "refused", "true", "released", "error"]
    rows = [
        [
            str(item.round),
            str(item.participants),
            str(item.dropped),
            str(item.belated),
            str(item.liars),
            str(item.refused),
            amount(item.true or None),
            item.state if item.released is None else amount(item.released),
            amount(item.error),
        ]
        for item in summary.rows
    ]
    title = f"{summary.query['mechanism']}, {summary.driver}, amounts in {summary.unit}"
    console.print(TextTable(title, columns, rows))
    figures = summary.figures()
    causes = ", ".join(f"{cause} {amount(figures[f'mean_absolute_{cause}'])}" for cause in CAUSES)
    say(
        f"{figures['released']} of {figures['rounds']} rounds released; mean absolute error "
        f"{amount(figures['mean_absolute_error'])}, of {causes}; forecast of noise "
        f"{amount(figures['mean_forecast'])}; rounding to {summary.query['resolution']} could add "
        f"{amount(figures['mean_rounding_at_most'])}"
    )
    say(
        "true: of the raw readings of everyone enrolled; error: the sum of its causes; out: "
        "dropped out; late: too late for the sum; lie: sent the most that passes; refused: by "
        "their proof"
    )
    say(f"{figures['wall_s']:.2f} s, {figures['cpu_s']:.2f} CPU s")
    for reason in dict.fromkeys(item.reason for item in summary.rows if item.reason):
        say(f"aborted: {reason}")
    say(f"written: {', '.join(map(str, written))}")


def _write(summary: Summary, out: Path) -> list[Path]:
    """Write the summary as JSON, its rows as CSV, and a plot of what was released."""
    out.mkdir(parents=True, exist_ok=True)
    document, table = out / "simulation.json", out / "simulation.csv"
    document.write_text(json.dumps(summary.document(), indent=2) + "\n", encoding="utf-8")
    with table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(item) for item in summary.rows)
    drawn = can_draw() and any(item.released is not None for item in summary.rows)
    return [document, table, *(draw(plot(summary), out) if drawn else ())]
