"""One debit for a whole job, and what a lying coordinator gets for it.

Spec: federated-counting, section 6. The double's aggregators draw no noise, so that what each
record added can be seen.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import select
from structlog.testing import capture_logs

from common.store.transactions import Database
from common.web.dependencies import part_of
from curator.participation import federated_steps
from curator.participation.loop import Participation
from curator.participation.settlement import Expiry
from curator.store.tables import job_spends
from tacit.encoders import count_sums
from tacit.encoders.count_sums import MOST_SEQUENCES, CountSum
from tacit.encoders.counts import Lists
from tacit.encoders.sequential_ngram_counts import COUNTER, Successors
from tacit.protocol.federation import FederatedStep, JobTerms
from tacit.query.query import Query
from tests.curator.conftest import OPEN, OpenSite, Site, query
from tests.curator.double import FakeWorld
from tests.curator.records.test_records import ask, refused
from tests.curator.records.test_sequence_rounds import (
    ALL_ITEMS,
    FIRST,
    ITEMS,
    ONE,
    SECOND,
    debits,
    give,
    opened,
    serving,
    step_and_query,
)
from tests.curator.records.test_sequence_rounds import it as it

EPSILON = Fraction(1)
LONG, SHORT = "L2 L3 L1 L2 L3", "L2 L3"


def asked(
    it: Site,
    question: CountSum = FIRST,
    number: int = 1,
    terms: dict[str, Any] | None = None,
    step: dict[str, Any] | None = None,
    **query: Any,
) -> tuple[FederatedStep, Query]:
    """A step with terms, and its query; changes of each."""
    _, plain = step_and_query(question, number, **query)
    made = JobTerms.of(
        plain,
        opened=it.clock.now(),
        aggregators=[each.id for each in it.world.aggregators],
        universe=ITEMS,
        epsilon=EPSILON,
        steps_at_most=5,
    )
    if not hasattr(it.app.state, "terms"):
        it.app.state.terms = made  # of the whole job
    document = json.loads(it.app.state.terms.model_dump_json()) | (terms or {})
    return step_and_query(question, number, {"terms": document, **(step or {})}, **query)


@pytest.fixture
def filter_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the public check of paths, which refuses most lies before the filter meets them:
    privacy does not rest on it."""
    monkeypatch.setattr(federated_steps, "after_sum", lambda spends, _asked: spends)


async def spent(it: Site) -> list[Fraction]:
    """S of each record, which only this process knows."""
    async with part_of(it.app, Database).reading() as transaction:
        rows = (await transaction.execute(select(job_spends))).all()
    return [
        Fraction(int(value), int(row.denominator))
        for row in rows
        for value in np.frombuffer(_wide(row), "<i8")
    ]


def _wide(row: Any) -> bytes:
    width = len(row.numerators) // row.records
    octets = np.zeros((row.records, 8), np.uint8)
    octets[:, :width] = np.frombuffer(row.numerators, np.uint8).reshape(row.records, width)
    return octets.tobytes()


@pytest.mark.usefixtures("database_url")
async def test_one_debit_pays_for_all_steps(it: Site) -> None:
    assert (await ask(it, *asked(it)))["contributed"]
    assert opened(it) == [2, 3, 3]
    assert (await ask(it, *asked(it, SECOND, 2)))["contributed"]
    assert opened(it) == [0, 0, 0, 2, 0, 0, 3, 0, 2, 0, 0, 1]
    assert await debits(it) == ["1", "0"]
    assert await debits(it, "curator") == [str(MOST_SEQUENCES), "0"]
    # Three items: 3/15 twice. Two: 2/15 twice.
    assert await spent(it) == [Fraction(2, 5), Fraction(2, 5), Fraction(4, 15)]


@pytest.mark.usefixtures("filter_alone")
async def test_example_c_the_filter_leaves_out_who_has_spent_all(it: Site) -> None:
    """Step 1 four times under new numbers: who has five items spends 1/3 each time and is left out
    the fourth time; who has two counts in all of them."""
    await give(it, f"{LONG}\n{SHORT}\n")
    for number in range(1, 4):
        assert (await ask(it, *asked(it, FIRST, number)))["contributed"]
        assert opened(it) == [1, 3, 3]
    assert await spent(it) == [1, Fraction(2, 5)]
    assert (await ask(it, *asked(it, FIRST, 4)))["contributed"]
    assert opened(it) == [0, 1, 1]
    assert await spent(it) == [1, Fraction(8, 15)]
    assert await debits(it) == ["1", "0", "0", "0"]


@pytest.mark.usefixtures("filter_alone")
async def test_the_first_step_may_lie_about_its_rate_too(it: Site) -> None:
    dear = CountSum.of(COUNTER, Successors(3, 5), 5, (Fraction(50),), ONE)
    assert (await ask(it, *asked(it, dear)))["contributed"]
    assert opened(it) == [0, 0, 0]
    assert await debits(it) == ["1"]


@pytest.mark.usefixtures("filter_alone")
async def test_any_course_spends_no_more_than_epsilon(it: Site) -> None:
    """Random grams at random rates in five steps: no record passes epsilon, and some would have."""
    generator = np.random.default_rng(7)
    await give(it, f"{LONG}\n{SHORT}\nL1 L1 L1 L1 L1\n")
    unfiltered = np.zeros(3)
    for number in range(1, 6):
        rates = tuple(
            Fraction(int(n), 97) for n in sorted(generator.choice(90, 3, replace=False) + 1)
        )
        question = CountSum.of(COUNTER, Successors(3, 5, (ALL_ITEMS,)), 5, rates, np.arange(3))
        assert (await ask(it, *asked(it, question, number)))["contributed"]
        moved = question.moved(_lists())
        unfiltered += moved @ np.array([float(rate) / 5 for rate in question.rates])
    assert max(await spent(it)) <= EPSILON < unfiltered.max()


def _lists() -> Lists:
    return _some([[1, 2, 0, 1, 2], [1, 2], [0] * 5])


def _some(places: list[list[int]]) -> Lists:
    starts = np.cumsum([0, *map(len, places)])
    return Lists(np.concatenate(places).astype(np.int32), starts)


CHANGED: list[tuple[str, dict[str, Any]]] = [
    ("more epsilon", {"epsilon": "2"}),
    ("other records", {"records": 5}),
    ("another universe", {"universe": "cGxhbnBsYW5wbGFucGxhbnBsYW5wbGFucGxhbnBsYW4"}),
    ("other aggregators", {"aggregators": ["aggregator-0", "aggregator-1", "mallory"]}),
    ("another layer", {"layer": "curator"}),
    ("another quorum", {"min_participants": 3}),
    ("more curators", {"n_max": 1000}),
    ("less collusion", {"collusion": {"curators": 0, "aggregators": 1}}),
    ("more steps", {"steps_at_most": 9}),
    ("another unit", {"privacy_unit": "curator"}),
    ("a window", {"window": {"start": "2026-01-01T00:00:00Z", "end": "2026-02-01T00:00:00Z"}}),
    ("opened later", {"opened": "2026-02-01T00:00:00Z"}),
    ("no epsilon", {"epsilon": "0"}),
]


async def test_changed_terms_are_refused_and_debit_nothing_more(it: Site) -> None:
    assert (await ask(it, *asked(it)))["contributed"]
    for what, terms in CHANGED:
        assert refused(await ask(it, *asked(it, SECOND, 2, terms))) == "step_refused", what
    assert await debits(it) == ["1"]


async def test_terms_may_not_come_or_go(it: Site) -> None:
    assert (await ask(it, *asked(it)))["contributed"]
    assert refused(await ask(it, *step_and_query(SECOND, 2))) == "step_refused"
    assert await debits(it) == ["1"]


async def test_a_job_without_terms_cannot_get_them_later(it: Site) -> None:
    assert (await ask(it, *step_and_query()))["contributed"]
    assert refused(await ask(it, *asked(it, SECOND, 2))) == "step_refused"
    assert await debits(it) == ["0.333334"]


async def test_a_round_that_is_not_that_of_its_terms_is_refused(it: Site) -> None:
    changes: list[dict[str, Any]] = [
        {"collusion": {"curators": 0, "aggregators": 1}},
        {"n_max": 50},
        {"min_participants": 3},
    ]
    first = asked(it)[0].terms
    assert first is not None
    for change in changes:
        fixed = {"terms": json.loads(first.model_dump_json())}
        assert refused(await ask(it, *step_and_query(FIRST, 1, fixed, **change))) == "step_refused"
    assert await debits(it) == []


async def test_steps_cannot_be_repeated_reordered_or_too_many(it: Site) -> None:
    assert (await ask(it, *asked(it, FIRST, 1)))["contributed"]
    assert (await ask(it, *asked(it, SECOND, 3)))["contributed"]
    for question, number in ((SECOND, 3), (FIRST, 3), (FIRST, 2), (FIRST, 1), (FIRST, 6)):
        assert refused(await ask(it, *asked(it, question, number))) in (
            "step_refused",
            "window_contributed",
        )
    assert await debits(it) == ["1", "0"]


async def test_even_with_repeats_allowed_a_step_is_answered_once(it: Site) -> None:
    await it.policy(algorithms=["sequential-ngram"], min_participants=2, allow_repeats=True)
    assert (await ask(it, *asked(it)))["contributed"]
    assert refused(await ask(it, *asked(it))) == "step_refused"
    assert await debits(it) == ["1"]


async def test_who_missed_the_first_step_stays_out_and_pays_nothing(it: Site) -> None:
    assert refused(await ask(it, *asked(it, SECOND, 2))) == "step_missed"
    assert refused(await ask(it, *asked(it, FIRST, 3))) == "step_missed"
    assert refused(await ask(it, *asked(it, FIRST, 1))) == "step_refused"
    assert await debits(it) == []


async def test_a_budget_for_one_job_admits_one(it: Site) -> None:
    limits = {"record": {"period": {"epsilon": "1"}}, "curator": {}}
    await it.policy(algorithms=["sequential-ngram"], min_participants=2, **limits)
    assert (await ask(it, *asked(it)))["contributed"]
    assert (await ask(it, *asked(it, SECOND, 2)))["contributed"]
    other = asked(
        it, FIRST, 1, {"opened": it.clock.now().isoformat()}, {"job": "job-2"}, job="job-2"
    )
    assert refused(await ask(it, *other)) == "budget_exceeded"
    assert await debits(it) == ["1", "0"]


async def test_a_paid_step_is_no_sum_without_noise(it: Site) -> None:
    """Both are debited nothing; only the one is without a bound, and only it keeps readings from
    another sum without noise."""
    assert (await ask(it, *asked(it)))["contributed"]
    assert (await ask(it, *asked(it, SECOND, 2)))["contributed"]
    budget = await it.get("/v1/curators/meter/budget")
    assert budget["exact_answers"] == 0
    await it.policy(algorithms=["sequential-ngram"], min_participants=2, **OPEN)
    before = list(it.world.rounds.values())[-1].statement
    window = before.window
    exact = query(register=before.query.register_name)
    it.open(exact, start=window.start, end=window.end)
    await it.take_part()
    budget = await it.get("/v1/curators/meter/budget")
    assert budget["exact_answers"] == 1
    for unit in budget["units"].values():
        assert [each["status"] for each in unit["debits"]] == ["verified", "verified", "unverified"]
        assert (unit["rounds"], unit["unverified_rounds"]) == (3, 0)
        assert unit["lifetime"]["epsilon"] == unit["debits"][0]["epsilon"] != "inf"
        assert [each["epsilon"] for each in unit["debits"][1:]] == ["0", "inf"]
    (answer, *_) = await it.history("meter")
    assert {each["status"] for each in answer["charged"].values()} == {"unverified"}


async def settled(it: Site, place: int, statements: int = 3) -> None:
    """The round at this place ends, aborted with so many "never frozen"."""
    signed = list(it.world.rounds.values())[place]
    it.world.finish(signed.statement, "aborted", statements)
    it.clock.advance(timedelta(hours=2))
    await part_of(it.app, Participation).settle()


async def test_a_job_that_ends_with_its_first_round_never_frozen_is_credited(it: Site) -> None:
    assert (await ask(it, *asked(it)))["contributed"]
    await settled(it, 0)
    budget = (await it.get("/v1/curators/meter/budget"))["units"]["record"]
    assert budget["worst_instant"]["epsilon"] == "0"
    # ... and then nothing more can be asked for it.
    assert refused(await ask(it, *asked(it, SECOND, 2))) == "step_missed"


async def test_a_job_that_went_on_is_not_credited(it: Site) -> None:
    """Else a coordinator would have the first round "never frozen" and the others for nothing."""
    assert (await ask(it, *asked(it)))["contributed"]
    assert (await ask(it, *asked(it, SECOND, 2)))["contributed"]
    await settled(it, 0)
    await settled(it, 1)
    budget = (await it.get("/v1/curators/meter/budget"))["units"]["record"]
    assert budget["worst_instant"]["epsilon"] == "1"
    assert max(await spent(it)) == Fraction(2, 5)


@pytest.mark.parametrize("over", [True, False])
async def test_what_records_spent_is_dropped_with_old_rounds(it: Site, over: bool) -> None:
    """From then on the job is answered no more, since S would begin again. While a round's end is
    not known, all stays: it may be credited, or be asked again."""
    for number in (1, 2):
        assert (await ask(it, *asked(it, FIRST, number)))["contributed"]
    for signed in list(it.world.rounds.values())[: 2 if over else 1]:
        it.world.finish(signed.statement, "released")
    it.clock.advance(timedelta(hours=2))
    await part_of(it.app, Participation).settle()
    it.clock.advance(timedelta(days=400))
    before = await spent(it)
    assert max(before) > 0
    await part_of(it.app, Expiry).look()
    assert await spent(it) == ([] if over else before)
    answer = await ask(it, *asked(it, FIRST, 3))
    assert refused(answer) == ("step_missed" if over else None)
    assert await debits(it) == (["1", "0"] if over else ["1", "0", "0"])


async def test_a_curator_that_dies_between_parts_counts_them_once(
    site: OpenSite, it: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question in parts of five words; the process is another one for each. S is that of the
    whole, and each cell is there once."""
    await give(it, f"{LONG}\n{SHORT}\n")
    assert (await ask(it, *asked(it)))["contributed"]
    alone = await spent(it)
    monkeypatch.setattr(count_sums, "MAX_DIMENSION", 5)
    parts = SECOND.parts
    assert len(parts) == 3
    terms, steps, answers = it.app.state.terms, it.app.state.steps, []
    for number, part in enumerate(parts, 2):
        async with site() as again:
            again.app.state.steps, again.app.state.terms = steps, terms
            assert (await ask(again, *asked(again, part, number)))["contributed"]
            answers += opened(again)
            assert refused(await ask(again, *asked(again, part, number))) is not None
            after = await spent(again)
            assert (await debits(again))[1:] == ["0"] * (number - 1)
    monkeypatch.setattr(count_sums, "MAX_DIMENSION", 65_536)
    assert answers == SECOND.total(_some([[1, 2, 0, 1, 2], [1, 2]])).tolist()
    assert [b - a for a, b in zip(alone, after, strict=True)] == [Fraction(1, 3), Fraction(2, 15)]


async def test_a_restored_curator_answers_no_later_step(
    site: OpenSite, world: FakeWorld, tmp_path: Path
) -> None:
    """What it spent in the job may be lost with what was restored, and its debit, too."""
    async with serving(site, world) as running:
        assert (await ask(running, *asked(running)))["contributed"]
        terms, steps = running.app.state.terms, running.app.state.steps
    (tmp_path / "curator").mkdir(exist_ok=True)
    (tmp_path / "curator" / "restored").touch()
    async with site() as again:
        again.app.state.steps, again.app.state.terms = steps, terms
        again.clock.advance(timedelta(days=3))  # rounds of now are answered again
        assert refused(await ask(again, *asked(again, SECOND, 2))) == "opened_before_restore"
        assert await debits(again) == ["1"]


@pytest.mark.usefixtures("filter_alone")
async def test_each_curator_of_a_host_has_its_own_sums_and_its_own_debit(
    site: OpenSite, it: Site
) -> None:
    """One refuses the first step and stays out of the job; another spends all and adds zeros from
    then on; a third goes on counting. Their ledgers differ, the vectors show who counts."""
    names = ["poor", "rich", "short"]
    await it.enrol("gateway", names)
    for name, content in zip(names, (LONG, LONG, SHORT), strict=True):
        path = f"/v1/sequences?curator={name}&name=visits"
        headers = {"Content-Type": "text/plain"}
        await it.request("POST", path, None, content=content.encode(), headers=headers)
    await it.request("DELETE", "/v1/curators/meter/sequences?name=visits", status=204)
    limits = {"record": {"period": {"epsilon": "1/2"}}}
    agreed = {"algorithms": ["sequential-ngram"], "min_participants": 2}
    await it.request("PUT", "/v1/curators/poor/policy", {**agreed, **limits})
    seen = []
    for number in range(1, 5):
        assert (await ask(it, *asked(it, FIRST, number)))["contributed"]
        seen.append(opened(it))
    # "rich" adds (1, 2, 2) three times and nothing then, "short" (0, 1, 1) each time.
    assert seen == [[1, 3, 3]] * 3 + [[0, 1, 1]]
    told = {}
    for name in names:
        answer = (await it.history(name))[0]
        budget = (await it.get(f"/v1/curators/{name}/budget"))["units"]["record"]
        told[name] = refused(answer), budget["worst_instant"]["epsilon"]
    assert told == {"poor": ("step_missed", "0"), "rich": (None, "1"), "short": (None, "1")}
    # A larger budget later does not let it in: it has not paid for what the others have.
    await it.request("PUT", "/v1/curators/poor/policy", agreed)
    assert (await ask(it, *asked(it, FIRST, 5)))["contributed"]
    assert opened(it) == [0, 1, 1]
    assert refused((await it.history("poor"))[0]) == "step_missed"


@pytest.mark.usefixtures("filter_alone")
async def test_what_was_left_out_shows_nowhere(it: Site) -> None:
    """Three lone curators in the same rounds: a sequence that is left out of two of five steps, one
    that counts in all, and no table. Sizes, logs, refusals, states and debits are the same."""
    names = {"meter": f"{LONG}\n", "other": f"{SHORT}\n" * 9, "empty": None}
    for name, content in names.items():
        if name != "meter":
            await it.enrol(name)
        path = f"/v1/sequences?curator={name}&name=visits"
        headers = {"Content-Type": "text/plain"}
        if content is not None:
            await it.request("POST", path, None, content=content.encode(), headers=headers)
    with capture_logs() as logs:
        for number in range(1, 6):
            await ask(it, *asked(it, FIRST, number))
            assert opened(it) == ([1, 11, 11] if number < 4 else [0, 9, 9])
    lines = [repr(sorted(entry.items())) for entry in logs if entry["event"] == "contribution"]
    plain = Counter(re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9]+", "", line) for line in lines)
    assert set(plain.values()) == {15}, plain
    assert not it.world.refusals
    for aggregator in it.world.aggregators:
        assert len(aggregator.bodies) == 15
        sizes = {
            name: {len(b) for n, b in aggregator.bodies if n == name}
            for name, _ in aggregator.bodies
        }
        assert len(sizes) == 5
        assert all(max(each) - min(each) <= 1 for each in sizes.values())
    told = []
    for name in names:
        history = await it.history(name)
        budget = (await it.get(f"/v1/curators/{name}/budget"))["units"]["record"]
        shown = [(each["state"], each["delivery"], each["refused_because"]) for each in history]
        told.append((shown, [debit["epsilon"] for debit in budget["debits"]]))
    assert told[0] == told[1] == told[2]
