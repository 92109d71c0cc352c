"""`verify.js` judges as `tacit round verify` does: real rounds, and one change of each of their
fields, signed anew or not.

The rounds are released by real aggregators: additive with two, local, Shamir, proved, and each
function. Every change is judged by both; a field that no change touches fails the test.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from pydantic import ValidationError

from aggregator.context import Aggregator
from cli.services.deployment import Deployment
from common.web.dependencies import part_of
from coordinator.registry.members import Registry
from tacit.errors import DomainError
from tacit.protocol.round.agreement import manifest_hash_of
from tacit.protocol.round.descriptor import DESCRIPTOR_LABEL, RoundDescriptor
from tacit.protocol.round.messages import COMMITMENT_LABEL, Commitment, Transcript
from tacit.protocol.round.opening import check_transcript, commitment_hash
from tacit.protocol.sealing_sessions import SEAL_KEY_LABEL, SealKeyStatement
from tacit.query.functions import decode, dimension
from tacit.wire import encode_binary, parse_binary
from tests.browser.conftest import Site
from tests.coordinator.conftest import house as house
from tests.coordinator.double import WINDOW, House, integers, query

pytestmark = pytest.mark.slow
Houses = Callable[..., AbstractAsyncContextManager[House]]

NOISY = {"mechanism": "distributed", "epsilon": "20", "collusion": {"aggregators": 1}}
QUERIES: dict[str, dict[str, Any]] = {
    "sum": {},
    "noisy": {**NOISY, "aggregators": 2},
    "local": {"mechanism": "local", "epsilon_i": "20", "sharing": "none", "aggregators": 1},
    "shamir": {
        **NOISY,
        "sharing": "shamir",
        "threshold": 2,
        "aggregators": 3,
        "c_noise": 2,
        "layer": "aggregator",
    },
    "count": {"function": "count"},
    "mean": {"function": "mean", "bounds": ["-1", "4"]},
    "centre": {"function": "mean", "bounds": ["0", "2.001"]},  # whose middle is no multiple
    "variance": {"function": "variance"},
    "histogram": {"function": "histogram", "edges": ["0", "1", "2.5"]},
    "percentiles": {
        "function": "histogram",
        "edges": ["-1", "0.5", "1", "2.5", "7"],
        "percentiles": ["0.5", "33.333", "50", "97.5"],
    },
    "vector": {"function": "vector_sum", "dimension": 3},
    "table": {**NOISY, "function": "table", "columns": {"sex": ["f", "m"], "age": [0, 18, None]}},
    "measure": {**NOISY, "function": "table", "columns": {"age": [0, 18, 65]}, "measure": "kwh"},
    "third": {"resolution": "0.125", "window": WINDOW},
}


async def evidence(it: House, changes: dict[str, Any]) -> dict[str, Any]:
    """What a console gives a browser of a released round."""
    asked = query(**{"aggregators": 2, **changes})
    opened = await it.open(asked, **({"window": None} if "columns" in changes else {}))
    width = dimension(opened.descriptor.query)
    values = integers(6 * width, largest=900).reshape(6, width) - 100
    await opened.contribute(next(iter(it.federation.senders.values())), values)
    assert (await it.finish(opened))["state"] == "released"
    identity = (await it.client.get("/.well-known/tacit-coordinator")).json()
    transcript = (await it.ask("GET", f"/v1/rounds/{opened.id}/transcript")).json()
    found = await it.result(opened)
    return {
        "round": opened.id,
        "coordinator": identity["identity_key"],
        "result": found["result"],
        "transcript": transcript,
    }


def judged(case: dict[str, Any]) -> bool:
    """Whether the library accepts it."""
    try:
        transcript = Transcript.model_validate_json(json.dumps(case["transcript"]))
        checked = check_transcript(transcript, parse_binary(case["coordinator"]))
        descriptor = transcript.descriptor.statement
        same = descriptor.round == case["round"]
        return same and decode(descriptor.query, checked.total) == case["result"]
    except (DomainError, ValidationError, ValueError):
        return False


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every leaf, and of every list and object."""
    if path:
        yield path
    if isinstance(value, dict):
        for name in value:
            yield from places(value[name], (*path, name))
    elif isinstance(value, list):
        for index, item in enumerate(value[:3]):
            yield from places(item, (*path, index))


def changes(value: Any) -> list[Any]:
    """Other values of about the same form."""
    if isinstance(value, int) and not isinstance(value, bool):
        return [value + 1, 0] if value else [1]
    return [changed(value)]


def changed(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case str() if value[10:11] == "T" and value.endswith("Z"):
            return f"2001{value[4:]}"
        case str() if value[:1].isdigit() and value.replace(".", "").isdigit():
            return value[:-1] + ("1" if value[-1] != "1" else "2")
        case str():
            return value[:-2] + ("AA" if value[-2:] != "AA" else "BA")
        case None:
            return 1
        case list():
            return value[:-1] if value else [0]
        case dict():
            return {**value, "one_more": 1}
    raise AssertionError(value)


def mutants(case: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """One change of each field."""
    for path in places({name: case[name] for name in ("round", "transcript", "result")}):
        for value in changes(_at(case, path)):
            yield "/".join(map(str, path)), _with(case, path, value)
    swapped = copy.deepcopy(case)
    swapped["transcript"]["reveals"].reverse()
    yield "reveals reversed", swapped
    doubled = copy.deepcopy(case)
    doubled["transcript"]["commitments"].append(doubled["transcript"]["commitments"][0])
    yield "a commitment twice", doubled


def signed_anew(it: House, case: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Changes that coordinator and aggregators sign together: each check stands alone behind the
    signatures."""
    unsigned = {
        name: case["transcript"][name]
        for name in ("quorum", "participants", "contributions", "members_hash")
    }
    statement = case["transcript"]["descriptor"]["statement"]
    for within, whole in ((("descriptor", "statement"), statement), ((), unsigned)):
        for path in places(whole):
            place = ("transcript", *within, *path)
            for value in changes(_at(case, place)):
                altered = _with(case, place, value)
                try:
                    altered["transcript"] = _signed_by_all(it, altered["transcript"])
                except (ValidationError, DomainError, ValueError, LookupError, TypeError):
                    continue  # nobody of ours can sign it
                yield "signed: " + "/".join(map(str, (*within, *path))), altered


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def _with(case: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    altered = copy.deepcopy(case)
    _at(altered, path[:-1])[path[-1]] = value
    return altered


def _signed_by_all(it: House, transcript: dict[str, Any]) -> dict[str, Any]:
    """The transcript with every signature and hash made anew over what it says now."""
    identity = part_of(it.app, Registry).own.current
    aggregators = [part_of(wire.app, Aggregator) for wire in it.wires]
    keys = {each.id: each.identities.current for each in aggregators}
    statement = copy.deepcopy(transcript["descriptor"]["statement"])
    by_key = {encode_binary(each.public_key): each for each in keys.values()}
    for entry in statement["aggregators"]:
        own = by_key[entry["identity_key"]]
        said = SealKeyStatement.model_validate_json(json.dumps(entry["seal_key"]["statement"]))
        entry["seal_key"] = json.loads(own.sign(SEAL_KEY_LABEL, said).model_dump_json())
    descriptor = RoundDescriptor.model_validate_json(json.dumps(statement))
    signed = identity.sign(DESCRIPTOR_LABEL, descriptor)
    digest = descriptor.digest()
    manifest = manifest_hash_of(
        descriptor.round,
        digest,
        transcript["quorum"],
        transcript["participants"],
        transcript["contributions"],
        parse_binary(transcript["members_hash"]),
    )
    commitments = []
    for reveal, before in zip(transcript["reveals"], transcript["commitments"], strict=True):
        name = reveal["aggregator"]
        commitment = Commitment(
            round=descriptor.round,
            descriptor_hash=digest,
            manifest_hash=manifest,
            aggregator=name,
            hash=commitment_hash(
                digest,
                manifest,
                name,
                parse_binary(reveal["nonce"]),
                parse_binary(reveal["partial"]),
            ),
            offset=before["statement"].get("offset"),
        )
        committed = keys[name].sign(COMMITMENT_LABEL, commitment)
        commitments.append(json.loads(committed.model_dump_json()))
    return {
        **transcript,
        "descriptor": json.loads(signed.model_dump_json()),
        "commitments": commitments,
    }


JUDGE = """async ([address, cases]) => {
  const { check } = await import(address);
  const found = [];
  for (const each of cases) {
    try { await check(each); found.push([true, ""]); }
    catch (error) { found.push([false, `${error.constructor.name}: ${error.message}`]); }
  }
  return found;
}"""


@pytest.fixture
def judge(window: Any) -> Callable[[list[dict[str, Any]]], list[list[Any]]]:
    """`judge(cases)`: what the browser says of each."""
    page = window().go("/console/rounds")
    style = page.locator("link[rel=stylesheet]").get_attribute("href")
    address = style.replace("console.css", "verify.js")
    return lambda cases: page.evaluate(JUDGE, [address, cases])


def test_both_judge_alike(house: Houses, judge: Any) -> None:
    """Real rounds pass in both; every change has the same verdict in both."""
    rounds: dict[str, list[tuple[str, dict[str, Any]]]] = {}

    async def run() -> None:
        async with house(3) as it:
            await it.host("gateway", 6)
            for name, asked in QUERIES.items():
                case = await evidence(it, asked)
                rounds[name] = [("as it is", case), *mutants(case), *signed_anew(it, case)]

    with ThreadPoolExecutor(1) as apart:  # the browser's loop runs in this thread
        apart.submit(asyncio.run, run()).result()
    refused = accepted = 0
    for name, cases in rounds.items():
        verdicts = judge([case for _, case in cases])
        for (place, case), (good, why) in zip(cases, verdicts, strict=True):
            assert good == judged(case), f"{name}, {place}: {good} ({why})"
            refused += not good
            accepted += good and place.startswith("signed")
        assert verdicts[0][0]
    assert refused > 100 * len(rounds)
    assert accepted > 10 * len(rounds)  # what no rule forbids: the signatures hold, too


def test_both_judge_rounds_of_the_demo_alike(site: Site, judge: Any) -> None:
    """Five aggregators, the paper stance."""
    cases = []
    with Deployment.load(site.home).coordinator.client() as client:
        identity = client.get("/.well-known/tacit-coordinator")
        for head in client.rounds.list(state="released"):
            path = f"/v1/rounds/{head['id']}"
            case = {
                "round": head["id"],
                "coordinator": identity["identity_key"],
                "result": client.get(f"{path}/result")["result"],
                "transcript": client.get(f"{path}/transcript"),
            }
            cases += [("as it is", case), *mutants(case)]
    verdicts = judge([case for _, case in cases])
    for (place, case), (good, why) in zip(cases, verdicts, strict=True):
        assert good == judged(case), f"{place}: {good} ({why})"
        assert good or place != "as it is"


def test_the_page_checks_its_round(window: Any) -> None:
    it = window()
    page = it.go("/console/rounds")
    page.locator("table a").nth(2).click()
    page.get_by_role("button", name="Check in this browser").click()
    page.get_by_text("Checked in this browser in").wait_for()
    assert page.locator(".checks li").count() == 7
    assert page.get_by_role("rowheader", name="together").count() == 1


def test_another_coordinator_than_before_is_noticed(window: Any) -> None:
    it = window()
    page = it.go("/console/rounds")
    page.locator("table a").first.click()
    page.get_by_role("button", name="Check in this browser").click()
    page.get_by_text("Checked in this browser in").wait_for()
    page.evaluate(
        """() => {
          const name = Object.keys(localStorage).find((each) => each.startsWith("tacit-known"));
          const known = JSON.parse(localStorage.getItem(name));
          known.aggregators = Object.fromEntries(
            Object.keys(known.aggregators).map((id) => [id, "00"]));
          localStorage.setItem(name, JSON.stringify(known));
        }"""
    )
    page.reload()
    page.get_by_role("button", name="Check in this browser").click()
    page.get_by_text("is not the one that was known before").wait_for()
