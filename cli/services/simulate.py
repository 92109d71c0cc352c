"""`tacit simulate`: many curators, in process or through services (the soak: `soak`)."""

from __future__ import annotations

import csv
import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from rich import box
from rich.table import Table

from cli.context import Answer, Token, console, errors, fail, printed, say
from cli.formatting import amount
from cli.services.deployment import Deployment, Running, join_token, pair
from cli.services.soak import compared, counted, share_of, soak
from cli.services.up import service_settings
from simulation import populations
from simulation.events import Rates, stream
from simulation.network import Network, Traffic
from simulation.plots import can_draw, draw
from simulation.populations import Population
from simulation.simulated_rounds import Driver, Row, Summary, plot, row
from tacit.field_errors import first_of
from tacit.protocol.enrolment import JoinToken, PartyKind
from tacit.query.query import Query
from tacit.randomness import SeededRandom
from tacit.units import DEFAULT, mismatch
from tacit.wire import format_exact


@printed
def simulate(
    curators: Annotated[int, typer.Option(min=1, help="How many curators.")] = 1000,
    aggregators: Annotated[int, typer.Option(min=1, max=16, help="How many aggregators.")] = 5,
    rounds: Annotated[int, typer.Option(min=1, help="How many rounds.")] = 10,
    mechanism: Annotated[
        str, typer.Option(help="distributed, two-layer, local or exact.")
    ] = "distributed",
    population: Annotated[
        str,
        typer.Option(
            help="normal, households, factories, movielens, or a wide CSV of meters in kWh "
            "(.csv, .gz, .xz)."
        ),
    ] = "normal",
    epsilon: Annotated[
        str, typer.Option(help="Epsilon; two-layer takes 3/4 of it for curators.")
    ] = "10",
    corrupt: Annotated[
        int, typer.Option(min=0, help="Aggregators that are assumed to collude.")
    ] = 0,
    sharing: Annotated[
        str, typer.Option(help="additive or shamir (with the smallest majority).")
    ] = "additive",
    field: Annotated[
        list[str] | None,
        typer.Option("--field", help="Any field of the query, name=value (value may be JSON)."),
    ] = None,
    events: Annotated[
        str,
        typer.Option(
            help="Probabilities per curator and round, such as dropout=0.05,join=0.01: "
            "outside, join, leave, refresh, dropout, straggler, liar, non_compliant; and "
            "straggler_s."
        ),
    ] = "",
    network: Annotated[
        str,
        typer.Option(
            help="Such as loss=0.01,delay_s=0.05: loss, duplicate, reorder, delay_s, hold_s, "
            "retry_s."
        ),
    ] = "",
    seed: Annotated[int, typer.Option(min=0, help="Of everything that is simulated.")] = 1,
    services: Annotated[
        bool, typer.Option("--services", help="Through a deployment that is started for it.")
    ] = False,
    against: Annotated[
        str | None, typer.Option(help="Through the deployment of this coordinator.")
    ] = None,
    token: Token = None,
    join: Annotated[
        str | None,
        typer.Option(help="With --against: a join token for a host of as many curators."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the results as JSON, and plots, into this directory.")
    ] = None,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", help="Write a line for every round into this file.")
    ] = None,
    liars: Annotated[
        str | None,
        typer.Option(
            help="Compare a declared with a proved sum instead, in which this share of the "
            "curators lies, such as 5%."
        ),
    ] = None,
    with_chaos: Annotated[
        bool, typer.Option("--chaos", help="Kill services at random instead; see --kills.")
    ] = False,
    kills: Annotated[int, typer.Option(min=1, help="With --chaos: how many kills.")] = 100,
    seconds: Annotated[
        float | None, typer.Option(min=1, help="With --chaos: stop after this time at the latest.")
    ] = None,
) -> Answer:
    """Sum over many simulated curators and compare with the truth, which a simulation knows.

    In this process a million curators take less than a second a round. With --services or
    --against the same rounds go through real services. --liars shows what lies do to a declared
    and to a proved sum. --chaos kills services during many rounds and checks that nothing was
    lost, summed or debited twice; exit code 1 if it was.
    """
    if liars is not None and (with_chaos or services or against or events or network):
        fail("--liars is in this process: no --services, --against, --events, --network or --chaos")
    if with_chaos:
        return soak(aggregators, kills, seconds, seed, out)
    people = _population(population, curators, SeededRandom(seed))
    changed = [*(field or []), *(["validity=proved"] if liars is not None else [])]
    query = _query(people, aggregators, _noise(mechanism, epsilon), corrupt, sharing, changed)
    if liars is not None:
        return compared(query, people, share_of(liars), rounds, seed + 1, out)
    rates, net = _rates(events), Network(**_pairs(network, Network))
    with _driver(people, query, seed, services, against, token, join) as driver:
        happening = stream(people.curators, rates, SeededRandom(seed + 2))
        where = "services" if services or against is not None else "in process"
        summary = _run(driver, where, query, people, rounds, seed, happening, net)
    if out is not None:
        _write(summary, out)
    if csv_file is not None:
        _write_rows(summary, csv_file)
    return Answer(summary.document(), lambda: _print(summary))


# --- what is asked, of whom ----------------------------------------------------------------------


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
            whole = Fraction(epsilon)
            parts = {
                "epsilon_u": format_exact(whole * 3 / 4),
                "epsilon_s": format_exact(whole / 4),
            }
            return {"mechanism": mechanism, **parts, "pr_u": "1", "pr_s": "1"}
        case "local":
            return {"mechanism": mechanism, "epsilon_i": epsilon, "sharing": "none"}
        case "exact":
            return {"mechanism": mechanism}
    return {"mechanism": mechanism, "epsilon": epsilon}


def _query(
    people: Population,
    aggregators: int,
    noise: dict[str, Any],
    corrupt: int,
    sharing: str,
    changed: Sequence[str],
) -> Query:
    local = noise["mechanism"] == "local"
    given: dict[str, Any] = {
        "name": f"simulated-{people.name}",
        "function": "sum",
        "unit": people.unit,
        "bounds": [format_exact(bound) for bound in people.bounds],
        "max_readings": people.max_readings,
        "resolution": format_exact(people.resolution),
        "sharing": sharing,
        "aggregators": 1 if local else aggregators,
        "collusion": {"curators": 0, "aggregators": corrupt},
        "min_participants": min(2, people.curators),
        "n_max": people.curators,
        "deadline_s": 60,
        **noise,
    }
    if mismatch(DEFAULT, people.unit) is not None:
        given["register"] = "simulated"  # a name outside the catalogue takes any unit
    if given["sharing"] == "shamir":
        given["threshold"] = aggregators // 2 + 1
    for item in changed:
        name, equals, value = item.partition("=")
        if not equals:
            fail(f"--field {item}: give name=value")
        given[name] = _plain(name, value)
    chosen = any(item.startswith("resolution=") for item in changed)
    while True:
        try:
            return Query.model_validate_json(json.dumps(given))
        except ValidationError as error:
            too_fine = [each["loc"] for each in error.errors()] == [("resolution",)]
            if chosen or not too_fine or Fraction(given["resolution"]) > max(people.bounds):
                fail(first_of(error))
            # Coarser than the population's own, where its noise asks for it.
            given["resolution"] = format_exact(10 * Fraction(given["resolution"]))


def _plain(name: str, value: str) -> Any:
    """JSON where it is a list, an object, a whole number or in quotes; a text otherwise. Numbers of
    a field that takes exact amounts are their text."""
    if value[:1] not in ("[", "{", '"') and not value.isdecimal():
        return {"true": True, "false": False, "null": None}.get(value, value)
    known = {each.alias or each_name: each for each_name, each in Query.model_fields.items()}
    exact = name in known and "Fraction" in str(known[name].annotation)
    try:
        return json.loads(value, parse_float=str, parse_int=str if exact else int)
    except ValueError:
        fail(f"--field {name}: {value} is no JSON")


def _rates(text: str) -> Rates:
    return Rates(**_pairs(text, Rates))


def _pairs(text: str, kind: type[Rates] | type[Network]) -> dict[str, float]:
    """name=value,... for the fields of a dataclass."""
    known = {field.name for field in fields(kind)}
    found = {}
    for item in filter(None, text.split(",")):
        name, _, value = item.partition("=")
        if name not in known:
            fail(f"{item}: one of {', '.join(sorted(known))}")
        found[name] = float(value)
    return found


# --- drivers -------------------------------------------------------------------------------------


@contextmanager
def _driver(
    people: Population,
    query: Query,
    seed: int,
    services: bool,
    against: str | None,
    token: str | None,
    join: str | None,
) -> Iterator[Driver]:
    # A curator service comes with them, which takes a while to import.
    from common.runtime.logs import configure_logging
    from simulation.in_process_driver import InProcess
    from simulation.services_driver import Services

    source = SeededRandom(seed + 1)
    if services or against is not None:
        configure_logging("warning")  # the curator service within says what it does
    if against is not None:
        if token is None or join is None:
            fail("--against needs --token (an operator's) and --join (a host's join token)")
        if JoinToken.from_text(join).max_curators < people.curators:
            fail("the join token allows fewer curators than the population has")
        with tempfile.TemporaryDirectory(prefix="tacit-simulate-") as directory:
            yield Services(against, token, join, Path(directory), source, alone=False)
    elif services:
        with _deployment(query.aggregators, exact=query.mechanism == "exact") as running:
            deployment = running.deployment
            host = join_token(deployment, "simulated", PartyKind.HOST, people.curators, 3600)
            yield Services(
                deployment.coordinator.url,
                deployment.coordinator.token,
                host.to_text(),
                deployment.directory / "simulated",
                source,
                cpu_s=lambda: time.process_time() + _services_cpu_s(running),
            )
    else:
        yield InProcess(source)


@contextmanager
def _deployment(aggregators: int, *, exact: bool) -> Iterator[Running]:
    """A coordinator and aggregators of our own; nothing is left of them."""
    directory = Path(tempfile.mkdtemp(prefix="tacit-simulate-"))
    deployment = Deployment.plan(directory, aggregators)
    running = Running(deployment, service_settings(allow_exact=exact))
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


def _services_cpu_s(running: Running) -> float:
    started = (each for each in running.deployment.services if each.id in running.processes)
    return sum(map(running.cpu_s, started))


# --- running and showing -------------------------------------------------------------------------


def _run(
    driver: Driver,
    where: str,
    query: Query,
    people: Population,
    rounds: int,
    seed: int,
    happening: Iterator[Any],
    net: Network,
) -> Summary:
    rows, traffic = [], Traffic()
    with counted("rounds") as bar:
        task = bar.add_task("round", total=rounds)
        for outcome in driver.run(query, people, rounds, happening, net):
            rows.append(row(query, outcome))
            for field in fields(Traffic):
                total = getattr(traffic, field.name) + getattr(outcome.traffic, field.name)
                setattr(traffic, field.name, total)
            bar.update(task, advance=1, description=outcome.state.value)
    return Summary(
        where,
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
        {field.name: getattr(traffic, field.name) for field in fields(Traffic)},
    )


def _print(summary: Summary) -> None:
    shown = Table(
        title=f"{summary.query['mechanism']}, {summary.driver}, amounts in {summary.unit}",
        title_justify="left",
        header_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    counts = ["#", "in sum", "drop-\nouts", "late"]
    for column in [
        *counts,
        "true",
        "released",
        "error",
        "noise",
        "round-\ning",
        "clamp-\ning",
        "absent",
    ]:
        shown.add_column(column, justify="right", no_wrap=True)
    for item in summary.rows:
        absent = [each for each in (item.dropouts, item.late, item.lies) if each is not None]
        shown.add_row(
            str(item.round),
            str(item.participants),
            str(item.dropped),
            str(item.belated),
            amount(item.true or None),
            item.state if item.released is None else amount(item.released),
            amount(item.error),
            amount(item.noise),
            amount(item.rounding),
            amount(item.clamping),
            amount(sum(absent) if absent else None),
        )
    console.print(shown)
    figures = summary.figures()
    say(
        f"{figures['released']} of {figures['rounds']} rounds released; mean absolute error "
        f"{amount(figures['mean_absolute_error'])}, of noise alone "
        f"{amount(figures['mean_absolute_noise'])}, forecast {amount(figures['mean_forecast'])}; "
        f"rounding to {summary.query['resolution']} could add "
        f"{amount(figures['mean_rounding_at_most'])}"
    )
    say(
        "true: of the raw readings of everyone enrolled; error: the sum of noise, rounding, "
        "clamping and absent (curators that dropped out, were late, or lied)"
    )
    say(f"{figures['wall_s']:.2f} s, {figures['cpu_s']:.2f} CPU s")
    for reason in dict.fromkeys(item.reason for item in summary.rows if item.reason):
        say(f"aborted: {reason}")


def _write_rows(summary: Summary, path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(item) for item in summary.rows)


def _write(summary: Summary, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(summary.document(), indent=2) + "\n"
    (out / "simulation.json").write_text(text, encoding="utf-8")
    if can_draw() and any(item.released is not None for item in summary.rows):
        draw(plot(summary), out)
