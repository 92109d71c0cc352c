"""The differencing guard against a brute-force twin, its worked examples, and its speed limits."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit import sets
from tacit.protocol import differencing
from tacit.protocol.differencing import Release, refusal, releases, scopes
from tests.property_examples import examples
from tests.tacit.examples import query


def release(
    name: str, members: set[int] | range, minimum: int = 2, job: str | None = None, size: int = 0
) -> Release:
    bits = np.zeros(size or max(members, default=0) + 1, np.bool_)
    bits[list(members)] = True
    return Release(name, sets.pack(bits), minimum, job)


def members_of(item: Release) -> frozenset[int]:
    bits = np.unpackbits(np.frombuffer(item.members, np.uint8), bitorder="little")
    return frozenset(np.flatnonzero(bits).tolist())


def brute_force(new: Release, earlier: list[Release]) -> bool:
    """Whether the module's rules refuse, tried literally on every choice of sets."""
    everything = [new, *earlier]
    most = max(item.minimum for item in everything)

    def exempt(chosen: list[Release]) -> bool:
        others = [item for item in chosen if item is not new]
        return new.job is not None and all(item.job == new.job for item in others)

    def refuses(difference: int, chosen: list[Release]) -> bool:
        return 0 < difference < max(item.minimum for item in chosen) and not exempt(chosen)

    for whole in everything:
        inside, others = members_of(whole), [item for item in everything if item is not whole]
        # any parts: nonzero coefficients of 1_S - sum of 1_T
        for count in range(1, len(others) + 1):
            for parts in combinations(others, count):
                chosen = [whole, *parts]
                if not any(item is new for item in chosen):
                    continue
                concerned = frozenset().union(*(members_of(item) for item in chosen))
                wrong = sum(
                    (number in inside) != sum(number in members_of(part) for part in parts)
                    for number in concerned
                )
                if refuses(wrong, chosen):
                    return True
        # all parts together, where all ask for protection
        if whole.minimum <= 1:
            continue
        within = [
            item for item in others if item.minimum > 1 and len(members_of(item) - inside) < most
        ]
        chosen = [whole, *within]
        if within and any(item is new for item in chosen):
            union = frozenset().union(*(members_of(item) for item in within))
            if refuses(len(union ^ inside), chosen):
                return True
    return False


@st.composite
def cases(draw: st.DrawFn) -> tuple[Release, list[Release]]:
    size = draw(st.integers(1, 9))
    jobs = st.sampled_from([None, None, None, "j", "k"])
    made = [
        release(
            f"round-{place}",
            draw(st.sets(st.integers(0, size - 1), min_size=1)),
            draw(st.integers(1, 4)),
            draw(jobs),
        )
        for place in range(draw(st.integers(1, 6)))
    ]
    # Equal sets are compared as one, with the larger minimum: give them the same one here.
    minima: dict[tuple[frozenset[int], bool], int] = {}
    new, *earlier = made
    kept = []
    for item in earlier:
        key = (members_of(item), new.job is not None and item.job == new.job)
        if key not in minima:
            minima[key] = item.minimum
            kept.append(item)
    return new, kept


@pytest.mark.parametrize(
    ("new", "earlier", "refused"),
    [
        (range(10), [], False),
        (range(10), [range(10)], False),
        (range(10), [range(9)], True),
        (range(10), [range(8)], True),
        (range(10), [range(7)], False),  # three differ, and three is the minimum
        (range(9), [range(1, 10)], True),  # one here, another there
        (range(100, 110), [range(10)], False),
    ],
    ids=["first", "equal", "one fewer", "two fewer", "three fewer", "swapped", "disjoint"],
)
def test_pairs(new: range, earlier: list[range], refused: bool) -> None:
    known = [release(f"round-{place}", item, 3) for place, item in enumerate(earlier)]
    found = refusal(release("new", new, 3), known)
    assert (found is not None) == refused
    if found is not None:
        assert found.rounds == ("round-0",)
        assert found.minimum == 3
        assert found.reason.startswith("its curators differ from those of round round-0")


def test_of_several_close_sets_the_first_is_named() -> None:
    known = [release("a", range(20), 3), release("b", range(9), 3), release("c", range(8), 3)]
    found = refusal(release("new", range(10), 3), known)
    assert found.rounds == ("b",)


SUBSTATION = range(30)
FEEDERS = (range(12), range(12, 20), range(20, 29))  # curator 29 hangs on no feeder


def test_a_substation_after_its_feeders() -> None:
    known = [release(f"feeder-{place}", item, 5) for place, item in enumerate(FEEDERS)]
    found = refusal(release("substation", SUBSTATION, 5), known)
    assert set(found.rounds) == {"feeder-0", "feeder-1", "feeder-2"}
    assert refusal(release("substation", SUBSTATION, 5), known[:2]) is None
    assert refusal(release("substation", range(29), 5), known) is None  # exactly its feeders


def test_the_last_feeder_after_its_substation() -> None:
    known = [
        release("substation", SUBSTATION, 5),
        *(release(f"feeder-{place}", item, 5) for place, item in enumerate(FEEDERS[:2])),
    ]
    found = refusal(release("feeder-2", FEEDERS[2], 5), known)
    assert "substation" in found.rounds


def test_a_part_that_covers_the_gap_does_not_hide_it() -> None:
    """All parts together are the whole; two of them leave one curator of it."""
    known = [
        release("left", range(15), 5),
        release("right", range(15, 29), 5),
        release("middle", range(8, 30), 5),
    ]
    found = refusal(release("whole", range(30), 5), known)
    assert set(found.rounds) == {"left", "right"}


def test_a_set_outside_does_not_hide_parts_that_cover_a_whole() -> None:
    """The parts overlap too much for a subtraction; all but one curator are in one of them."""
    known = [release("left", range(20), 5), release("right", range(9, 29), 5)]
    outside = release("outside", {*range(5), *range(100, 105)}, 5)
    for earlier in (known, [*known, outside], [outside, *known]):
        found = refusal(release("whole", range(30), 5), earlier)
        assert set(found.rounds) == {"left", "right"}


def test_a_set_below_the_minimum_is_no_part_of_itself() -> None:
    assert refusal(release("small", range(3), 5), [release("a", range(10, 14), 1)]) is None


def test_a_reason_names_the_first_three_rounds() -> None:
    for count, ending in ((3, "c it makes"), (4, "c ... it makes")):
        parts = [range(place * 10, place * 10 + 10) for place in range(count)]
        known = [release("abcd"[place], item, 5) for place, item in enumerate(parts)]
        found = refusal(release("whole", range(10 * count + 1), 5), known)
        assert f"rounds a, b, {ending}" in found.reason
        assert found.rounds == tuple("abcd"[:count])


@pytest.mark.parametrize(
    ("whole", "parts", "looks"),
    [
        # Parts of just the minimum are all needed: all at once, then nothing is left to try.
        (range(100), [(range(place, place + 5), 5) for place in range(0, 100, 5)], 22),
        # Just the minimum is in no part: the first look ends it.
        (range(25), [(range(10), 5), (range(10, 20), 5)], 3),
        # After two parts are taken, the third would make just the minimum wrong.
        (range(40), [(range(20), 5), (range(20, 40), 5), ({0, 1, 100, 101, 102}, 1)], 6),
        # One set has just the minimum of the new one outside: it is no whole of it.
        (range(10), [(range(5, 40), 5), (range(20, 30), 5)], 0),
        # No set asks for anything.
        (range(10), [(range(9), 1)], 0),
    ],
    ids=["needed", "uncovered", "wrong", "no whole", "no minimum"],
)
def test_the_search_looks_no_more_than_it_must(
    monkeypatch: pytest.MonkeyPatch,
    whole: range,
    parts: list[tuple[set[int] | range, int]],
    looks: int,
) -> None:
    """A look too many would refuse what can be ruled out."""
    new = release("new", whole, max(minimum for _, minimum in parts), size=200)
    known = [release(f"p{n}", item, least) for n, (item, least) in enumerate(parts)]
    monkeypatch.setattr(differencing, "MOST_LOOKS", looks)
    assert refusal(new, known) is None
    monkeypatch.setattr(differencing, "MOST_LOOKS", looks - 1)
    found = refusal(new, known)
    assert (found is not None) == (looks > 0)
    assert found is None or "rule a difference out" in found.reason


def test_the_last_look_still_finds_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    known = [release(f"p{n}", range(10 * n, 10 * n + 10), 5) for n in range(3)]
    monkeypatch.setattr(differencing, "MOST_LOOKS", len(known) + 1)
    found = refusal(release("whole", range(31), 5), known)
    assert "a whole and its parts" in found.reason


def test_the_larger_minimum_counts() -> None:
    small, large = release("small", range(10), 2), release("large", range(7), 5)
    for new, earlier in ((small, large), (large, small)):
        found = refusal(new, [earlier])
        assert found.minimum == 5
    assert refusal(release("other", range(7), 2), [small]) is None


def test_rounds_of_one_job_are_exempt_among_themselves_only() -> None:
    first, second = release("a", range(10), 3, "job"), release("b", range(9), 3, "job")
    assert refusal(second, [first]) is None
    assert refusal(release("b", range(9), 3, "other job"), [first]) is not None
    assert refusal(release("b", range(9), 3), [first]) is not None
    outside = release("c", range(10), 3)
    assert refusal(second, [first, outside]) is not None


def test_a_round_is_not_compared_with_itself() -> None:
    assert refusal(release("a", range(9)), [release("a", range(10))]) is None


def test_rosters_of_different_sizes() -> None:
    known = [release("small", range(9), 3, size=9)]
    assert refusal(release("grown", range(9), 3, size=1000), known) is None
    assert refusal(release("grown", range(10), 3, size=1000), known) is not None
    assert refusal(known[0], [release("grown", range(10), 3, size=1000)]) is not None


def test_what_cannot_be_ruled_out_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(5)
    known = []
    for place in range(12):
        bits = random.random(200) < 0.5
        known.append(release(f"r{place}", set(np.flatnonzero(bits).tolist()), 5))
    new = release("new", range(200), 5)
    assert refusal(new, known) is None
    monkeypatch.setattr(differencing, "MOST_LOOKS", 20)
    found = refusal(new, known)
    assert "rule a difference out" in found.reason


def test_a_reason_tells_no_curator_and_no_number_of_them() -> None:
    known = [release("round-x", range(1000, 1900), 77)]
    found = refusal(release("new", range(1000, 1859), 77), known)
    error = found.error()
    assert dict(error.extra) == {"rounds": ["round-x"], "minimum": 77}
    for number in ("41", "859", "900"):
        assert number not in error.detail


NOISY = {"mechanism": "distributed", "epsilon": "1"}
STEP = {"function": "vector_sum", "dimension": 2, "job": "j", "name": f"kmeans:1:{'0' * 64}"}


def test_what_a_query_is_compared_with() -> None:
    noisy, register = query(**NOISY), "register energy_import"
    own = f"query {noisy.digest().hex()}"
    assert scopes(noisy) == {register: 1, own: 2}
    assert scopes(noisy, floor=5) == {register: 1, own: 5}
    assert scopes(query(**NOISY, family="f")) == {register: 2, "family f": 2}
    assert scopes(query(register="gas")) == {"register gas": 2}
    assert scopes(query(family="f")) == {register: 2, "family f": 2}
    assert scopes(query(min_participants=7), floor=3) == {register: 7}
    assert releases("round", noisy, b"\1")[register].minimum == 1
    ruled = query(min_participants=9, rule={"min_participants": 7}, family="f", family_minimum=1)
    assert scopes(ruled) == {register: 7, "family f": 7}  # no less than the rule says
    guarded = query(min_participants=7, family="f", family_minimum=9)
    assert scopes(guarded) == {register: 9, "family f": 9}


def test_which_rounds_are_exempt_as_steps_of_a_job() -> None:
    step = query(**NOISY, **STEP)
    assert scopes(step) == {f"query {step.digest().hex()}": 2}
    (found,) = releases("round", step, b"\1").values()
    assert found == Release("round", b"\1", 2, "j")
    over = query(**{**NOISY, **STEP, "coordinates": "values", "registers": ["gas", "heat"]})
    own = f"query {over.digest().hex()}"
    assert scopes(over) == {"register gas": 1, "register heat": 1, own: 2}
    vectors = {**NOISY, **STEP, "coordinates": "values", "registers": ["gas"]}
    unnamed = query(**{**vectors, "name": "kmeans"})  # reads its register, whatever it names
    assert {"register gas", "register energy_import"} <= scopes(unnamed).keys()
    assert scopes(query(**{**STEP, "coordinates": "values", "registers": ["gas"]})) == {
        "register gas": 2, "register energy_import": 2
    }  # fmt: skip
    ordinary = (
        query(**NOISY, job="j"),  # a sum is no step, whatever it says
        query(**{**NOISY, **STEP, "name": "kmeans"}),
        query(**{**NOISY, **STEP, "job": None}),
        query(**STEP),  # an exact round pays for nothing
    )
    for asked in ordinary:
        made = releases("round", asked, b"\1")
        assert "register energy_import" in made
        assert all(release.job is None for release in made.values())


def test_three_hundred_feeders_need_no_branch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nearly disjoint parts are all needed: each is looked at twice, whatever their number."""
    parts = [range(place * 20, place * 20 + 20) for place in range(300)]
    known = [release(f"p{place}", item, 5, size=6001) for place, item in enumerate(parts)]
    monkeypatch.setattr(differencing, "MOST_LOOKS", 2 * (len(parts) + 1))
    assert refusal(release("whole", range(6000), 5), known) is None
    found = refusal(release("whole", range(6001), 5), known)
    assert "a whole and its parts" in found.reason


def dropping_out(rounds: int, minimum: int, seed: int) -> list[Release]:
    """Sums of 200 curators of whom each misses 5 % of the rounds."""
    rng = np.random.default_rng(seed)
    return [
        Release(f"round-{number}", sets.pack(rng.random(200) > 0.05), minimum)
        for number in range(rounds)
    ]


def test_sums_without_a_family_go_on_after_one_with_a_family() -> None:
    """Their members overlap nearly wholly, so that no subtraction of them isolates anybody.

    The control: where all of them ask for protection, the third is refused as a cover.
    """
    family, *others = dropping_out(40, 1, seed=15)
    family = replace(family, minimum=10)
    earlier = [family]
    for new in others:
        assert refusal(new, earlier) is None
        earlier.append(new)
    guarded = dropping_out(3, 10, seed=15)
    assert refusal(guarded[2], guarded[:2]) is not None


def test_a_family_after_many_sums_without_one() -> None:
    *earlier, family = dropping_out(101, 1, seed=16)
    family = replace(family, minimum=6)
    assert refusal(family, earlier) is None
    # One sum that differs in a single curator is still refused.
    bits = np.unpackbits(np.frombuffer(family.members, np.uint8), bitorder="little")
    bits[int(np.flatnonzero(bits)[0])] = 0
    close = Release("close", np.packbits(bits, bitorder="little").tobytes(), 1)
    assert refusal(family, [*earlier, close]) is not None


@examples(1500)
@given(cases())
def test_it_refuses_what_the_rules_refuse(case: tuple[Release, list[Release]]) -> None:
    new, earlier = case
    assert (refusal(new, earlier) is not None) == brute_force(new, earlier)


@examples(300)
@given(cases())
def test_an_equal_set_changes_no_answer(case: tuple[Release, list[Release]]) -> None:
    new, earlier = case
    doubled = [
        *earlier,
        *(Release(f"{item.round}'", item.members + b"\0", 1, item.job) for item in earlier),
    ]
    assert (refusal(new, doubled) is None) == (refusal(new, earlier) is None)
