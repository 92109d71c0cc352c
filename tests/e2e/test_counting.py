"""Counting over curators through real services: n-grams and prefix trees that nobody keeps.

Spec: federated-counting, sections 3 to 5. One site for all: a host of 11 curators and a lone one,
one of them without sequences; 3 aggregators. An epsilon of 100 over few levels makes noise of
scale 0.04 at most, which is 0 in every cell (but for a chance of 10^-8): the release then
is the one that one keeper of all sequences computes.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from fractions import Fraction
from typing import Any

import httpx
import numpy as np
import pytest
import pytest_asyncio
from scipy.stats import chisquare, nbinom

from algorithms import sequential_ngram, sequential_prefix_tree
from algorithms.contract import SequentialContext
from algorithms.counts.contract import drive
from algorithms.counts.keeper import KeeperSource
from algorithms.sequential_prefix_tree import algorithm as federated
from algorithms.sequential_prefix_tree import counts
from algorithms.sequential_prefix_tree.parameters import resolved
from tacit.encoders.sequential_prefix_tree_counts import COUNTER
from tacit.randomness import SeededRandom
from tacit.records.items import Sequences
from tests.coordinator.double import Wire
from tests.e2e.federation import Site, site

pytestmark = pytest.mark.asyncio(loop_scope="module")

LONE = "clinic-0"
HOSTED = [f"clinic-{number}" for number in range(1, 12)]
ITEMS = ("home", "news", "sports", "mail")
FEDERATION: dict[str, Any] = {
    "collect": "rounds",
    "columns": [{"sequences": "visits"}],
    "min_participants": 10,
    "n_max": 20,
    "deadline": 60,
    "collusion": {"curators": 0, "aggregators": 2},
}
NGRAMS: dict[str, Any] = {"universe": ITEMS, "l_max": 2, "n_max": 2, "budget": "uniform"}
TREE: dict[str, Any] = {"universe": ITEMS, "height": 3}


def job(algorithm: str, params: dict[str, Any], epsilon: str, **changes: Any) -> dict[str, Any]:
    asked = {**params, "universe": list(params["universe"]), "epsilon": epsilon}
    return {"algorithm": algorithm, "params": asked, "federation": {**FEDERATION, **changes}}


def visits(number: int) -> list[list[str]]:
    """A clinic's own sequences; the last clinic has none."""
    if number == len(HOSTED):
        return []
    generator = SeededRandom(number).generator
    chosen = [generator.choice(4, size, p=[0.5, 0.3, 0.15, 0.05]) for size in range(1, 8)]
    return [[ITEMS[place] for place in each] for each in chosen]


OF_THE_MOMENT = re.compile(
    r"_(seconds|created)|^(process|python)_|_request|_store_|_responses|_free_ratio$|_up{"
)
"""Metrics of durations, of the disk, of which aggregators answered the last check, and of polls and
what they read."""
ALL = [each for number in range(12) for each in visits(number)]


async def give(it: Site, curator: str, content: str, name: str = "visits") -> httpx.Response:
    return await it.own(
        "POST",
        "/v1/sequences",
        content=content.encode(),
        params={"curator": curator, "name": name},
        headers={"Content-Type": "text/plain"},
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def it(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    async with site(tmp_path_factory.mktemp("counting")) as running:
        await running.enrol("host", HOSTED)
        await running.enrol(LONE)
        for number, name in enumerate((LONE, *HOSTED)):
            if number < len(HOSTED):
                # An item that no universe has: this sequence counts nowhere.
                lines = [*(" ".join(each) for each in visits(number)), "home elsewhere"]
                answer = await give(running, name, "\n".join(lines) + "\n")
                assert answer.status_code == 200, answer.text
        await running.agree(
            "sequential-ngram",
            "sequential-prefix-tree",
            "set-valued",
            record={"period": {"epsilon": "9000"}},
        )
        yield running


async def debits(it: Site, curator: str = LONE) -> list[str]:
    return [each["epsilon"] for each in (await it.ledger(curator))["record"]["debits"]]


async def told_once(
    it: Site, job_id: str, epsilon: str, *, settled: int | None, curators: int
) -> list[str]:
    """The rounds that the debit of a job was made with, as the ledger and the job's stream of
    events tell; it is settled once, with so many rounds and curators."""
    shown = await it.house.ask("GET", f"/v1/jobs/{job_id}/events")
    told = [part.split("\ndata: ") for part in shown.text.strip().split("\n\n")]
    stream = [(kind.removeprefix("event: "), json.loads(data)) for kind, data in told]
    assert [kind for kind, _ in stream] == [
        *(["job_debited"] * (len(stream) - 2)),
        "job_settled",
        "job",
    ]
    ended = stream[-2][1]
    assert settled is None or (ended["rounds"], ended["curators"]) == (settled, curators)
    assert {each["epsilon"] for _, each in stream[:-2]} == {epsilon}
    events = await it.house.ask("GET", "/v1/budget/events?limit=1000")
    found = [each for each in events.json()["events"] if each["payload"].get("job") == job_id]
    assert [each["kind"] for each in found] == [kind for kind, _ in stream[:-1]]
    assert (await it.house.ask("GET", "/v1/budget/verification")).json()["verified"]
    return [each["round"] for _, each in stream[:-2]]


async def entered(it: Site, before: dict[str, int], rounds: int) -> None:
    """Wait until the ledger of each of these curators has so many rounds more than before."""
    async with asyncio.timeout(120):
        for name, debited in before.items():
            while len(await debits(it, name)) < debited + rounds:
                await asyncio.sleep(0.05)


def without(found: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name not in names}


async def test_n_grams_are_those_of_one_keeper_also_over_a_restart(it: Site) -> None:
    before = len(await debits(it))
    params = {**NGRAMS, "budget": "adaptive"}
    asked = await it.ask(job("sequential-ngram", params, "100"))
    async with asyncio.timeout(120):
        while (await it.shown(asked["id"]))["progress"] <= 0.3:
            await asyncio.sleep(0.02)
    await it.house.restart()
    found = await it.result(asked["id"])
    own = sequential_ngram.Parameters(**params, epsilon="100")
    kept = sequential_ngram.run(Sequences.of(ITEMS, ALL), own, "sound", SequentialContext())
    assert without(found["summary"], "truncated") == without(dict(kept.result), "truncated")
    spent = (await debits(it))[before:]
    assert spent == ["100", "0"]  # one debit, with the first step
    rounds = await told_once(it, asked["id"], "100", settled=2, curators=12)
    assert len(rounds) == 1
    report = await it.report(asked["id"])
    lines = {line["key"]: line for line in report["verified"]}
    assert lines["e"]["epsilon"] == report["charged"]["epsilon"] == "100"
    assert report["charged"]["ledger"] == "curators"


async def test_a_prefix_tree_over_time_is_that_of_one_keeper(it: Site) -> None:
    """Readings of every second in two minutes: each curator finds their interval by itself, and a
    sequence counts up to where its times fall."""
    rising = {
        name: [
            [f"{item}@{min(9 * number + 53 * place, 119)}.5" for place, item in enumerate(visit)]
            for visit in visits(number)
        ]
        for number, name in enumerate((LONE, *HOSTED))
    }
    for name, sequences in rising.items():
        lines = [*(" ".join(each) for each in sequences), "mail@60 home@59"]
        answer = await give(it, name, "\n".join(lines) + "\n", "timed")
        assert answer.status_code == 200, answer.text
    more = {"timestamps": {"grain_s": 60, "universe": 2}, "height": 2}
    columns = [{"sequences": "timed"}]
    asked = await it.ask(job("sequential-prefix-tree", {**TREE, **more}, "100", columns=columns))
    found = await it.result(asked["id"])
    params = sequential_prefix_tree.Parameters(**{**TREE, **more}, epsilon="100")
    everything = [each for sequences in rising.values() for each in (*sequences, ["mail@60"])]
    readings = sorted({reading for each in everything for reading in each})
    data = Sequences.of(readings, everything).over(resolved(params, "sound")[0])
    source = KeeperSource(SequentialContext(), COUNTER, [data.lists])
    state = drive(counts.COUNTING, federated.first(params, Fraction(3)), source)
    kept = federated.release(params, state)
    assert without(found["summary"], "truncated") == without(dict(kept.result), "truncated")
    assert found["summary"]["nodes"] > 4


def mass(draws: int, scale: float, reach: int) -> np.ndarray[Any, Any]:
    """P(Z = z), z from -reach to reach: the difference of two sums of `draws` geometric numbers."""
    numbers = np.arange(4 * reach + 1)
    one = nbinom.pmf(numbers, draws, 1 - np.exp(-1 / scale))
    found = np.array([(one[abs(z) :] * one[: one.size - abs(z)]).sum() for z in range(reach + 1)])
    return np.concatenate((found[:0:-1], found))


def chance(noise: np.ndarray[Any, Any], draws: int, scale: float) -> float:
    """The chi-square test's chance of so odd a sample in twelve classes, if this is the law."""
    reach = 400
    law = mass(draws, scale, reach)
    ends = np.searchsorted(np.cumsum(law), np.arange(1, 12) / 12)
    bounds = np.concatenate(([0], ends + 1, [law.size]))
    expected = np.add.reduceat(law, bounds[:-1])
    seen = np.histogram(noise + reach, bounds)[0]
    return float(chisquare(seen, noise.size * expected / expected.sum()).pvalue)


def likelihood(noise: np.ndarray[Any, Any], draws: int, scale: float) -> float:
    """The logarithm of the chance of exactly this sample, if this is the law."""
    reach = 600
    return float(np.log(mass(draws, scale, reach)[noise + reach]).sum())


@pytest.mark.slow
async def test_a_release_at_a_useful_epsilon_has_the_noise_of_its_law(it: Site) -> None:
    """Epsilon 1/10, one item of a sequence counts: 500 cells of scale 10, each aggregator draws a
    whole one. Noise is secret and new in every run. A correct law fails once in 10^6 runs by the
    first line, and less often by the others: over 3,000 cells the difference of two likelihoods is
    more than five of its standard deviations from zero."""
    universe = [*ITEMS, *(f"page {number}" for number in range(496))]
    params = {"universe": universe, "l_max": 1, "n_max": 1, "max_rows": 1000}
    truth = np.zeros(len(universe), np.int64)
    for each in ALL:
        truth[universe.index(each[0])] += 1
    noise = []
    for _ in range(6):
        asked = await it.ask(job("sequential-ngram", params, "1/10"))
        await it.result(asked["id"])
        (name,) = (await it.report(asked["id"]))["details"]["rounds_asked"]
        answer = await it.house.ask("GET", f"/v1/rounds/{name}/result")
        opened = np.array([int(value) for value in answer.json()["result"]["rate-0"]])
        noise.append(opened - truth)
    everything = np.concatenate(noise)
    assert chance(everything, 3, 10) > 1e-6
    own = likelihood(everything, 3, 10)
    assert own > max(likelihood(everything, 2, 10), likelihood(everything, 4, 10))
    assert own > max(likelihood(everything, 3, 8), likelihood(everything, 3, 12.5))


async def test_sets_of_items_are_counted_too(it: Site) -> None:
    """DiffPart: a basket that 60 people have, one that 48 have, and a stray one. Epsilon 20 and a
    threshold that no noise passes (10^-6 a split): the release has the two baskets."""
    for number, name in enumerate((LONE, *HOSTED)):
        baskets = [["home", "news", "home"]] * 5 + [["sports"]] * 4 + [["mail", "elsewhere"]] * 9
        if number == 3:
            baskets.append(["home", "mail", "sports", "news"])
        answer = await it.own(
            "POST",
            "/v1/transactions",
            content="\n".join(map(" ".join, baskets)).encode(),
            params={"curator": name, "name": "baskets"},
            headers={"Content-Type": "text/plain"},
        )
        assert answer.status_code == 200, answer.text
    before = len(await debits(it))
    params = {"universe": ITEMS, "fanout": 2, "eta": "1/1000000", "eta_leaf": "1/1000000"}
    params |= {"method": "diffpart"}
    columns = [{"transactions": "baskets"}]
    asked = await it.ask(job("set-valued", params, "20", columns=columns))
    found = await it.result(asked["id"])
    assert (found["summary"]["method"], found["summary"]["rows"]) == ("diffpart", 2)
    assert abs(found["summary"]["records"] - 108) <= 4
    spent = (await debits(it))[before:]
    assert (spent[0], set(spent[1:])) == ("20", {"0"})
    report = await it.report(asked["id"])
    assert report["charged"]["epsilon"] == "20"
    assert {line["key"]: line["epsilon"] for line in report["verified"]}["e"] == "20"

    # Beside it lengths (scale 1.5, three draws: off by 25 once in 10^6 runs) and items, one debit.
    before = len(await debits(it))
    params |= {"method": "diffpart+rest"}
    asked = await it.ask(job("set-valued", params, "20", columns=columns))
    found = (await it.result(asked["id"]))["summary"]
    assert found["method"] == "diffpart+rest"
    assert max(abs(found["lengths"][0] - 48), abs(found["lengths"][1] - 60)) <= 25
    assert found["items_kept"] >= 2
    spent = (await debits(it))[before:]
    assert (spent[0], set(spent[1:])) == ("20", {"0"})
    steps = (await it.report(asked["id"]))["details"]["steps"]
    assert [step["asks"] for step in steps][:3] == ["lengths", "items", "partitions"]
    assert steps[1]["reach"] == found["items_kept"]


@pytest.mark.parametrize(
    ("more", "curators"),
    [
        ({"validity": "proved"}, "100"),
        pytest.param(
            {"sharing": "shamir", "threshold": 2, "collusion": {"aggregators": 1}},
            "100",
            marks=pytest.mark.slow,
        ),
        # colluding curators know their own noise
        pytest.param({"layer": "curator"}, "inf", marks=pytest.mark.slow),
    ],
)
async def test_one_debit_in_every_kind_of_round(
    it: Site, more: dict[str, Any], curators: str
) -> None:
    before = len(await debits(it))
    asked = await it.ask(job("sequential-ngram", {**NGRAMS, "budget": "adaptive"}, "100", **more))
    await it.result(asked["id"])
    assert (await debits(it))[before:] == ["100", "0"]
    report = await it.report(asked["id"])
    lines = {line["key"]: line["epsilon"] for line in report["verified"]}
    assert lines == {"a": "100", "b": curators, "c": curators, "d": "inf", "e": "100"}
    assert report["charged"]["epsilon"] == "100"


async def test_a_cancelled_job_keeps_its_debit_and_asks_no_more(it: Site) -> None:
    before = len(await debits(it))
    asked = await it.ask(job("sequential-ngram", NGRAMS, "100"))
    async with asyncio.timeout(120):
        while len(await debits(it)) == before:
            await asyncio.sleep(0.02)
    answer = await it.house.ask("DELETE", f"/v1/jobs/{asked['id']}")
    assert answer.status_code < 300, answer.text
    assert (await it.finished(asked["id"]))["state"] == "cancelled"
    await asyncio.sleep(1)
    spent = (await debits(it))[before:]
    assert spent[0] == "100"
    assert set(spent[1:]) <= {"0"}
    await told_once(it, asked["id"], "100", settled=None, curators=0)


async def waiting(it: Site, received: int) -> str:
    """The open round, once every aggregator has this number of curators' pieces."""
    async with asyncio.timeout(120):
        while True:
            rounds = (await it.house.ask("GET", "/v1/rounds?state=open")).json()["rounds"]
            for each in rounds:
                name: str = each["statement"]["round"]
                path = f"/v1/rounds/{name}/received"
                found = (await it.house.ask("GET", path)).json()
                if found["least"] == received:
                    return name
            await asyncio.sleep(0.05)


async def test_a_round_that_never_froze_is_asked_again_and_counts_once(it: Site) -> None:
    """A lone curator's pieces do not reach an aggregator: twice the operator aborts the first
    round, and the third attempt of the same question gives what one keeper has."""
    before = {name: len(await debits(it, name)) for name in (LONE, HOSTED[0])}
    wire = it.house.wires[0]  # it is asked first whether it holds all
    wire.fault = lambda _method, path: "request" if path.endswith("/pieces") else None
    asked = await it.ask(job("sequential-ngram", NGRAMS, "100"))
    for attempt in range(2):
        first = await waiting(it, 11)
        await entered(it, before, 1 + attempt)
        answer = await it.house.ask("POST", f"/v1/rounds/{first}/abort")
        assert answer.status_code < 300, answer.text
    assert await waiting(it, 11) != first
    await entered(it, before, 3)
    wire.fault = lambda _method, _path: None
    found = await it.result(asked["id"])
    own = sequential_ngram.Parameters(**NGRAMS, epsilon="100")
    kept = sequential_ngram.run(Sequences.of(ITEMS, ALL), own, "sound", SequentialContext())
    assert without(found["summary"], "truncated") == without(dict(kept.result), "truncated")
    assert not found["summary"]["truncated"]
    for name in (LONE, HOSTED[0]):
        ledger = (await it.ledger(name))["record"]["debits"][before[name] :]
        kept = [each["epsilon"] for each in ledger if not each["credited"]]
        assert (len(ledger), kept) == (4, ["100", "0"])
    report = await it.report(asked["id"])
    assert report["charged"]["epsilon"] == "100"
    assert len(report["details"]["rounds_asked"]) == 4
    paying = await told_once(it, asked["id"], "100", settled=2, curators=12)
    assert paying == report["details"]["rounds_asked"][:3]


async def test_a_round_that_may_have_frozen_is_not_asked_again(it: Site) -> None:
    """One statement fewer: the aggregator that held all had signed its set. The debit stays."""
    before = len(await debits(it))
    wire = it.house.wires[-1]
    wire.fault = lambda _method, path: "request" if path.endswith("/pieces") else None
    asked = await it.ask(job("sequential-ngram", NGRAMS, "100"))
    name = await waiting(it, 11)
    await it.house.wires[0].heard("freeze")
    await it.house.ask("POST", f"/v1/rounds/{name}/abort")
    ended = await it.finished(asked["id"])
    wire.fault = lambda _method, _path: None
    assert ended["state"] == "failed"
    assert ended["error"]["type"] == "urn:tacit:problem:round_aborted"
    ledger = (await it.ledger(LONE))["record"]["debits"][before:]
    assert [(each["epsilon"], each["credited"]) for each in ledger] == [("100", False)]


@pytest.mark.slow
async def test_other_rows_leave_no_other_trace(
    it: Site, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check 14: two jobs with the same public course over rows that have nothing in common, one
    table of few short sequences and one of many long ones, also with records that were left out.
    What every service logs and counts, figure by figure, and every request's size, are the
    same."""
    sent: set[tuple[str, str, int]] = set()
    reach = Wire.handle_async_request

    async def measure(self: Wire, request: httpx.Request) -> httpx.Response:
        size = len(await request.aread())
        if request.url.path.endswith(("/pieces", "/batches")):
            sent.add((request.method, plain(request.url.path), size))
        return await reach(self, request)

    monkeypatch.setattr(Wire, "handle_async_request", measure)
    traces = []
    # The first job is not compared: a party's first request is not like later ones.
    for table, lines in (("any", ["news"]), ("few", ["home"]), ("all", ["mail sports news"] * 40)):
        for name in (LONE, *HOSTED):
            answer = await it.own(
                "POST",
                "/v1/sequences",
                content=("\n".join(lines) + "\n").encode(),
                params={"curator": name, "name": table},
                headers={"Content-Type": "text/plain"},
            )
            assert answer.status_code == 200, answer.text
        capfd.readouterr()
        sent.clear()
        before = await figures(it)
        params = {"universe": ITEMS, "l_max": 3, "n_max": 1}
        columns = [{"sequences": table}]
        asked = await it.ask(job("sequential-ngram", params, "10", columns=columns))
        await it.result(asked["id"])
        report = await it.report(asked["id"])
        logged = {
            plain(line)
            for line in capfd.readouterr().out.splitlines()
            # How often who polls, and what is asked for together, is up to the moment.
            if "method=GET" not in line
            and ("contribution" in line or "round_" in line or "warning" in line or "error" in line)
        }
        await settled(it)
        after = await figures(it)
        counted = {
            name: 0.0 if value == before.get(name) else round(value - before.get(name, 0.0), 9)
            for name, value in after.items()
        }
        steps = [{**each} for each in report["details"]["steps"]]
        traces.append((logged, counted, set(sent), steps, report["verified"], report["charged"]))
    assert any("contribution" in line for line in traces[0][0])
    assert len(traces[0][2]) >= 2
    for one, other in zip(*traces[1:], strict=True):
        assert one == other
    assert sum(value > 0 for value in traces[1][1].values()) > 10


async def settled(it: Site) -> None:
    """Wait until every curator has heard how its rounds ended, and the coordinator what each of
    them debited: that is told after a release."""
    async with asyncio.timeout(120):
        for name in (LONE, *HOSTED):
            waits = True
            while waits:
                shown = (await it.own("GET", f"/v1/curators/{name}/contributions")).json()
                waits = any(each["outcome"] is None for each in shown["contributions"])
                await asyncio.sleep(0.05)
        rounds = (await it.house.ask("GET", "/v1/rounds")).json()["rounds"]
        for each in rounds:
            path, told = f"/v1/budget/rounds/{each['id']}", []
            while each["state"] == "released" and len(told) < 2:
                told = (await it.house.ask("GET", path)).json()["acknowledged_by"]
                await asyncio.sleep(0.05)


async def figures(it: Site) -> dict[str, float]:
    """The figures of all services' metrics but those of the moment."""
    answers = {
        "coordinator": await it.house.ask("GET", "/metrics"),
        "curator": await it.own("GET", "/metrics"),
        **{peer.id: await peer.ask("GET", "/metrics") for peer in it.house.federation.peers},
    }
    found = {}
    for service, answer in answers.items():
        assert answer.status_code == 200, answer.text
        for line in answer.text.splitlines():
            name, _, value = line.rpartition(" ")
            if name and not line.startswith("#") and not OF_THE_MOMENT.search(name):
                found[f"{service} {name}"] = float(value)
    return found


def plain(text: str) -> str:
    """Without ids and times; all other numbers stay."""
    return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9-]{10}[ T][0-9:.]+Z?|ms=[0-9.]+", "", text)


async def test_a_preview_forecasts_and_spends_nothing(it: Site) -> None:
    before = await debits(it)
    asked = job("sequential-ngram", {**NGRAMS, "l_max": 20, "n_max": 5}, "1", n_hint=10**6)
    answer = await it.house.ask("POST", "/v1/jobs/preview", asked)
    assert answer.status_code == 200, answer.text
    error = answer.json()["preview"]["error"]
    assert (error["rounds"], error["mean_absolute_error"]) == (5, "187.5")
    assert error["draws_of_noise"] == "3"
    # P(Z >= t) <= 1/5 for three draws of scale 100.
    assert error["smallest_count_that_shows"] == error["steps"][0]["threshold"]
    assert await debits(it) == before


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"federation": {**FEDERATION, "columns": ["a"]}}, "/federation/columns"),
        ({"federation": {**FEDERATION, "collect": "reports"}}, "/federation/collect"),
        ({"params": {**NGRAMS, "epsilon": "1", "evaluate": True}}, "/params/evaluate"),
        ({"algorithm": "kmeans"}, None),
        ({"federation": {**FEDERATION, "columns": [{"transactions": "a"}]}}, "/federation/columns"),
    ],
)
async def test_what_is_not_offered_is_refused_and_debits_nothing(
    it: Site, change: dict[str, Any], pointer: str | None
) -> None:
    before = await debits(it)
    answer = await it.house.ask("POST", "/v1/jobs", job("sequential-ngram", NGRAMS, "1") | change)
    assert answer.status_code == 422, answer.text
    pointers = [answer.json().get("pointer"), *(e["pointer"] for e in answer.json()["errors"])]
    assert pointer is None or pointer in pointers
    assert await debits(it) == before
