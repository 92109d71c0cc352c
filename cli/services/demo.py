"""`tacit demo`: starts a deployment, runs private rounds on meter readings, and removes everything.

One round of an hour of readings through real services; prints the result and what stayed private.
With --full four rounds over the same hour: `two-layer` (sound), `distributed`, `local`, and
`two-layer` in the paper stance with the thesis's probabilities (last, since a round without a
verified figure makes every lifetime total infinite). For each: the released total, the error that
was forecast, what is verified for each collusion scenario, what the source would have claimed, and,
because this is a demonstration on data at hand, the true total.
"""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import numpy as np
import typer
from numpy.typing import NDArray

from cli.budget import print_budget
from cli.context import DEFAULT_HOME, Target, TextTable, console, errors, plain_errors, say
from cli.formatting import amount, guarantee
from cli.meter_file import MeterFile
from cli.services.deployment import Deployment, Running, join_token, pair, why_not_ready
from cli.services.up import alone_in, plan, service_settings
from simulation.populations import household_load
from tacit.accounting.scenarios import Scenario
from tacit.answers import base as api
from tacit.protocol.enrolment import PartyKind
from tacit.randomness import SeededRandom
from tacit.report import text as briefs
from tacit.report.figures import of_a_hundred
from tacit.report.model import VerifiedStatement
from tacit.wire import format_instant

START = datetime(2025, 10, 27, tzinfo=UTC)
STEP_S = 900
DAYS = 2
HOUR = 24 + 18
AGGREGATORS = 5
BOUND_KWH = 2
METERS = 1000
MIN_METERS = 10
MIN_PARTICIPANTS = 100
COMMON: dict[str, Any] = {
    "function": "sum",
    "unit": "kWh",
    "bounds": ["0", str(BOUND_KWH)],
    "max_readings": 4,
    "resolution": "0.001",
    "privacy_unit": "curator",
    "sharing": "additive",
    "n_max": 100_000,
    "deadline_s": 60,
}
FIRST_EPSILON = "0.5"
"""Of the round that is shown alone: a curator's day (`TACIT_POLICY_EPSILON`) has room for two."""
EACH_EPSILON = "0.25"
"""Of each sound round of `--full`: together they fit into a day."""


Show: TypeAlias = Callable[[Deployment, MeterFile, Path | None], None]


@dataclass(frozen=True)
class Act:
    """One round of the demonstration."""

    title: str
    query: dict[str, Any]


def distributed(aggregators: int, meters: int, epsilon: str = FIRST_EPSILON) -> Act:
    """The round that is shown by itself, for this many aggregators and meters. With 1,000 its
    error is about 2 % of the total."""
    return Act(
        "distributed: the aggregators' noise shares add up; one honest one is enough",
        {
            **COMMON,
            "min_participants": min(MIN_PARTICIPANTS, meters),
            "aggregators": aggregators,
            "collusion": {"curators": 0, "aggregators": aggregators - 1},
            "mechanism": "distributed",
            "epsilon": epsilon,
            "layer": "aggregator",
        },
    )


def acts(aggregators: int, meters: int) -> tuple[Act, ...]:
    """All rounds, for this many aggregators and meters."""
    smallest = min(MIN_PARTICIPANTS, meters)
    common = {**COMMON, "aggregators": aggregators, "min_participants": smallest}
    all_but_one = {"collusion": {"curators": 0, "aggregators": aggregators - 1}}
    return (
        Act(
            "two-layer (sound): every curator and every aggregator adds noise",
            {
                **common,
                "mechanism": "two-layer",
                "epsilon_u": "0.75",
                "epsilon_s": EACH_EPSILON,
                "pr_u": "1",
                "pr_s": "1",
                **all_but_one,
            },
        ),
        distributed(aggregators, meters, EACH_EPSILON),
        Act(
            "local: each curator adds its own noise and trusts nobody",
            {
                **common,
                "mechanism": "local",
                "epsilon_i": EACH_EPSILON,
                "sharing": "none",
                "aggregators": 1,
            },
        ),
        Act(
            "two-layer (paper): the thesis's probabilities, as its Figure 4.4 has them",
            {
                **common,
                "mechanism": "two-layer",
                "epsilon_u": "7.5",
                "epsilon_s": "2.5",
                "stance": "paper",
                "pr_u": "0.0001",
                "pr_s": "0.01",
            },
        ),
    )


def demo(
    data: Annotated[
        Path | None,
        typer.Option(help="Wide CSV of meters (.csv, .gz, .xz): an id, then kWh per 15 minutes."),
    ] = None,
    home: Annotated[
        Path | None, typer.Option(help="Keep the deployment's data here instead of removing it.")
    ] = None,
    at: Annotated[
        Path | None,
        typer.Option(help="Directory with deployment.json of services that run: uses those."),
    ] = None,
    full: Annotated[
        bool, typer.Option(help="Four mechanisms, with budget, claims and tables.")
    ] = False,
) -> None:
    """Run private rounds on real or generated meter readings and show what they reveal."""
    show = _show_rounds if full else _show_first
    with plain_errors():
        if at is not None:
            with tempfile.TemporaryDirectory(prefix="tacit-demo-") as scratch:
                deployment = Target(at).deployment()
                _require_paired(deployment)
                show(deployment, _file(data, Path(scratch)), data)
            return
        directory = home or Path(tempfile.mkdtemp(prefix="tacit-demo-"))
        try:
            with alone_in(directory):
                _run(directory, data, show)
        finally:
            if home is None:
                shutil.rmtree(directory, ignore_errors=True)
    say("\n".join(_next_lines(home or DEFAULT_HOME, full=full)))


def _require_paired(deployment: Deployment) -> None:
    """Raises RuntimeError that says what is missing before a round can run."""
    for service in deployment.services:
        if (reason := why_not_ready(service)) is not None:
            raise RuntimeError(reason)
    with deployment.coordinator.client() as client:
        paired = {item["id"] for item in client.aggregators.list()}
    missing = [item.id for item in deployment.aggregators if item.id not in paired]
    if missing:
        raise RuntimeError(
            f"the coordinator is not paired with {', '.join(missing)}: pair first, by `tacit pair "
            "all`; with compose, wait until the service pairing has ended"
        )


def _next_lines(home: Path, *, full: bool) -> list[str]:
    """What to do next; the services of the demonstration have ended."""
    home_option = f" --home {home}"
    return [
        "Nothing is left running. Next:",
        *([] if full else ["  tacit demo --full           the same hour by four mechanisms"]),
        f"  tacit demo{home_option}, then tacit up{home_option}",
        f"{'':30}a deployment that stays, with these rounds;",
        f"{'':30}then tacit console{home_option} shows them in a browser",
        "  docs/tutorial/first-private-sum.md",
    ]


def _run(directory: Path, data: Path | None, show: Show) -> None:
    started = time.monotonic()
    file = _file(data, directory)
    deployment = plan(directory, AGGREGATORS)
    running = Running(deployment, service_settings())
    try:
        with errors.status(f"starting a coordinator, {AGGREGATORS} aggregators and a curator host"):
            running.start()
            pair(deployment)
        show(deployment, file, data)
    finally:
        with errors.status("stopping the services"):
            running.stop()
    say(f"{time.monotonic() - started:.0f} s in total")


def _file(data: Path | None, scratch: Path) -> MeterFile:
    """The meters of the demonstration. Raises ValueError for a file with too few."""
    path = data or _generate(scratch)
    file = MeterFile(path, format_instant(START), STEP_S, "kWh", "energy_import")
    needed, meters = HOUR * 4 + 4, file.meters()
    intervals = min((len(row) - 1 for row in islice(file.rows(), 1, None)), default=0)
    if len(meters) < MIN_METERS or intervals < needed:
        raise ValueError(
            f"{path.name}: has {len(meters)} meters with {intervals} values each; the demo takes "
            f"at least {MIN_METERS} meters of {needed}: a header, then a row each, an id and kWh "
            "for every 15 minutes"
        )
    window = file.values(DAYS)[:, HOUR * 4 : needed]
    if np.isnan(window).all(axis=1).sum() > len(meters) - MIN_METERS:
        raise ValueError(
            f"{path.name}: fewer than {MIN_METERS} meters have a number in the columns "
            f"{HOUR * 4 + 2} to {needed + 1}, which the demo sums"
        )
    return file


def _show_first(deployment: Deployment, file: MeterFile, data: Path | None) -> None:
    """Import the meters into a running deployment, and show one round in words."""
    truth = _truth(file)
    _feed(deployment, file)
    source = data.name if data else "generated"
    with errors.status("a round"):
        act = distributed(len(deployment.aggregators), len(file.meters()))
        performed = _perform(deployment, act)
    for line in brief(performed, truth, len(deployment.aggregators), source):
        say(line, markup=False)


def brief(performed: Performed, truth: Truth, aggregators: int, source: str) -> list[str]:
    """One round in words: the query, the result, what stayed private, what was checked."""
    round_found = performed.found
    released, count = float(round_found["result"]["sum"]), round_found["participants"]
    error = float(Fraction(round_found["report"]["error"]["parts"][0]["mean_absolute"]))
    off = abs(released - truth.raw_kwh)
    statement = _with_all_but_one(round_found["report"])
    epsilon = Fraction(statement.epsilon or "0")
    matches = "they add up to" if performed.checked["matches"] else "THEY DO NOT ADD UP TO"
    begin, end = (_window()[key][:16].replace("T", " ") for key in ("start", "end"))
    rest = f"{aggregators - 1} of the {aggregators}"
    return [
        f"Asked     what {count:,} meters ({source}) drew together, {begin} to {end[11:]} UTC",
        f"Answer    {released:,.1f} kWh; its noise is {error:,.1f} kWh on average, "
        f"{100 * error / released:.1f} % of it",
        f"In truth  {truth.raw_kwh:,.1f} kWh ({truth.clamped_kwh:,.1f} kWh after the declared "
        "clamp),",
        f"          so it is off by {off:,.1f} kWh. (Known only because this is a demo.)",
        "",
        "What stayed private",
        f"  Each meter's hour was split into {aggregators} pieces, each random by itself, one for "
        "each aggregator.",
        "  Suppose the reader of the answer, all other meters and",
        f"  {rest} aggregators pool what they saw, and guess whether one meter took part:",
        f"  they are right in at most {of_a_hundred(statement.guess)} of 100 cases "
        f"(epsilon {amount(epsilon)}; 50 is a coin flip).",
        f"  If all {aggregators} aggregators collude they can read everything; one honest "
        "aggregator prevents it.",
        "What was checked",
        f"  {len(performed.checked['aggregators'])} signed partial sums: {matches} the answer.",
        "What makes the error smaller",
        "  More meters: the noise stays as large while the sum grows. Or a larger epsilon:",
        f"  {amount(2 * epsilon)} halves the noise, and hides less.",
        "",
    ]


def _with_all_but_one(report: dict[str, Any]) -> VerifiedStatement:
    """The guarantee against the reader, all other curators, and all aggregators but one."""
    (line,) = [line for line in report["verified"] if line["key"] == Scenario.BLIND_AGGREGATORS]
    return VerifiedStatement.model_validate_json(json.dumps(line))


def _show_rounds(deployment: Deployment, file: MeterFile, data: Path | None) -> None:
    """Import the meters into a running deployment, and show each act."""
    truth = _truth(file)
    source = data.name if data else "generated from the load model of simulation/load_model.py"
    answer = _feed(deployment, file)
    say(f"{len(file.meters()):,} meters, each its own curator: {source}")
    say(
        f"{answer['accepted']:,} readings stored, {answer['rejected']:,} rejected "
        f"({DAYS} days of 15-minute values)"
    )
    _show_window(truth)
    *sound, paper = acts(len(deployment.aggregators), len(file.meters()))
    created = [_show_act(deployment, act, truth) for act in sound]
    _show_budget(deployment, created)
    _show_act(deployment, paper, truth)
    say("After a round without a verified figure the totals of its curators are infinite.")


@dataclass(frozen=True)
class Truth:
    """True totals of the window, in kWh, which the demonstration knows from the readings."""

    raw_kwh: float
    clamped_kwh: float
    clamped_readings: int


def _truth(file: MeterFile) -> Truth:
    window: NDArray[np.float64] = np.nan_to_num(file.values(DAYS)[:, HOUR * 4 : HOUR * 4 + 4])
    clamped = np.clip(window, 0, BOUND_KWH)
    return Truth(float(window.sum()), float(clamped.sum()), int((clamped != window).sum()))


def _generate(directory: Path) -> Path:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / "generated-meters.csv"
    load = household_load(METERS, DAYS, SeededRandom(2026))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["meter", *(f"t{index}" for index in range(load.shape[1]))])
        for index, row in enumerate(load):
            writer.writerow([f"meter-{index:03d}", *(f"{value:.3f}" for value in row)])
    return path


def _feed(deployment: Deployment, file: MeterFile) -> dict[str, Any]:
    """Enrol the meters and import their readings; returns the answer of the import."""
    with errors.status("enrolling the meters and importing their readings"):
        _enrol(deployment, file.meters())
        with deployment.curator.client() as client:
            return file.upload(client, days=DAYS)


def _enrol(deployment: Deployment, meters: list[str]) -> None:
    # The name depends on the meters: a directory may be used again with another file.
    party_id = "gateway-" + hashlib.sha256("\n".join(meters).encode()).hexdigest()[:8]
    with deployment.curator.client() as client:
        if any(party["party"] == party_id for party in client.get("/v1/parties")["parties"]):
            return
        token = join_token(deployment, party_id, PartyKind.HOST, len(meters), 3600)
        client.post("/v1/enrolments", {"token": token.to_text(), "curators": meters})
        policy = client.get("/v1/policy")
        # The paper round has no verified figure; a policy must say that this is accepted.
        client.request("PUT", "/v1/policy", {**policy, "allow_unverified": True})


def _show_window(truth: Truth) -> None:
    say(
        f"\nThe hour from {format_instant(START + timedelta(hours=HOUR))}: truly "
        f"{truth.raw_kwh:.1f} kWh; {truth.clamped_kwh:.1f} kWh after the declared clamp at "
        f"{BOUND_KWH} kWh a reading ({truth.clamped_readings} readings clamped). "
        "(Known only because this is a demo.)"
    )


def _show_budget(deployment: Deployment, queries: list[str]) -> None:
    """The coordinator's ledger after the sound rounds; the last of them was local."""
    console.rule("[bold]the total cost of these rounds", align="left")
    with deployment.coordinator.client() as client:
        print_budget(client.budget.get(query_id=queries[-1]))


@dataclass(frozen=True)
class Performed:
    """A finished round: its query, its result, and the check of its transcript."""

    query_id: str
    found: api.Answer
    checked: dict[str, Any]


def _window() -> dict[str, str]:
    begin = START + timedelta(hours=HOUR)
    return {"start": format_instant(begin), "end": format_instant(begin + timedelta(hours=1))}


def _perform(deployment: Deployment, act: Act) -> Performed:
    """Run a round."""
    query = {**act.query, "name": f"demo-{act.query['mechanism']}"}
    with deployment.coordinator.client() as client:
        created = client.queries.create(query)
        opened = client.rounds.open(created["id"], window=_window())
        response = client.rounds.wait(opened["id"], 60)
        return Performed(created["id"], response, client.rounds.verify(opened["id"]))


def _show_act(deployment: Deployment, act: Act, truth: Truth) -> str:
    """Run a round and show it; returns the id of its query."""
    console.rule(f"[bold]{act.title}", align="left")
    with errors.status("a round"):
        performed = _perform(deployment, act)
    _show(performed.found, truth)
    verdict = "matches" if performed.checked["matches"] else "DOES NOT MATCH"
    say(
        f"transcript checked here: {len(performed.checked['aggregators'])} commitment(s), the "
        f"recombined sum {verdict} the published one; one machine runs all parties, so no identity "
        "is pinned"
    )
    return performed.query_id


def _show(response: api.Answer, truth: Truth) -> None:
    report = response["report"]
    released = float(response["result"]["sum"])
    forecast = report["error"]["parts"][0]["mean_absolute"]
    claimed = report.get("claimed")
    rows = [
        ["released total", f"{released:,.1f} kWh from {response['participants']} curators"],
        ["forecast error", f"{amount(forecast)} kWh expected (mean absolute)"],
        ["true total", f"{truth.raw_kwh:,.1f} kWh, {truth.clamped_kwh:,.1f} kWh clamped"],
        ["actual error", f"{abs(released - truth.raw_kwh):,.1f} kWh"],
        ["the source claims", guarantee({"model": "", **claimed}) if claimed else "nothing"],
    ]
    console.print(TextTable("", ["", ""], rows))
    say(briefs.brief_text(briefs.brief(report)), markup=False)
