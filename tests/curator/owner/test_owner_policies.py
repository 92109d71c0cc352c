"""An owner's own policy: stricter than its operator's, and both are asked; and a policy that is
tried on the past (spec: console, section 6)."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction
from typing import Any

import httpx
from hypothesis import given
from hypothesis import strategies as st

from curator.errors import PolicyRefused
from curator.owner.policies import answered, wider
from curator.policy import Limit, Limits, Policy, check_policy
from tacit.query.disclosure import DisclosureRule
from tacit.query.fields import Collusion, Window
from tacit.query.terms import Mechanism, Stance, Validity
from tests.curator.conftest import NOISY, OPEN, PLAIN, Site, query
from tests.curator.double import FakeWorld
from tests.curator.test_policy import LOCAL, opened

AMOUNTS = st.none() | st.integers(0, 3).map(Fraction)
LIMIT = st.builds(Limit, epsilon=AMOUNTS, delta=AMOUNTS)
LIMITS = st.builds(Limits, period=LIMIT, lifetime=LIMIT, all_aggregators=LIMIT)
WORLD = FakeWorld()
ROUNDS = [
    opened(query(changes, min_participants=least), WORLD)
    for changes in (NOISY, LOCAL, PLAIN)
    for least in (2, 4)
]
NAMES = [entry.fingerprint.hex() for entry in ROUNDS[0].aggregators]
HASHES = [each.query.digest() for each in ROUNDS]


def some_of(values: Any, most: int = 3) -> Any:
    return st.lists(st.sampled_from(values), unique=True, max_size=most).map(tuple)


POLICIES = st.builds(
    Policy,
    record=LIMITS,
    curator=LIMITS,
    min_participants=st.integers(1, 4),
    mechanisms=some_of(list(Mechanism), 4),
    stances=some_of(list(Stance)),
    allow_unverified=st.booleans(),
    accept_any=st.booleans(),
    queries=some_of(HASHES),
    allow_repeats=st.booleans(),
    algorithms=some_of(["kmeans", "crowd-tasking"]),
    public_columns=some_of(["label", "kind"]),
    min_aggregators=st.sampled_from([1, 2, 3, "all"]),
    required_aggregators=some_of(NAMES),
    min_collusion=st.builds(Collusion, curators=st.integers(0, 1), aggregators=st.integers(0, 2)),
    require_validity=st.none() | st.just(Validity.PROVED),
    exact=st.none() | st.builds(DisclosureRule, min_participants=st.integers(2, 4)),
)


def agrees(policy: Policy, place: int) -> bool:
    descriptor = ROUNDS[place]
    try:
        check_policy(policy, descriptor, verified=place < 4, anchors=3)
    except PolicyRefused:
        return False
    return True


@given(POLICIES, POLICIES)
def test_what_is_not_wider_answers_nothing_that_the_operator_would_not(
    owner: Policy, operator: Policy
) -> None:
    assert list(wider(operator, operator)) == []
    if list(wider(owner, operator)):
        return
    for place in range(len(ROUNDS)):
        assert agrees(operator, place) or not agrees(owner, place)
    for unit in ("record", "curator"):
        for name in Limits.model_fields:
            for figure in Limit.model_fields:
                most = getattr(getattr(getattr(operator, unit), name), figure)
                own = getattr(getattr(getattr(owner, unit), name), figure)
                assert most is None or (own is not None and own <= most)


async def owner_of(s: Site, curator: str) -> httpx.AsyncClient:
    asked = {"scope": "curator", "subject": curator, "label": "owner"}
    token = (await s.request("POST", "/v1/tokens", asked, 201))["token"]
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app=s.app),
        base_url="http://curator.test",
        headers={"Authorization": f"Bearer {token}"},
    )


async def test_both_must_agree(s: Site) -> None:
    """The owner refuses what the operator allows, and later the operator what the owner allows."""
    await s.policy(**OPEN)
    await s.enrol("gateway", ["g-1", "g-2"])
    async with await owner_of(s, "g-1") as owner:
        path = "/v1/curators/g-1/policy"
        base = (await owner.get(path)).json()
        stricter = {**base, "curator": {"period": {"epsilon": "1", "delta": "0.0001"}}}
        assert (await owner.put(path, json=stricter)).status_code == 200
        assert (await owner.get(path)).json()["curator"]["period"]["epsilon"] == "1"
        # The operator's own is as it was, and stays apart.
        seen = await s.get(path)
        assert seen == await s.get("/v1/policy")
        assert (await s.get(f"{path}?of=owner"))["curator"]["period"]["epsilon"] == "1"
        limits = (await s.get("/v1/curators/g-1/budget"))["units"]["curator"]["limits"]
        assert limits["period"]["epsilon"] == "1"
    s.open(query({**NOISY, "epsilon": "2"}))
    await s.take_part()
    one, other = (await s.history("g-1"))[0], (await s.history("g-2"))[0]
    assert [each["name"] for each in one["refused_because"]] == ["budget_exceeded"]
    assert one["refused_because"][0]["figures"]["limit"] == "1"
    assert other["contributed"]
    await s.policy(**{**OPEN, "stances": ["paper"]})
    s.open(query({**NOISY, "name": "another"}))
    await s.take_part()
    refused = (await s.history("g-1"))[0]["refused_because"]
    assert [each["name"] for each in refused] == ["policy_refused"]


async def test_a_wider_policy_is_refused_at_its_fields(s: Site) -> None:
    await s.policy(min_participants=5, mechanisms=["local"])
    await s.enrol("gateway", ["g-1", "g-2"])
    async with await owner_of(s, "g-1") as owner:
        path = "/v1/curators/g-1/policy"
        base = (await owner.get(path)).json()
        asked = {**base, "min_participants": 2, "mechanisms": ["local", "distributed"]}
        answer = await owner.put(path, json=asked)
        assert answer.status_code == 422
        found = answer.json()
        assert found["type"].endswith("wider_than_the_operators")
        assert {each["pointer"]: each["detail"] for each in found["errors"]} == {
            "/min_participants": "the operator demands 5",
            "/mechanisms": "the operator allows local",
        }
        assert (await owner.get(path)).json() == base
        for other in ("/v1/curators/g-2/policy", "/v1/policy"):
            assert (await owner.put(other, json=base)).status_code == 403
        assert (await owner.delete(path)).status_code == 204


async def test_what_an_owner_drops_is_its_own(s: Site) -> None:
    await s.enrol("gateway", ["g-1", "g-2"])
    path = "/v1/curators/g-1/policy"
    base = await s.get(path)
    await s.request("PUT", path, {**base, "min_participants": 7}, 200)
    async with await owner_of(s, "g-1") as owner:
        own = {**(await owner.get(path)).json(), "min_participants": 9}
        assert (await owner.put(path, json=own)).status_code == 200
        assert (await owner.delete(path)).status_code == 204
        assert (await owner.get(path)).json()["min_participants"] == 7
        own["min_participants"] = 9
        assert (await owner.put(path, json=own)).status_code == 200
    await s.request("DELETE", path, None, 204)
    assert (await s.get(path))["min_participants"] == base["min_participants"]
    assert (await s.get(f"{path}?of=owner"))["min_participants"] == 9


# --- tried on the past ---------------------------------------------------------------------------


async def test_the_past_is_what_really_happened(s: Site) -> None:
    """Under the policy that held, the trial says what the ledger did; nothing is written."""
    await s.policy(curator={"period": {"epsilon": "5"}}, allow_repeats=True)
    await s.enrol("gateway", ["g-1", "g-2"])
    asked = [query({**NOISY, "name": f"q-{at}", "epsilon": e}) for at, e in enumerate("232")]
    for each in asked:
        s.open(each)
        await s.take_part()
        s.clock.advance(timedelta(minutes=1))
    history = await s.history("g-1")
    taken = [each["contributed"] for each in history]
    assert sorted(taken) == [False, True, True]
    policy = await s.get("/v1/policy")
    before = await s.get("/v1/curators/g-1/budget")
    for path in ("/v1/policy/preview", "/v1/curators/g-1/policy/preview"):
        found = await s.request("POST", path, policy, 200)
        assert (found["rounds"], found["answered"]) == (3, 2)
        assert found["refused"] == {"budget_exceeded": 1}
        none = {**policy, "mechanisms": ["local"]}
        found = await s.request("POST", path, none, 200)
        assert found["refused"] == {"policy_refused": 3}
    assert await s.get("/v1/curators/g-1/budget") == before


def test_repeats_and_periods() -> None:
    policy = Policy(curator=Limits(period=Limit(epsilon=Fraction(1))))
    once = opened(query(NOISY), FakeWorld())
    assert answered((policy,), [once, once], 3) == {"answered": 1, "window_contributed": 1}
    repeats = policy.model_copy(update={"allow_repeats": True})
    assert answered((repeats,), [once, once], 3) == {"answered": 1, "budget_exceeded": 1}
    later = once.model_copy(update={"opened": once.opened + timedelta(days=1)})
    assert answered((repeats,), [once, later], 3) == {"answered": 2}
    forever = repeats.model_copy(update={"curator": Limits(lifetime=Limit(epsilon=Fraction(1)))})
    assert answered((forever,), [once, later], 3) == {"answered": 1, "budget_exceeded": 1}


def test_a_second_sum_without_noise() -> None:
    """As `consent` has it: of another query too, if the windows meet."""
    policy = Policy(exact=DisclosureRule(min_participants=2))
    first, other = (opened(query(name=name), FakeWorld()) for name in ("first", "other"))
    assert answered((policy,), [first, other], 3) == {"answered": 1, "in_exact_sum": 1}
    assert answered((policy,), [first, first], 3) == {"answered": 1, "window_contributed": 1}
    hour = first.window.end - first.window.start
    window = Window(start=first.window.start + hour, end=first.window.end + hour)
    assert answered((policy,), [first, other.model_copy(update={"window": window})], 3) == {
        "answered": 2
    }
    repeats = policy.model_copy(update={"allow_repeats": True})
    assert answered((repeats,), [first, other], 3) == {"answered": 2}
    assert answered((Policy(),), [first], 3) == {"policy_refused": 1}
