"""`tacit demo`: private rounds on meter readings, from nothing to results, and then gone.

Four rounds over the same hour of readings, each through the running services: `two-layer` (sound),
`distributed`, `local`, and `two-layer` in the paper stance with the thesis's probabilities (last,
since a round without a verified figure makes every lifetime total infinite). For each: the released
total, the error that was forecast, what is verified for each collusion scenario, what the source
would have claimed, and, because this is a demonstration on data at hand, the true total.
"""

from __future__ import annotations

import csv
import hashlib
import shutil
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from cli.budget import print_budget
from cli.context import DEFAULT_HOME, console, errors, plain_errors, say, table
from cli.deployment import Deployment, Running, join_token, pair
from cli.meter_file import MeterFile
from cli.up import plan, service_settings
from cli.words import amount, guarantee, guarantees_table
from simulation.load_model import household_load
from tacit.protocol.enrolment import PartyKind
from tacit.randomness import SeededRandom
from tacit.wire import format_instant

START = datetime(2025, 10, 27, tzinfo=UTC)
STEP_S = 900
DAYS = 2
HOUR = 24 + 18
AGGREGATORS = 5
BOUND_KWH = 5
METERS = 400
COMMON: dict[str, Any] = {
    "function": "sum",
    "unit": "kWh",
    "bounds": ["0", str(BOUND_KWH)],
    "max_readings": 4,
    "resolution": "0.001",
    "privacy_unit": "curator",
    "sharing": "additive",
    "min_participants": 100,
    "n_max": 100_000,
    "deadline_s": 20,
}
TWO_LAYER = {"mechanism": "two-layer", "epsilon_u": "7.5", "epsilon_s": "2.5"}


@dataclass(frozen=True)
class Act:
    """One round of the demonstration."""

    title: str
    query: dict[str, Any]


def acts(aggregators: int) -> tuple[Act, ...]:
    """The rounds, for a deployment of this many aggregators."""
    common = {**COMMON, "aggregators": aggregators}
    all_but_one = {"collusion": {"curators": 0, "aggregators": aggregators - 1}}
    return (
        Act(
            "two-layer (sound): every curator and every aggregator adds noise",
            {**common, **TWO_LAYER, "pr_u": "1", "pr_s": "1", **all_but_one},
        ),
        Act(
            "distributed: the aggregators' noise shares add up; one honest one is enough",
            {
                **common,
                "mechanism": "distributed",
                "epsilon": "2.5",
                "layer": "aggregator",
                **all_but_one,
            },
        ),
        Act(
            "local: each curator adds its own noise and trusts nobody",
            {
                **common,
                "mechanism": "local",
                "epsilon_i": "2.5",
                "sharing": "none",
                "aggregators": 1,
            },
        ),
        Act(
            "two-layer (paper): the thesis's probabilities, as its Figure 4.4 has them",
            {**common, **TWO_LAYER, "stance": "paper", "pr_u": "0.0001", "pr_s": "0.01"},
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
) -> None:
    """Run private rounds on real or generated meter readings and show what they reveal."""
    with plain_errors():
        if at is not None:
            with tempfile.TemporaryDirectory(prefix="tacit-demo-") as scratch:
                _show_rounds(Deployment.load(at), _file(data, Path(scratch)), data)
            return
        directory = home or Path(tempfile.mkdtemp(prefix="tacit-demo-"))
        try:
            _run(directory, data)
        finally:
            if home is None:
                shutil.rmtree(directory, ignore_errors=True)
    say(
        "\nNothing is left running. To keep a deployment up and play with it:\n"
        f"  tacit demo --home {DEFAULT_HOME}   then   tacit up --home {DEFAULT_HOME}"
    )


def _run(directory: Path, data: Path | None) -> None:
    started = time.monotonic()
    file = _file(data, directory)
    deployment = plan(directory, AGGREGATORS)
    running = Running(deployment, service_settings())
    try:
        with errors.status(f"starting a coordinator, {AGGREGATORS} aggregators and a curator host"):
            running.start()
            pair(deployment)
        _show_rounds(deployment, file, data)
    finally:
        with errors.status("stopping the services"):
            running.stop()
    say(f"\n{time.monotonic() - started:.0f} s in all")


def _file(data: Path | None, scratch: Path) -> MeterFile:
    path = data or _generate(scratch)
    return MeterFile(path, format_instant(START), STEP_S, "kWh", "energy_import")


def _show_rounds(deployment: Deployment, file: MeterFile, data: Path | None) -> None:
    """Feed the meters to a deployment that runs, and show each act."""
    truth = _truth(file)
    source = data.name if data else "generated from the load model of simulation/load_model.py"
    meters = file.meters()
    say(f"{len(meters)} meters, each its own curator: {source}")
    with errors.status("enrolling the meters and importing their readings"):
        _enrol(deployment, meters)
        _import(deployment, file)
    _show_window(truth)
    *sound, paper = acts(len(deployment.aggregators))
    created = [_perform(deployment, act, truth) for act in sound]
    _show_budget(deployment, created)
    _perform(deployment, paper, truth)
    say("After a round without a verified figure the totals of its curators are infinite.")


@dataclass(frozen=True)
class Truth:
    """What the demonstration knows because it holds the readings: totals of the window, in kWh."""

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


def _enrol(deployment: Deployment, meters: list[str]) -> None:
    # Another file's meters are another gateway, in a directory that is used again.
    party_id = "gateway-" + hashlib.sha256("\n".join(meters).encode()).hexdigest()[:8]
    with deployment.curator.client() as client:
        if any(party["party"] == party_id for party in client.get("/v1/parties")["parties"]):
            return
        token = join_token(deployment, party_id, PartyKind.HOST, len(meters), 3600)
        client.post("/v1/enrolments", {"token": token.to_text(), "curators": meters})
        policy = client.get("/v1/policy")
        # The paper round has no verified figure; a policy must say that this is accepted.
        client.request("PUT", "/v1/policy", {**policy, "allow_unverified": True})


def _import(deployment: Deployment, file: MeterFile) -> None:
    with deployment.curator.client() as client:
        answer = file.upload(client, days=DAYS)
    say(
        f"{answer['accepted']:,} readings stored, {answer['rejected']:,} rejected "
        f"({DAYS} days of 15-minute values)"
    )


def _show_window(truth: Truth) -> None:
    say(
        f"\nThe hour from {format_instant(START + timedelta(hours=HOUR))}: truly "
        f"{truth.raw_kwh:.1f} kWh; {truth.clamped_kwh:.1f} kWh after the declared clamp at "
        f"{BOUND_KWH} kWh a reading ({truth.clamped_readings} readings clamped). "
        "Only a demonstration knows this."
    )


def _show_budget(deployment: Deployment, queries: list[str]) -> None:
    """The coordinator's ledger after the sound rounds; the last of them was local."""
    console.rule("[bold]what these rounds cost together", align="left")
    with deployment.coordinator.client() as client:
        print_budget(client.budget(query_id=queries[-1]))


def _perform(deployment: Deployment, act: Act, truth: Truth) -> str:
    """Run a round and show it; the query's id."""
    begin = START + timedelta(hours=HOUR)
    window = {"start": format_instant(begin), "end": format_instant(begin + timedelta(hours=1))}
    query = {**act.query, "name": f"demo-{act.query['mechanism']}"}
    console.rule(f"[bold]{act.title}", align="left")
    with deployment.coordinator.client() as client, errors.status("a round"):
        created = client.create_query(query)
        opened = client.open_round(created["id"], window=window)
        found = client.wait_for(opened["id"], 60)
        checked = client.verify(opened["id"])
    _show(found, truth)
    verdict = "matches" if checked["matches"] else "DOES NOT MATCH"
    say(
        f"transcript checked here: {len(checked['aggregators'])} commitment(s), the recombined "
        f"sum {verdict} the published one; one machine runs all parties, so no identity is pinned"
    )
    query_id: str = created["id"]
    return query_id


def _show(found: dict[str, Any], truth: Truth) -> None:
    report = found["report"]
    released = float(found["result"]["sum"])
    forecast = report["error"]["parts"][0]["mean_absolute"]
    claimed = report.get("claimed")
    rows = [
        ["released total", f"{released:,.1f} kWh from {found['participants']} curators"],
        ["forecast error", f"{amount(forecast, 1)} kWh expected (mean absolute)"],
        ["true total, clamped", f"{truth.clamped_kwh:,.1f} kWh"],
        ["actual error", f"{abs(released - truth.clamped_kwh):,.1f} kWh"],
        ["the source claims", guarantee({"model": "", **claimed}) if claimed else "nothing"],
    ]
    console.print(table("", ["", ""], rows))
    console.print(guarantees_table(report))
