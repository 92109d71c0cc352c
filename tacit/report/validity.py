"""A report's statement on lies: how far one contribution can move the total, and who is trusted.

A lie within the declared range is never noticed, so the range is what a report has to show: the
*influence*, the largest change of one coordinate's total by one accepted contribution. A declared
query has none to show. Spec: validity, sections 1, 4 and 12.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.protocol.round.messages import REFUSED_BY_PROOF
from tacit.query.encoding import Linear, Norm
from tacit.query.functions import Part, part_unit, parts
from tacit.query.mechanisms import clamped_tail
from tacit.query.query import Query
from tacit.query.terms import Validity
from tacit.report.accuracy import with_averages, with_intervals
from tacit.report.figures import amount
from tacit.report.model import InfluenceStatement, PrivacyReport, Reach, ValidityStatement

ANY_AMOUNT: Final = "A lying curator shifts the sum by any amount."
LYING_AGGREGATORS: Final = "Aggregators that lie: by any amount."
NOT_PROVED: Final = (
    "Validity is not proved: a curator can send any value, unnoticed. Bounds are "
    "enforced at honest curators only; a single lying aggregator shifts the sum by any amount, too."
)
PROVED: Final = (
    "Validity is proved for each contribution as a whole, not for each reading: one that was never "
    "taken, or is wrong but possible, is not noticed; nor is a curator that adds no noise."
)
EVERY_AGGREGATOR: Final = (
    "That no invalid contribution is counted, and no honest one refused, needs every aggregator to "
    "be honest: each can change its own partial sum, let a contribution pass, or leave one out. An "
    "operator that runs an aggregator and a host or curators is unproved for these. Secrecy needs "
    "one honest aggregator, as without proofs."
)

_SIX: Final = Context(prec=6, rounding=ROUND_CEILING)
_TWO: Final = Context(prec=2, rounding=ROUND_CEILING)
_HUNDRED: Final = 100


def validity_statement(
    query: Query, hosts: Iterable[Sequence[int]] = (), refused: int | None = None
) -> ValidityStatement:
    """The statement about lies for a query, or for a round of it.

    `hosts`: how many curators are in each part of each host, for known hosts. `refused`: how
    many curators of the round were excluded because the proof refused their contributions.
    """
    if query.validity is not Validity.PROVED:
        return ValidityStatement(kind="declared", sentences=(ANY_AMOUNT,))
    # A library without its extra `proofs` reports all other queries.
    from tacit.query.proofs import part_length, proof_plan
    from tacit.validity.limits import false_acceptance, honest_refusal

    plan = proof_plan(query)
    proofs = [plan.of(size) for size in {1, plan.largest_part}]
    lone, each_part = _reaches(query, [1]), _reaches(query, [plan.largest_part])
    largest = [(sizes, _reaches(query, sizes)) for sizes in _largest(hosts)]
    tail = clamped_tail(query)
    statement = ValidityStatement(
        kind="proved",
        influence=tuple(
            InfluenceStatement(
                part=part.name,
                unit=part_unit(query, part),
                lone=lone[place],
                each_part=each_part[place],
                **_furthest([(sizes, reaches[place]) for sizes, reaches in largest]),
            )
            for place, part in enumerate(parts(query))
        ),
        segment=part_length(query),
        false_acceptance=amount(max(false_acceptance(proof.prio3) for proof in proofs)),
        honest_refusal=amount(max(honest_refusal(proof.prio3) for proof in proofs)),
        noise_tail=None if tail is None else amount(tail.total),
        refused=refused,
    )
    return _worded(statement, query)


def _largest(hosts: Iterable[Sequence[int]]) -> list[tuple[int, ...]]:
    """The hosts that no other host exceeds in both the number and the size of parts: one of
    these has the largest reach, as the reach of a part grows with its curators. Largest first,
    the parts of each as well."""
    all_sizes: list[tuple[int, ...]] = []
    ordered = {tuple(sorted(sizes, reverse=True)) for sizes in hosts}
    for sizes in sorted(ordered, key=lambda group: (sum(group), len(group)), reverse=True):
        if sizes and not any(
            len(other) >= len(sizes) and all(a >= b for a, b in zip(other, sizes, strict=False))
            for other in all_sizes
        ):
            all_sizes.append(sizes)
    return all_sizes


def _furthest(hosts: Sequence[tuple[tuple[int, ...], Reach]]) -> dict[str, Any]:
    """The fields of the host that moves one coordinate furthest."""
    if not hosts:
        return {}
    sizes, reach = max(hosts, key=lambda host: Fraction(host[1].coordinate))
    return {"host": reach, "host_parts": sizes}


def with_shares(
    statement: ValidityStatement, query: Query, total: NDArray[np.int64]
) -> ValidityStatement:
    """Each influence also as a share of the released `total`, (d,) ring units. The total is
    public, so this costs nothing. Parts of several coordinates have no share."""
    if statement.kind != "proved":
        return statement
    shared, place = [], 0
    for part, item in zip(parts(query), statement.influence, strict=True):
        released = abs(int(total[place])) * part.value
        if part.dimension == 1 and released:
            item = item.model_copy(
                update={
                    "lone": _with_share(item.lone, released),
                    "each_part": _with_share(item.each_part, released),
                    "host": None if item.host is None else _with_share(item.host, released),
                }
            )
        shared.append(item)
        place += part.dimension
    return _worded(statement.model_copy(update={"influence": tuple(shared)}), query)


def with_total(report: PrivacyReport, query: Query, total: NDArray[np.int64]) -> PrivacyReport:
    """The report of a round whose sum is opened; see `with_shares`, `with_intervals` and
    `with_averages`."""
    changes: dict[str, Any] = {}
    if report.validity is not None:
        changes["validity"] = with_shares(report.validity, query, total)
    if report.error is not None and query.percentiles is not None:
        counts = total[: parts(query)[0].dimension].tolist()
        changes["error"] = with_intervals(report.error, query, counts)
    elif report.error is not None and report.error.get("averages"):
        changes["error"] = with_averages(report.error, query, total)
    return report.model_copy(update=changes) if changes else report


def caveats(query: Query) -> tuple[str, ...]:
    """What a reader must know about what is proved, and about the assumptions of the proof."""
    if query.validity is not Validity.PROVED:
        return (NOT_PROVED,)
    return PROVED, EVERY_AGGREGATOR


def _with_share(reach: Reach, released: Fraction) -> Reach:
    return reach.model_copy(
        update={"share_of_total": amount(Fraction(reach.coordinate) / released)}
    )


def _reaches(query: Query, sizes: Iterable[int]) -> tuple[Reach, ...]:
    """How far contributions of these numbers of curators reach together, part by part."""
    from tacit.query.proofs import proof_plan
    from tacit.validity.functions import ProvedFunction, ProvedVector

    functions = [proof_plan(query).of(size).function for size in sizes]

    def largest(of: Callable[[ProvedFunction], Sequence[int]], place: int, part: Part) -> str:
        influence = sum(max(of(one)[place : place + part.dimension]) for one in functions)
        return amount(influence * part.value)

    reaches, place = [], 0
    for number, part in enumerate(parts(query)):
        together: dict[str, str] = {}
        if part.dimension > 1:
            vectors = [one for one in functions if isinstance(one, ProvedVector)]
            l2 = part.window is not None and part.window.norm is Norm.L2
            name = "all_coordinates_l2" if l2 else "all_coordinates"
            reach = sum(one.norm_influence[number] for one in vectors) * part.value
            together = {name: amount(reach)}
        reaches.append(
            Reach(
                coordinate=largest(lambda one: one.influence, place, part),
                from_zero=largest(lambda one: one.influence_from_zero, place, part),
                **together,
            )
        )
        place += part.dimension
    return tuple(reaches)


def _worded(statement: ValidityStatement, query: Query) -> ValidityStatement:
    return statement.model_copy(update={"sentences": _sentences(statement, query)})


def _sentences(statement: ValidityStatement, query: Query) -> tuple[str, ...]:
    sentences = []
    for part, item in zip(parts(query), statement.influence, strict=True):
        text = f"A lying curator shifts {_named(part)} by at most {_reach_words(item, item.lone)}"
        text += (
            f"; a host by at most {_reach_words(item, item.each_part)} for each segment of "
            f"{statement.segment:,} roster numbers in which it has curators"
        )
        if part.window is not None and part.dimension > 1:
            text += (
                ", which it may put into one coordinate: the bound of a window is proved for all "
                "its curators of a segment together"
            )
        if item.host is not None:
            count, curators = len(item.host_parts), sum(item.host_parts)
            text += (
                f"; the host that reaches furthest, {curators:,} "
                f"curator{'' if curators == 1 else 's'} in {count:,} "
                f"part{'' if count == 1 else 's'}, by at most {_reach_words(item, item.host)}"
            )
        sentences.append(f"{text}.")
    sentences[-1] += f" {LYING_AGGREGATORS}"
    sentences.append(
        "With every aggregator honest, an invalid contribution is counted with a probability of at "
        f"most {_chance(statement.false_acceptance)}, and an honest one refused with one of at "
        f"most {_chance(statement.honest_refusal)}."
    )
    if statement.noise_tail is not None:
        sentences.append(
            "The noise of curators is clamped, which changes its law over a round by at most "
            f"{_chance(statement.noise_tail)}; it is part of what a lie can add. With "
            "layer aggregator a lie reaches the least."
        )
    if statement.refused:
        sentences.append(
            f"{statement.refused:,} of the round's curators "
            f"{'was' if statement.refused == 1 else 'were'} excluded, each {REFUSED_BY_PROOF}."
        )
    return tuple(sentences)


def _named(part: Part) -> str:
    match part.linear:
        case Linear.HISTOGRAM:
            return "one cell" if part.name == "table" else "one bin"
        case Linear.VECTOR:
            return f"one coordinate of {part.name}"
        case Linear.SQUARES:
            return "the sum of squares"
        case Linear.PRESENCE:
            return "the count of curators with readings"
        case _:
            return f"the {part.name}"


def _reach_words(item: InfluenceStatement, reach: Reach) -> str:
    text = _quantity(reach.coordinate, item.unit)
    if reach.share_of_total is not None:
        share = amount(Fraction(reach.share_of_total) * _HUNDRED, _TWO)
        text += f" ({share} % of the released total)"
    if reach.all_coordinates is not None:
        text += f" (all coordinates together: {_quantity(reach.all_coordinates, item.unit)})"
    if reach.all_coordinates_l2 is not None:
        together = _quantity(reach.all_coordinates_l2, item.unit)
        text += f" (all coordinates together: {together} as the root of the sum of squares)"
    return text


def _quantity(value: str, unit: str) -> str:
    number = amount(Fraction(value), _SIX)
    digits, point, places = number.partition(".")
    if digits.isdigit():
        number = f"{int(digits):,}{point}{places}"
    return number if unit == "1" else f"{number} {unit}"


def _chance(value: str | None) -> str:
    return amount(Fraction(value or "0"), _TWO)
