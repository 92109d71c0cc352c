"""The privacy report, `tacit.privacy-report/1`: one schema for queries, rounds and jobs; and a
guarantee as the guessing game's one figure.

The guessing game: a coin decides whether one unit's data are included. A player who sees everything
that some group could see guesses, and is right in at most this share of the cases; a half is a coin
flip, one is certainty. It is what (epsilon, delta) allows a test between two hypotheses. Source:
Kairouz, Oh and Viswanath 2015.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, computed_field

from tacit.wire import WireModel

_PLACES: Final = 4
_FLOAT_ERROR: Final = 1e-6
"""Of a share in units of the last place: so little above it is not rounded up."""


def most_right(points: Iterable[tuple[str | None, str | None]]) -> float:
    """The largest share of right guesses that all these (epsilon, delta) of one guarantee allow,
    from 0.5 to 1.

    The least over them of (e^epsilon + delta) / (1 + e^epsilon); 1 where there is no guarantee.
    """
    return min([_most_right(epsilon, delta) for epsilon, delta in points], default=1.0)


def guess(
    points: Iterable[tuple[str | None, str | None]], zcdp: tuple[str, str] | None = None
) -> str:
    """The same as an amount, rounded up to four places; `zcdp`: a further bound, (rho, delta) of
    approximate zCDP of all the releases together."""
    return _rounded_up(min(most_right(points), 1.0 if zcdp is None else _zcdp_right(*zcdp)))


def _rounded_up(right: float) -> str:
    rounded = math.ceil(right * 10**_PLACES - _FLOAT_ERROR) / 10**_PLACES
    return f"{rounded:.{_PLACES}f}".rstrip("0").rstrip(".")


@lru_cache(maxsize=4096)  # every report of the same query has the same figures
def _most_right(epsilon: str | None, delta: str | None) -> float:
    if epsilon is None or epsilon == "inf":
        return 1.0
    right = 1 / (1 + math.exp(-float(Fraction(epsilon))))
    return min(1.0, right + (1 - right) * float(Fraction(delta or "0")))


@lru_cache(maxsize=4096)
def _zcdp_right(rho: str, delta: str) -> float:
    from tacit.noise.gaussian_privacy import zcdp_right  # with all samplers: few reports need it

    return 1.0 if rho == "inf" else zcdp_right(float(Fraction(rho)), float(Fraction(delta)))


# The privacy report (spec: jobs, section "Privacy report"; aggregation, section 7). Numbers are
# decimal strings rounded against us, `"inf"` is infinite, null means that no statement is made. It
# holds nothing that depends on the data except through the mechanism.

Amount = Annotated[
    str,
    Field(
        pattern=r"^(inf|\d{1,40}(\.\d{1,40})?(e[+-]?\d{1,2})?)$",
        description='a decimal, or "inf"',
        examples=["0.5"],
    ),
]

Stance = Literal["sound", "paper"]
Unit = Literal[
    "record",
    "curator",
    "reading",
    "level",
    "user",
    "radius",
    "sequence",
    "edge",
    "path-edge",
    "vertex-pair",
    "cell-entry",
]
Neighbouring = Literal["add-remove", "replace", "any-two-values", "same-rest"]
Model = Literal[
    "pure-dp", "approximate-dp", "zcdp", "metric-dp", "syntactic", "computational", "none"
]


class Subject(WireModel):
    """What the report is about."""

    kind: Literal["query", "round", "job"]
    id: str
    algorithm: str | None = None
    version: str | None = None
    dataset: str | None = None


class MechanismStatement(WireModel):
    name: str
    parameters: dict[str, Any] = Field(default_factory=dict)


class SensitivityStatement(WireModel):
    """`value` is absent where it depends on the data: it would be a private maximum."""

    value: Amount | None = None
    norm: Literal["l1", "l2"] = "l1"
    source: Literal["declared", "data-dependent", "public-output"]
    part: str | None = None


class Claim(WireModel):
    """What the source's theorem says, true or not."""

    model: Model
    epsilon: Amount | None
    delta: Amount | None
    theorem: str | None = None
    text: str | None = None


class CurvePoint(WireModel):
    epsilon: Amount
    delta: Amount


class Pooled(WireModel):
    """Which parties' knowledge one adversary has, in addition to the result: `curators` by
    number, or all but the protected one; `aggregators` of `of`."""

    curators: int | Literal["all-others"]
    aggregators: int
    of: int


class VerifiedStatement(WireModel):
    """The verified guarantee against one adversary. Model none: no guarantee (epsilon "inf", delta
    "1").

    `guess` is computed from the figures; a received one is ignored. `clamp_delta`: what clamping
    the noise of curators adds to delta; delta includes it if it is above 2^-50. `rho`: only for
    Gaussian noise with a deviation of ten ring units or more.
    """

    model_config = ConfigDict(extra="ignore")

    scenario: str
    key: str | None = None
    description: str | None = None
    trust_model: Literal["OAMC", "OAOC", "OC"] | None = None
    model: Model
    privacy_unit: Unit | None = None
    neighbouring: Neighbouring | None = None
    epsilon: Amount | None
    delta: Amount | None
    pooled: Pooled | None = None
    clamp_delta: Amount | None = None
    rho: Amount | None = None
    curve: tuple[CurvePoint, ...] = ()
    conditions: tuple[str, ...] = ()
    reason: str | None = None

    @computed_field(description="The largest share of right guesses in the guessing game.")  # type: ignore[prop-decorator]
    @property
    def guess(self) -> Amount | None:
        """See `tacit.report.model`; None where nothing is stated."""
        if self.epsilon is None:
            return None
        curve = [(point.epsilon, point.delta) for point in self.curve]
        right = most_right([(self.epsilon, self.delta), *curve])
        if self.rho not in (None, "inf"):
            from tacit.noise.gaussian_privacy import gaussian_right

            right = min(right, gaussian_right(float(Fraction(self.rho or "0"))))
        return _rounded_up(right)


class Charge(WireModel):
    """What a ledger is charged. `_all_corrupt`: the second column of a curator's ledger."""

    ledger: Literal["dataset", "curators", "none"]
    privacy_unit: Unit | None = None
    epsilon: Amount | None = None
    delta: Amount | None = None
    epsilon_all_corrupt: Amount | None = None
    delta_all_corrupt: Amount | None = None
    reserved: Amount | None = None
    outside_budget: bool = False


class NoiseStatement(WireModel):
    """One layer of noise. `draws`: how many parties may draw; how many did is not revealed.

    `weight`: the share of one discrete Laplace that each draws.
    """

    layer: str
    distribution: str
    part: str | None = None
    scale: Amount | None = None
    weight: Amount | None = None
    probability: Amount | None = None
    draws: int | None = None
    sampler: Literal["exact-integer", "float"] = "exact-integer"


class Reach(WireModel):
    """How far a lie can move the result: the largest change of one coordinate's total, up and down.

    `coordinate`: compared with the liar's true value; `from_zero`: compared with a contribution
    of zeros; `all_coordinates`: for a part with several, in L1; `all_coordinates_l2`: replaces
    it if a window is bounded in L2, the root of the sum of squares; `share_of_total`: of the
    released total.
    """

    coordinate: Amount
    from_zero: Amount
    all_coordinates: Amount | None = None
    all_coordinates_l2: Amount | None = None
    share_of_total: Amount | None = None


class InfluenceStatement(WireModel):
    """What a liar can do to a part of the result, in `unit`: a lone curator; a host by each of
    its parts (its curators in one segment of roster numbers); and by all its parts the `host`
    with the largest reach, whose `host_parts` have these numbers of curators."""

    part: str
    unit: str
    lone: Reach
    each_part: Reach
    host: Reach | None = None
    host_parts: tuple[int, ...] = ()


class ValidityStatement(WireModel):
    """What is known about contributions that lie: nothing (`declared`), or their bounds (`proved`).

    `segment`: roster numbers of a host's part. `false_acceptance`: the probability that an
    invalid contribution is counted, per try; `honest_refusal`: that an honest one is not; both
    with every aggregator honest. `noise_tail`: how much total variation the clamping of
    curators' noise costs. `refused`: curators of the round whose contributions the proof
    refused.
    """

    kind: Literal["declared", "proved"]
    influence: tuple[InfluenceStatement, ...] = ()
    segment: int | None = None
    false_acceptance: Amount | None = None
    honest_refusal: Amount | None = None
    noise_tail: Amount | None = None
    refused: int | None = None
    sentences: tuple[str, ...] = ()


class AccountingStatement(WireModel):
    method: str
    library: str
    version: str


class PrivacyReport(WireModel):
    """The claimed guarantee, the verified one against each adversary, and what is not protected."""

    format: Literal["tacit.privacy-report/1"] = "tacit.privacy-report/1"
    subject: Subject
    stance: Stance
    mechanism: str | MechanismStatement
    privacy_unit: Unit | None
    neighbouring: Neighbouring | None
    sensitivity: tuple[SensitivityStatement, ...] = ()
    claimed: Claim | None = None
    verified: tuple[VerifiedStatement, ...]
    charged: Charge | None = None
    noise: tuple[NoiseStatement, ...] = ()
    validity: ValidityStatement | None = None
    sampler_delta: Amount | None = None
    sampler_epsilon: Amount | None = None
    accounting: AccountingStatement
    public_parameters: tuple[str, ...] = ()
    post_processing: tuple[str, ...] = ()
    not_protected: tuple[str, ...] = ()
    source_defects: tuple[str, ...] = ()
    voided_by: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    reproducible: bool = False
    evaluation_attached: bool = False
    error: dict[str, Any] | None = None
    details: dict[str, Any] = Field(default_factory=dict)
