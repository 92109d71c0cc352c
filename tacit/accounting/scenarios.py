"""Who may collude, and whose noise then remains (spec: aggregation, section 7).

    key  adversary, besides the recipient of the result        names of the DAP draft
    a    nobody                                                 -
    b    n-1 curators                                           -
    c    n-1 curators, as many aggregators as learn nothing     OAOC: one aggregator, only me
    d    n-1 curators and all aggregators                       OC: only me
    e    the query's own: t_u curators and t_s aggregators      OAMC where t_u is a minority

Colluders subtract what they know: their readings *and their noise*. What protects the victim is
the noise of the honest parties, its own included. A weaker guarantee that remains when the
assumption fails is hedging: rows c and d are part of every statement.

- An operator is one party: one that runs several aggregators contributes all of them to the
  collusion. t_s corrupt aggregators are at worst all those of the t_s largest operators; an
  operator that can open contributions alone (c of c, or k under shamir) makes rows c and e fall to
  row d.
- A manifest holds the noise of all c aggregators (additive), of at least c_noise (shamir).
- Guarantees hold for any manifest of at least `min_participants` curators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

from tacit.query.mechanisms import noisy_aggregators
from tacit.query.query import Query
from tacit.query.terms import Mechanism, Sharing

TrustModel = Literal["OAMC", "OAOC", "OC"]


class Scenario(StrEnum):
    """Who colludes; the value is its key (spec: aggregation, section 7)."""

    RECIPIENT = "a"
    CURATORS = "b"
    BLIND_AGGREGATORS = "c"
    EVERYONE = "d"
    ASSUMED = "e"

    @property
    def label(self) -> str:
        """The name on the wire."""
        return _LABELS[self]


_LABELS: Final = {
    Scenario.RECIPIENT: "recipient",
    Scenario.CURATORS: "curators",
    Scenario.BLIND_AGGREGATORS: "curators-and-aggregators",
    Scenario.EVERYONE: "all-aggregators",
    Scenario.ASSUMED: "assumed",
}


@dataclass(frozen=True, slots=True)
class Honest:
    """How many honest parties add noise that the adversary cannot subtract, the victim included.

    `fallen`: why an operator of several aggregators weakens the row, if one does.
    """

    curators: int
    aggregators: int
    corrupt_aggregators: int
    fallen: str | None = None


def openers(query: Query) -> int:
    """How many aggregators together open a contribution."""
    match query.sharing:
        case Sharing.ADDITIVE:
            return query.aggregators
        case Sharing.SHAMIR:
            assert query.threshold is not None
            return query.threshold
        case Sharing.NONE:
            return 1


def honest_draws(
    query: Query, scenario: Scenario, n: int | None, operators: Sequence[str] | None = None
) -> Honest:
    """Which honest draws remain in this scenario among n curators (None: `min_participants`).

    `operators`: who runs each aggregator; None: all different.
    """
    participants = query.min_participants if n is None else n
    if operators is not None and len(operators) != query.aggregators:
        raise ValueError("one operator per aggregator")
    sizes = _operator_sizes(query, operators)
    corrupt, fallen = _corrupt_aggregators(query, scenario, sizes)
    match scenario:
        case _ if query.mechanism is Mechanism.LOCAL or fallen:
            curators = 1  # each noisy contribution is seen alone: only its own draw covers it
        case Scenario.RECIPIENT:
            curators = participants
        case Scenario.ASSUMED:
            curators = participants - query.collusion.curators
        case _:
            curators = 1
    aggregators = max(0, noisy_aggregators(query) - corrupt)
    return Honest(max(1, curators), aggregators, corrupt, fallen)


def _operator_sizes(query: Query, operators: Sequence[str] | None) -> tuple[int, ...]:
    if operators is None:
        return (1,) * query.aggregators
    return tuple(sorted((operators.count(name) for name in set(operators)), reverse=True))


def _corrupt_aggregators(
    query: Query, scenario: Scenario, sizes: tuple[int, ...]
) -> tuple[int, str | None]:
    """How many aggregators the adversary controls, and why an operator makes it more of them."""
    total, needed = query.aggregators, openers(query)
    if scenario in (Scenario.RECIPIENT, Scenario.CURATORS) or query.sharing is Sharing.NONE:
        return (total if scenario is Scenario.EVERYONE else 0), None
    if scenario is Scenario.EVERYONE:
        return total, None
    if sizes[0] >= needed:
        return total, (
            f"one operator runs {sizes[0]} of the {total} aggregators and needs {needed} to open "
            "contributions: it is one party, so the row falls to that of all aggregators"
        )
    if scenario is Scenario.BLIND_AGGREGATORS:
        return _largest_union(sizes, needed - 1), None
    corrupt = sum(sizes[: query.collusion.aggregators])
    if corrupt >= needed:
        return total, (
            f"the {query.collusion.aggregators} aggregators assumed to collude may belong to "
            f"operators that run {corrupt} of the {total} in total, enough to open contributions: "
            "the row falls to that of all aggregators"
        )
    if corrupt > query.collusion.aggregators:
        return corrupt, (
            f"operators run several aggregators: the {query.collusion.aggregators} assumed to "
            f"collude may bring {corrupt}"
        )
    return corrupt, None


def _largest_union(sizes: tuple[int, ...], limit: int) -> int:
    """The largest number of aggregators, at most `limit`, that a set of operators runs together."""
    reachable = {0}
    for size in sizes:
        reachable |= {
            size_so_far + size for size_so_far in reachable if size_so_far + size <= limit
        }
    return max(reachable)


def described(query: Query, scenario: Scenario, honest: Honest) -> str:
    """The adversary of this scenario in words."""
    corrupt = honest.corrupt_aggregators
    if query.mechanism is Mechanism.LOCAL:
        return {
            Scenario.RECIPIENT: "the recipient of the result alone",
            Scenario.CURATORS: "the recipient and all other curators",
            Scenario.BLIND_AGGREGATORS: "the recipient and all other curators "
            "(the one aggregator learns each noisy contribution, so none can be added)",
            Scenario.EVERYONE: "the recipient, all other curators and the aggregator",
            Scenario.ASSUMED: f"the query's own assumption: {query.collusion.curators} curators; "
            "the aggregator sees each noisy contribution",
        }[scenario]
    return {
        Scenario.RECIPIENT: "the recipient of the result alone",
        Scenario.CURATORS: "the recipient and all other curators",
        Scenario.BLIND_AGGREGATORS: "the recipient, all other curators and as many aggregators as "
        f"together learn nothing from their pieces ({min(corrupt, openers(query) - 1)} of "
        f"{query.aggregators})",
        Scenario.EVERYONE: "the recipient, all other curators and all aggregators",
        Scenario.ASSUMED: f"the query's own assumption: {query.collusion.curators} curators and "
        f"{query.collusion.aggregators} of {query.aggregators} aggregators",
    }[scenario]


def assumption(query: Query, aggregators: Sequence[str], operators: Sequence[str]) -> str:
    """In words: what a round's guarantee, and the secrecy of its pieces, assume about these
    aggregators (by id) and about other curators."""
    named = ", ".join(aggregators)
    if query.sharing is Sharing.NONE:
        return f"nothing of the aggregator {named} or of other curators: all of them may collude"
    honest = honest_draws(query, Scenario.ASSUMED, None, operators)
    if honest.corrupt_aggregators >= openers(query):
        return f"nothing of the aggregators {named}: {honest.fallen}"
    few = f"at most {honest.corrupt_aggregators}" if honest.corrupt_aggregators else "none"
    other_curators = query.collusion.curators
    return f"{few} of the aggregators {named} and {other_curators} other curators collude"


def trust_model(query: Query, scenario: Scenario, participants: int) -> TrustModel | None:
    """The DAP draft's name of this scenario with this many curators, where it has one."""
    match scenario:
        case Scenario.BLIND_AGGREGATORS:
            return None if query.sharing is Sharing.NONE else "OAOC"
        case Scenario.EVERYONE:
            return "OC"
        case Scenario.ASSUMED if query.sharing is not Sharing.NONE:
            if 2 * query.collusion.curators < participants:
                return "OAMC"
            return "OAOC" if query.collusion.curators >= participants - 1 else None
        case _:
            return None
