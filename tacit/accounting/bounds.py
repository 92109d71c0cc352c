"""The three global bounds of the sources, exactly as they state them, and the verified guarantee.

Spec: budget, sections 2 and 3; Lu & Shen; Lu's thesis, chapter 5. For summation and counting over
the active curators U, with f(x_i) = sum_j x_ij, D_i = max_j x_ij and D_X = max_i f(x_i):

    max_epsilon    max_i eps_i                            applies when D_X >= sum_i D_i
    sum_epsilon    sum_i eps_i                            always
    unconditional  max_i |U| D_i eps_i / f(x_i)           always (Theorem 5.1, 5.3)

and Theorem 5.2: D_X <= max_i m_i * sum_i D_i. One curator that does not add its noise makes all
three infinite. Readings below 0 make them inapplicable. Where f(x_i) = 0, and where a curator
discloses nothing, its term is the supremum, |U| eps_i.

None of the three is a guarantee. With declared bounds and local noise, the verified guarantee
against the aggregator and all other curators is max_i eps_i for one reading and max_i eps_i
F_i / Delta_i for a curator.

Pure and exact; `aggregate` is the plain form of what a coordinator keeps incrementally.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal

Name = Literal["max_epsilon", "sum_epsilon", "unconditional"]

NOT_A_GUARANTEE: Final = (
    "The three bounds are what the sources claim. `unconditional` bounds the loss of neither a "
    "reading nor a curator: its proof changes all curators at once, and measures loss per unit of "
    "the largest total. The verified guarantee is stated with them."
)
_NO_CURATORS: Final = "there is no active curator"
_NEGATIVE: Final = "readings may lie below 0, for which the sources define no bound"
_NON_COMPLIANT: Final = "a curator adds no noise (Lemma 2, Proposition 5.1)"


@dataclass(frozen=True, slots=True)
class Disclosed:
    """What a curator discloses to the coordinator in the paper stance. Private.

    `largest_reading` D_i, `total` f(x_i), `readings` m_i; `negative`: whether a reading is below
    0.
    """

    largest_reading: Fraction
    total: Fraction
    readings: int
    negative: bool = False

    def ratio(self, epsilon: Fraction) -> Fraction:
        """D_i eps_i / f(x_i); its supremum eps_i where f(x_i) is 0."""
        return epsilon * self.largest_reading / self.total if self.total else epsilon


@dataclass(frozen=True, slots=True)
class CuratorFigures:
    """An active curator: what it declares, and what it discloses (None in the sound stance)."""

    epsilon: Fraction
    sensitivity: Fraction
    largest_contribution: Fraction
    disclosed: Disclosed | None = None
    compliant: bool = True


@dataclass(frozen=True, slots=True)
class Aggregates:
    """The figures of a set of curators from which the bounds are computed; 0 for an empty set.

    `largest_ratio`, `largest_total`, `sum_of_largest`, `most_readings`: over curators that
    disclose non-negative readings; `largest_open_epsilon`: over curators that disclose nothing.
    """

    curators: int = 0
    undisclosed: int = 0
    negative: int = 0
    non_compliant: int = 0
    largest_epsilon: Fraction = Fraction(0)
    sum_of_epsilons: Fraction = Fraction(0)
    largest_open_epsilon: Fraction = Fraction(0)
    largest_ratio: Fraction = Fraction(0)
    largest_total: Fraction = Fraction(0)
    sum_of_largest: Fraction = Fraction(0)
    most_readings: int = 0
    largest_curator_epsilon: Fraction = Fraction(0)

    def with_uniform(
        self, curators: int, epsilon: Fraction, *, negative: bool = False
    ) -> Aggregates:
        """These figures with `count` more curators that disclose nothing and use the same
        epsilon; `negative`: their readings may lie below 0."""
        if not curators:
            return self
        return Aggregates(
            curators=self.curators + curators,
            undisclosed=self.undisclosed + curators,
            negative=self.negative + curators * negative,
            non_compliant=self.non_compliant,
            largest_epsilon=max(self.largest_epsilon, epsilon),
            sum_of_epsilons=self.sum_of_epsilons + curators * epsilon,
            largest_open_epsilon=max(self.largest_open_epsilon, epsilon),
            largest_ratio=self.largest_ratio,
            largest_total=self.largest_total,
            sum_of_largest=self.sum_of_largest,
            most_readings=self.most_readings,
            largest_curator_epsilon=self.largest_curator_epsilon,
        )

    def without_disclosures(self) -> Aggregates:
        """The figures as if no curator had disclosed anything: safe to show to everyone."""
        return Aggregates(
            curators=self.curators,
            undisclosed=self.curators,
            non_compliant=self.non_compliant,
            largest_epsilon=self.largest_epsilon,
            sum_of_epsilons=self.sum_of_epsilons,
            largest_open_epsilon=self.largest_epsilon,
            largest_curator_epsilon=self.largest_curator_epsilon,
        )


def aggregate(figures: Iterable[CuratorFigures]) -> Aggregates:
    """The aggregates of these curators, from scratch."""
    figures_of_curators = list(figures)
    disclosures = [
        (item, item.disclosed) for item in figures_of_curators if item.disclosed is not None
    ]
    usable = [(item, disclosed) for item, disclosed in disclosures if not disclosed.negative]
    zero = Fraction(0)
    return Aggregates(
        curators=len(figures_of_curators),
        undisclosed=len(figures_of_curators) - len(disclosures),
        negative=len(disclosures) - len(usable),
        non_compliant=sum(not item.compliant for item in figures_of_curators),
        largest_epsilon=max((item.epsilon for item in figures_of_curators), default=zero),
        sum_of_epsilons=sum((item.epsilon for item in figures_of_curators), zero),
        largest_open_epsilon=max(
            (item.epsilon for item in figures_of_curators if item.disclosed is None), default=zero
        ),
        largest_ratio=max(
            (disclosed.ratio(item.epsilon) for item, disclosed in usable), default=zero
        ),
        largest_total=max((disclosed.total for _, disclosed in usable), default=zero),
        sum_of_largest=sum((disclosed.largest_reading for _, disclosed in usable), zero),
        most_readings=max((disclosed.readings for _, disclosed in usable), default=0),
        largest_curator_epsilon=max(
            (
                item.epsilon * item.largest_contribution / item.sensitivity
                for item in figures_of_curators
            ),
            default=zero,
        ),
    )


@dataclass(frozen=True, slots=True)
class Bound:
    """One bound. `value` None: infinite, or unknown if `infinite` is False.

    `applies`: whether the source's condition holds; None if a figure that it needs was not
    disclosed.
    """

    name: Name
    value: Fraction | None
    infinite: bool
    applies: bool | None
    reason: str


@dataclass(frozen=True, slots=True)
class Theorem52:
    """D_X <= max m * sum D: always true of readings that are not below 0."""

    largest_total: Fraction
    limit: Fraction
    holds: bool


@dataclass(frozen=True, slots=True)
class SourceBounds:
    """The three bounds and Theorem 5.2 (None where not every curator discloses)."""

    bounds: tuple[Bound, Bound, Bound]
    theorem_5_2: Theorem52 | None

    def named(self, name: Name) -> Bound:
        """The bound of this name."""
        return next(bound for bound in self.bounds if bound.name == name)


def source_bounds(sums: Aggregates) -> SourceBounds:
    """The bounds of the sources over the curators that these aggregates describe."""
    names: tuple[Name, Name, Name] = ("max_epsilon", "sum_epsilon", "unconditional")
    if not sums.curators or sums.negative:
        reason = _NEGATIVE if sums.negative else _NO_CURATORS
        first, second, third = (Bound(name, None, False, False, reason) for name in names)
        return SourceBounds((first, second, third), None)
    if sums.non_compliant:
        first, second, third = (Bound(name, None, True, True, _NON_COMPLIANT) for name in names)
    else:
        first, second, third = _finite(sums)
    theorem = None
    if not sums.undisclosed:
        limit = sums.most_readings * sums.sum_of_largest
        theorem = Theorem52(sums.largest_total, limit, sums.largest_total <= limit)
    return SourceBounds((first, second, third), theorem)


def _finite(sums: Aggregates) -> tuple[Bound, Bound, Bound]:
    if sums.undisclosed:
        applies = None
        why = "whether D_X reaches the sum of all D_i takes figures that are not disclosed"
    else:
        applies = sums.largest_total >= sums.sum_of_largest
        why = "D_X reaches the sum of all D_i" if applies else "D_X is below the sum of all D_i"
    largest = max(sums.largest_ratio, sums.largest_open_epsilon)
    open_terms = (
        "; undisclosed curators count with the supremum over readings that are not below 0"
        if sums.undisclosed
        else ""
    )
    return (
        Bound("max_epsilon", sums.largest_epsilon, False, applies, why),
        Bound(
            "sum_epsilon",
            sums.sum_of_epsilons,
            False,
            True,
            "with noise of the global sensitivity, as the sources read Shi et al.",
        ),
        Bound(
            "unconditional",
            sums.curators * largest,
            False,
            True,
            f"Lu & Shen, Theorem 1; thesis, Theorem 5.1{open_terms}",
        ),
    )


@dataclass(frozen=True, slots=True)
class LocalFigures:
    """The verified guarantee of local noise and declared bounds, against everyone else together.

    None: no guarantee.
    """

    record: Fraction | None
    curator: Fraction | None


def local_figures(sums: Aggregates) -> LocalFigures:
    """max eps_i for a reading, max eps_i F_i / Delta_i for a curator (spec: budget, section 3).

    A curator that adds no noise exposes only its own data: the figures of all others remain
    valid.
    """
    return LocalFigures(sums.largest_epsilon, sums.largest_curator_epsilon)
