"""What a proved query asks of its contributions, function by function, and what does not fit."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tacit.query import proofs
from tacit.query.encoding import MILLION
from tacit.query.functions import decode, dimension, encode, parts, reading_dimension
from tacit.query.mechanisms import curator_plan
from tacit.query.proofs import PART_LENGTH, ProofPlan, is_proved, proof_plan
from tacit.query.query import Query
from tacit.units import NANO
from tacit.validity import field as field64
from tacit.validity import field as field128
from tacit.validity.arithmetic import NUMPY
from tacit.validity.functions import L2_VECTOR, VECTOR, ProvedFunction, ProvedVector
from tacit.validity.noise_bound import Tail, noise_bound
from tacit.validity.vectors import Block
from tests.property_examples import examples
from tests.tacit.examples import VARIANTS, query, readings
from tests.tacit.validity.rounds import outcomes, split

GAUSSIAN: dict[str, Any] = {"mechanism": "distributed", "noise": "gaussian", "rho": "0.001"}
NOISE: dict[str, dict[str, Any]] = {
    "none": {},
    "aggregators": {"mechanism": "distributed", "epsilon": "1"},
    "gaussian": GAUSSIAN,
    "shares": {"mechanism": "distributed", "epsilon": "1", "layer": "both"},
    "two layers": {
        "mechanism": "two-layer",
        "epsilon_u": "1",
        "epsilon_s": "1",
        "pr_u": "1",
        "pr_s": "1",
    },
}
DRAWN = {"shares", "two layers"}
FINE: dict[str, Any] = {"resolution": "0.01"}
WINDOWS: dict[str, dict[str, Any]] = {
    "sum": {**FINE, "window_bound": "1.5"},
    "sum of one sign": {**FINE, "window_bound": "1.5", "bounds": ["0", "3"]},
    "slots": {**VARIANTS["slots"], **FINE, "window_bound": "2.5"},
    "slots of one sign": {
        **VARIANTS["slots"],
        **FINE,
        "window_bound": "2.5",
        "bounds": ["0", "3"],
    },
    "vectors": {**VARIANTS["vectors with a bound"], **FINE, "window_bound": "2.5"},
    "blocks": {
        **VARIANTS["blocks"],
        "blocks": [
            {
                "name": "near",
                "dimension": 1,
                "l1_bound": "2",
                "resolution": "0.01",
                "window_bound": "1",
            },
            {
                "name": "far",
                "dimension": 2,
                "l1_bound": "3",
                "resolution": "0.005",
                "window_bound": "2",
            },
            {"name": "free", "dimension": 2, "l1_bound": "3", "resolution": "0.01"},
        ],
    },
}
"""Queries that bound a curator's whole window. Resolutions are fine enough for Gaussian noise."""


def proved(**changes: Any) -> Query:
    return query(**{**changes, "validity": "proved"})


def some_readings(asked: Query, curators: int) -> Any:
    """One reading for each curator, but none for the last."""
    generator = np.random.default_rng(5)
    columns = reading_dimension(asked) if asked.coordinates == "values" else None
    shape = () if columns is None else (columns,)
    rows = [
        (owner, generator.integers(-3 * NANO, 4 * NANO, shape).tolist(), int(owner << 20))
        for owner in range(curators - 1)
    ]
    return readings(curators, rows, columns)


def drawn_noise(plan: ProofPlan, curators: int) -> np.ndarray | None:
    """Noise at its bounds and within, (3, d); None where curators draw none."""
    bounds = np.array(plan.of(curators).function.noise_bounds, np.int64)
    if not bounds.size:
        return None
    return np.stack((bounds, -bounds, bounds // 3))


def opened_and_plain(asked: Query, values: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """What is opened of three lone curators and a host of four, with its offset; and the plain sum,
    noise at its bounds included."""
    plan, totals, plain = proof_plan(asked), [], values.sum(axis=0)
    for curators, rows in ((1, values[:3]), (4, values[3:].sum(axis=0, keepdims=True))):
        proof = plan.of(curators)
        drawn = drawn_noise(plan, curators)
        if drawn is not None:
            drawn = drawn[: len(rows)]
            plain = plain + drawn.sum(axis=0)
        nonces, shares = split(proof.prio3, proof.function.encode(rows, drawn), seed=curators)
        for index, share in enumerate(shares.input_shares):
            sent = nonces.shape[1] + shares.public_shares.shape[1] + share.shape[1]
            assert sent == proof.share_bytes(index)
        decided, total = outcomes(proof.prio3, nonces, shares)
        assert not decided.any()  # 0 is accepted
        totals.append(np.array(total, dtype=object))
    offset = np.array(plan.offset(3, [4]), dtype=object)
    return totals[0] + totals[1] + offset, plain.tolist()


@pytest.mark.parametrize(
    ("noise", "completeness"),
    [("aggregators", None), ("shares", "curators"), ("two layers", None), ("gaussian", "curators")],
)
@pytest.mark.parametrize("kind", VARIANTS)
def test_a_whole_sum_of_lone_curators_and_a_part(kind: str, noise: str, completeness: Any) -> None:
    changes = {**VARIANTS[kind], **NOISE[noise], "completeness": completeness}
    asked = proved(**changes)
    values = encode(asked, some_readings(asked, 7)).values
    opened, plain = opened_and_plain(asked, values)
    assert opened.tolist() == plain
    if noise not in DRAWN:
        assert decode(asked, opened.astype(np.int64)) == decode(
            query(**changes), values.sum(axis=0)
        )


@pytest.mark.parametrize("completeness", [None, "curators"])
@pytest.mark.parametrize("noise", [NOISE["aggregators"], NOISE["shares"], GAUSSIAN])
@pytest.mark.parametrize("kind", WINDOWS)
def test_a_whole_sum_of_bounded_windows_is_the_plain_one(
    kind: str, noise: dict[str, Any], completeness: Any
) -> None:
    """Some windows pass their bound and are scaled."""
    asked = proved(**WINDOWS[kind], **noise, completeness=completeness)
    made = encode(asked, some_readings(asked, 7))
    assert (made.kept < MILLION).any()
    opened, plain = opened_and_plain(asked, made.values)
    assert opened.tolist() == plain


@pytest.mark.parametrize("curators", [1, 5])
@pytest.mark.parametrize("noise", [NOISE["aggregators"], GAUSSIAN])
@pytest.mark.parametrize("kind", WINDOWS)
def test_a_window_beyond_its_bound_has_no_encoding(
    kind: str, noise: dict[str, Any], curators: int
) -> None:
    """n'W in one entry passes, or what readings can give if that is less; and one unit more in any
    other entry of the block does not, nor in the same."""
    asked = proved(**WINDOWS[kind], **noise)
    function = proof_plan(asked).of(curators).function
    start = 0
    for part in parts(asked):
        if part.window is not None:
            most = curators * min(part.window.most, part.largest)
            fits = np.zeros((1, dimension(asked)), np.int64)
            fits[0, start] = most
            function.encode(fits)
            for place in range(start, start + part.dimension):
                if most < curators * part.window.most and place > start:
                    continue  # what readings can give is less than the bound: two entries may fit
                beyond = fits.copy()
                beyond[0, place] += 1
                with pytest.raises(ValueError, match="outside of the range"):
                    function.encode(beyond)
        start += part.dimension


@pytest.mark.parametrize("curators", [1, 7])
def test_the_influence_of_a_bounded_window(curators: int) -> None:
    """Spec: validity, section 4, W = 150 of a sum, else 250; readings give up to 600."""

    def function(kind: str, noise: dict[str, Any]) -> ProvedFunction:
        return proof_plan(proved(**WINDOWS[kind], **noise)).of(curators).function

    n = curators
    for noise in (NOISE["aggregators"], GAUSSIAN):
        assert function("sum", noise).influence == (300 * n,)
        assert function("sum of one sign", noise).influence == (150 * n,)
        assert function("slots", noise).influence == (500 * n,) * 2
        assert function("slots", noise).influence_from_zero == (250 * n,) * 2
        assert function("slots of one sign", noise).influence == (250 * n,) * 2
    l1, l2 = (
        [function(kind, noise) for kind in ("slots", "slots of one sign")]
        for noise in (NOISE["aggregators"], GAUSSIAN)
    )
    assert all(isinstance(each, ProvedVector) for each in (*l1, *l2))
    assert [each.norm_influence for each in l1 if isinstance(each, ProvedVector)] == [
        (500 * n,),
        (500 * n,),
    ]
    assert [each.norm_influence for each in l2 if isinstance(each, ProvedVector)] == [
        (500 * n,),
        (math.isqrt(2 * (250 * n) ** 2) + 1,),
    ]


def test_blocks_without_a_bound_of_windows_keep_their_circuit() -> None:
    """With Gaussian noise those with one are in L2, the others and the count are in L1."""
    asked = proved(**WINDOWS["blocks"], **GAUSSIAN, completeness="curators")
    function = proof_plan(asked).of(3).function
    assert isinstance(function, ProvedVector)
    assert function.algorithm == L2_VECTOR
    assert function.blocks == (
        Block(1, 300, 300, True, l2=True),
        Block(2, 1200, 1200, True, l2=True),
        Block(2, 1800, 1800, True),
        Block(1, 3, 3),
    )
    laplace = proof_plan(proved(**WINDOWS["blocks"], **NOISE["aggregators"])).of(1).function
    assert isinstance(laplace, ProvedVector)
    assert laplace.algorithm == VECTOR
    assert not any(block.l2 for block in laplace.blocks)
    unbounded = proved(**VARIANTS["slots"], **GAUSSIAN, resolution="0.01")
    assert proof_plan(unbounded).of(1).function.algorithm == VECTOR


def test_all_shares_of_a_norm_are_in_one_field() -> None:
    """n'W of the longest part: 4096 W reaches 2^31 at W = 2^19."""
    fine = {
        **VARIANTS["slots"],
        **GAUSSIAN,
        "rho": "1",
        "bounds": ["0", "10000"],
        "resolution": "0.001",
        "n_max": 10,
    }
    for units, prime in (
        (2**19 - 1, field64.PRIME_64),
        (2**19, field128.PRIME_128),
    ):
        plan = proof_plan(proved(**fine, window_bound=f"{units}e-3"))
        assert {plan.of(count).prio3.circuit.field.prime for count in (1, 10)} == {prime}
        assert plan.prime == prime


@pytest.mark.parametrize("kind", VARIANTS)
def test_what_no_reading_can_give_has_no_encoding(kind: str) -> None:
    """The encoder refuses what is one unit beyond the bounds, of a part, too."""
    asked = proved(**VARIANTS[kind])
    for curators in (1, 5):
        function = proof_plan(asked).of(curators).function
        zero = np.zeros((1, dimension(asked)), np.int64)
        function.encode(zero)
        for place, reach in enumerate(function.influence_from_zero):
            wrong = zero.copy()
            wrong[0, place] = reach + 1
            with pytest.raises(ValueError, match=r"outside of the range|not those of one"):
                function.encode(wrong)


@pytest.mark.parametrize("curators", [1, 7])
def test_the_influence_is_that_of_the_querys_own_bounds(curators: int) -> None:
    """Spec: validity, section 4: bounds [-2, 3], m = 2, so L = -4, U = 6; centred +-3."""

    def reach(**changes: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
        function = proof_plan(proved(**changes)).of(curators).function
        return function.influence, function.influence_from_zero

    n = curators
    assert reach() == ((10 * n,), (6 * n,))
    assert reach(**VARIANTS["count"]) == ((2 * n,), (2 * n,))
    assert reach(**VARIANTS["mean"]) == ((12 * n, 2 * n), (6 * n, 2 * n))
    assert reach(**VARIANTS["variance"]) == ((12 * n, 18 * n, 2 * n), (6 * n, 18 * n, 2 * n))
    assert reach(**VARIANTS["histogram"]) == ((2 * n,) * 2, (2 * n,) * 2)
    assert reach(**VARIANTS["slots"]) == ((12 * n,) * 2, (6 * n,) * 2)
    assert reach(**VARIANTS["slots with a bound"]) == ((8 * n,) * 2, (4 * n,) * 2)
    assert reach(**VARIANTS["vectors with a bound"]) == ((12 * n,) * 2, (6 * n,) * 2)
    assert reach(**VARIANTS["slots"], bounds=["0", "3"]) == ((6 * n,) * 2, (6 * n,) * 2)
    assert reach(completeness="curators") == ((10 * n, n), (6 * n, n))


@pytest.mark.parametrize("noise", sorted(DRAWN))
def test_noise_bounds_are_those_of_each_part_and_of_the_contributions_curators(noise: str) -> None:
    asked = proved(**VARIANTS["blocks"], **NOISE[noise], completeness="curators")
    drawn = curator_plan(asked)
    assert drawn is not None
    tail = Tail(asked.n_max, 3)
    for curators in (1, 900):
        bounds = proof_plan(asked).of(curators).function.noise_bounds
        assert bounds == tuple(
            noise_bound(tail, scale, drawn.weight, curators) for scale in drawn.scales
        )
    wider = proved(**VARIANTS["blocks"], **NOISE[noise], noise_tail="0.01")
    assert wider.noise_tail == Fraction(1, 100)
    tight, default = (
        proof_plan(each).of(1).function.noise_bounds
        for each in (wider, proved(**VARIANTS["blocks"], **NOISE[noise]))
    )
    assert all(one < other for one, other in zip(tight, default, strict=True))


def test_the_offset_counts_every_curator_of_a_sum_and_every_clamped_noise() -> None:
    plain = proof_plan(proved())
    assert plain.offset(10, [4, 100]) == (-4 * 114,)
    assert plain.offset(0, []) == (0,)
    noisy = proof_plan(proved(**NOISE["shares"]))
    bounds = [noisy.of(curators).function.noise_bounds[0] for curators in (1, 4, 100)]
    assert noisy.offset(10, [4, 100]) == (-4 * 114 - 10 * bounds[0] - bounds[1] - bounds[2],)
    mean = proof_plan(proved(**VARIANTS["mean"]))
    assert mean.offset(10, [4]) == (0, 0)


def test_a_part_has_no_more_curators_than_a_segment_or_the_round() -> None:
    assert PART_LENGTH == 4096
    plan = proof_plan(proved())
    assert plan.largest_part == 1000
    for wrong in (0, -1, 1001):
        with pytest.raises(ValueError, match="no contribution"):
            plan.of(wrong)
    large = proof_plan(proved(n_max=10**6))
    assert large.largest_part == 4096
    with pytest.raises(ValueError, match="no contribution"):
        large.of(4097)
    longer = proof_plan(proved(n_max=10**6, part_length=65_536))
    assert longer.largest_part == 65_536
    assert longer.of(65_536).function.influence == (65_536 * plan.of(1).function.influence[0],)
    with pytest.raises(ValueError, match="no contribution"):
        longer.of(65_537)
    assert proof_plan(proved(part_length=65_536)).largest_part == 1000


def test_a_declared_query_has_no_plan() -> None:
    for asked in (query(), query(validity="declared")):
        assert not is_proved(asked)
        with pytest.raises(ValueError, match="carry no proofs"):
            proof_plan(asked)
    assert is_proved(proved())


def test_sizes_are_those_of_the_specification() -> None:
    """Spec: validity, section 8: 13 bits 376 + 48; histogram of 100, m = 1: 2,096 + 4 * 240."""
    narrow = {"bounds": ["0", "8191"], "max_readings": 1, "aggregators": 5}
    total = proof_plan(proved(**narrow)).of(1)
    assert [total.share_bytes(index) for index in range(5)] == [376, 48, 48, 48, 48]
    edges = [str(edge) for edge in range(101)]
    bins = proof_plan(
        proved(function="histogram", edges=edges, bounds=["0", "100"], max_readings=1,
               aggregators=5)
    ).of(1)  # fmt: skip
    assert [bins.share_bytes(index) for index in range(5)] == [2096, 240, 240, 240, 240]


def test_all_shares_of_a_query_are_in_one_field() -> None:
    """A variance is in the larger field if the longest part of its rounds would need it."""
    wide = {**VARIANTS["variance"], "max_readings": 1, "n_max": 2}
    for length, largest, prime, width in (
        (None, 2**19 - 1, field64.PRIME_64, 8),
        (None, 2**19, field128.PRIME_128, 16),
        (65_536, 2**15 - 1, field64.PRIME_64, 8),
        (65_536, 2**15, field128.PRIME_128, 16),
    ):
        bounds = [str(-largest), str(largest)]
        plan = proof_plan(proved(**wide, bounds=bounds, part_length=length))
        assert (plan.prime, plan.word_bytes) == (prime, width)
        assert {plan.of(count).prio3.circuit.field.prime for count in (1, 2)} == {prime}


def test_compiled_arithmetic_has_the_same_circuits() -> None:
    asked = proved(**VARIANTS["blocks"])
    plain, fast = proof_plan(asked), proof_plan(asked, proofs.fastest_arithmetic())
    assert plain.arithmetic is NUMPY
    assert fast.arithmetic is not NUMPY  # numba is among the development packages
    assert fast.of(3).share_bytes(0) == plain.of(3).share_bytes(0)


def test_without_numba_the_fastest_is_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proofs, "find_spec", lambda name: None)
    proofs.fastest_arithmetic.cache_clear()
    try:
        assert proofs.fastest_arithmetic() is NUMPY
    finally:
        proofs.fastest_arithmetic.cache_clear()


# --- what does not fit ---------------------------------------------------------------------------


def refusal(**changes: Any) -> tuple[str, str] | None:
    """The field that refuses a proved query, and why; as a declared one it must pass."""
    own = ("noise_tail", "part_length")
    query(**{key: value for key, value in changes.items() if key not in own})
    try:
        proved(**changes)
    except ValidationError as error:
        (found,) = error.errors()
        return str(found["loc"][0]), found["msg"]
    return None


ONE = {"max_readings": 1, "n_max": 4}


def test_the_largest_part_of_a_sum_stays_below_62_bits() -> None:
    nano = {**ONE, "resolution": "0.000000001", "max_readings": 2**10}
    units = (2**62 - 1) // 2**22
    assert refusal(bounds=["0", f"{units}e-9"], **nano) is None
    assert refusal(bounds=["0", f"{units + 1}e-9"], **nano) == (
        "resolution",
        "a range passes what a proof can check: choose it coarser, or fewer max_readings",
    )


def test_longer_parts_must_fit_and_are_named_where_they_do_not() -> None:
    """The checks are of a part as long as the query asks for: 2^18 times 2^10 readings."""
    nano = {**ONE, "resolution": "0.000000001", "max_readings": 2**10, "part_length": 2**18}
    units = (2**62 - 1) // 2**28
    assert refusal(bounds=["0", f"{units}e-9"], **nano) is None
    wider = [0, units + 1]
    assert refusal(bounds=[f"{each}e-9" for each in wider], **nano) == (
        "part_length",
        "a range passes what a proof can check: choose it shorter",
    )
    assert refusal(bounds=[f"{each}e-9" for each in wider], **nano | {"part_length": None}) is None


def test_a_variance_stays_within_its_field() -> None:
    """M A below 2^62 and 2 M^2 A^2 below p, and every range below 62 bits: M A^2 first."""
    nano = {**VARIANTS["variance"], **ONE, "resolution": "0.000000001"}
    units = 2**25 - 1  # 4096 A^2 < 2^62
    assert refusal(bounds=[f"-{units}e-9", f"{units}e-9"], **nano) is None
    assert refusal(bounds=[f"-{units + 1}e-9", f"{units + 1}e-9"], **nano)[0] == "resolution"


def test_blocks_are_named_where_they_do_not_fit() -> None:
    block = {"name": "a", "dimension": 2, "l1_bound": "1000", "resolution": "0.000000001"}
    wide = {
        "function": "vector_sum",
        "coordinates": "values",
        "bounds": ["0", "1000"],
        "max_readings": 2**12,
        "n_max": 4,
    }
    assert refusal(**wide, blocks=[{**block, "l1_bound": "100"}]) is None
    assert refusal(**wide, blocks=[block])[0] == "blocks"


@pytest.mark.parametrize(
    ("field", "small", "large"),
    [
        ("dimension", {"dimension": 65_536}, {"dimension": 65_536, "bounds": ["-60000", "60000"]}),
        (
            "blocks",
            {"blocks": [{"name": "a", "dimension": 65_536, "l1_bound": "9", "resolution": "1"}]},
            {"blocks": [{"name": "a", "dimension": 65_536, "l1_bound": "9", "resolution": "1e-8"}]},
        ),
    ],
)
def test_a_plaintext_stays_within_16_mib(field: str, small: Any, large: Any) -> None:
    """Spec: validity, section 8: 65,536 entries of 16 bits fit, signed ones do not."""
    wide = {"function": "vector_sum", "coordinates": "values", "bounds": ["0", "60000"], **ONE}
    assert refusal(**{**wide, **small}) is None
    found = refusal(**{**wide, **large})
    assert found[0] == field
    assert found[1].startswith("a proof of this many coordinates passes 16 MiB")


def test_the_longest_vector_with_a_proof_is_named_and_works() -> None:
    """Spec: profiles, section 5: of entries in -100,000..100,000 (18 bits) 37,298 have one."""
    asked = {"function": "vector_sum", "coordinates": "values", "bounds": ["-1", "1"], **ONE}
    asked |= {"resolution": "0.00001", "window_bound": "1", "noise": "gaussian", "rho": "0.05"}
    asked |= {"mechanism": "distributed", "epsilon": None, "n_max": 1000}
    reason = "a proof of this many coordinates passes 16 MiB: at most 37298 at this resolution"
    for length in (10**6, 37_299):
        assert refusal(**asked, dimension=length) == ("dimension", reason)
    assert refusal(**asked, dimension=37_298) is None


def test_a_wide_histogram_is_named_by_its_edges() -> None:
    edges = [str(edge) for edge in range(65_536)]
    wide = {"function": "histogram", "edges": edges, "bounds": ["0", "65535"], "n_max": 4096}
    assert refusal(**wide, max_readings=10**6)[0] == "edges"


def test_the_total_of_a_round_stays_within_half_of_the_field() -> None:
    """n_max (U - L) < 2^62 for the sum: one contribution more is refused, named by n_max. A
    declared query has the whole ring, and |f| in place of U - L."""
    bounds = {"bounds": ["-1", "1"], "resolution": "0.000000001", "max_readings": 2**10}
    spread = 2 * 2**10 * 10**9
    largest = (2**62 - 1) // spread
    assert refusal(**bounds, n_max=largest) is None
    found = refusal(**bounds, n_max=largest + 1)
    assert found[0] == "n_max"
    assert "part sum" in found[1]


def test_noise_that_would_always_be_clamped_to_nothing_is_refused() -> None:
    """b = 1 / 200: T would be 0."""
    steep = {**NOISE["shares"], "function": "count", "max_readings": 1, "epsilon": "200"}
    assert refusal(**steep)[0] == "epsilon"
    layered = {**NOISE["two layers"], "function": "count", "max_readings": 1, "epsilon_u": "200"}
    assert refusal(**layered)[0] == "epsilon_u"
    assert refusal(**{**steep, "epsilon": "20"}) is None


def test_one_message_names_what_sharing_is_needed() -> None:
    found = refusal(sharing="shamir", threshold=2)
    assert found == ("sharing", "a proved query needs additive sharing")

    local = {"mechanism": "local", "epsilon_i": "1", "sharing": "none", "aggregators": 1}
    assert refusal(**local) == found


@given(
    kind=st.sampled_from(sorted(VARIANTS)),
    noise=st.sampled_from(sorted(NOISE)),
    epsilon=st.sampled_from(["0.001", "1", "30", "10000"]),
    low=st.integers(-(10**6), 10**6),
    width=st.integers(1, 10**6),
    resolution=st.sampled_from(["0.000000001", "0.001", "1", "1000"]),
    max_readings=st.sampled_from([1, 7, 1_000_000]),
    n_max=st.sampled_from([2, 5000, 10_000_000]),
    completeness=st.sampled_from([None, "curators"]),
    unit=st.sampled_from(["curator", "record"]),
    tail=st.sampled_from([None, "0.999999", "1e-30"]),
)
@examples(150)
def test_any_query_is_refused_by_a_field_or_has_a_plan(
    kind: str, noise: str, epsilon: str, low: int, width: int, tail: str | None, **changes: Any
) -> None:
    given_noise = dict(NOISE[noise])
    for field in ("epsilon", "epsilon_u"):
        if field in given_noise:
            given_noise[field] = epsilon
    changes = {"bounds": [str(low), str(low + width)], "privacy_unit": changes.pop("unit"),
               **VARIANTS[kind], **given_noise, **changes}  # fmt: skip
    try:
        asked = proved(**changes, noise_tail=tail if noise in DRAWN else None)
    except ValidationError as error:
        places = [problem["loc"] for problem in error.errors()]
    else:
        check_plan(asked)
        return
    assert places
    assert all(place and place[0] in Query.model_fields for place in places)


def check_plan(asked: Query) -> None:
    plan = proof_plan(asked)
    for curators in {1, plan.largest_part}:
        proof = plan.of(curators)
        assert 0 < proof.share_bytes(0) <= proofs.PLAINTEXT_LIMIT
        assert len(proof.function.offset) == dimension(asked)
        assert all(reach > 0 for reach in proof.function.influence)
    tighter = plan.of(1).function.influence
    wider = plan.of(plan.largest_part).function.influence
    assert all(one <= other for one, other in zip(tighter, wider, strict=True))
