"""What a report of a query says in sentences, and the sentence about who runs the aggregators.

Operators are declared. Addresses show more: aggregators on one machine are under the control of one
operator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from tacit.accounting.amounts import Cost, debited_delta
from tacit.accounting.guarantees import VerifiedLine
from tacit.accounting.scenarios import Scenario, openers
from tacit.noise import SelfTest
from tacit.noise.gaussian_privacy import zcdp_epsilon
from tacit.protocol.round.descriptor import AggregatorEntry
from tacit.query.disclosure import least_totals
from tacit.query.functions import part_unit, parts, reads_vectors
from tacit.query.mechanisms import aggregator_plan, clamped_tail
from tacit.query.query import Query
from tacit.query.terms import Function, Layer, Mechanism, PrivacyUnit, Sharing, Stance
from tacit.report import validity
from tacit.report.figures import amount, delta_amount, epsilon_amount, short
from tacit.report.model import PrivacyReport
from tacit.wire import format_instant


def is_loopback(url: str) -> bool:
    """Whether an address is of this machine alone."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def one_machine(urls: Sequence[str]) -> str | None:
    """The warning if several aggregators run on one machine, by their addresses; else None."""
    hosts = ["localhost" if is_loopback(url) else urlsplit(url).hostname or url for url in urls]
    most = max(Counter(hosts).values(), default=0)
    if most < 2:
        return None
    if most == len(hosts):
        return (
            f"All {most} aggregators run on one machine, by their addresses: its operator can do "
            "what all of them can do together. This is a trial, whatever operators are declared."
        )
    return (
        f"{most} of {len(hosts)} aggregators run on one machine, by their addresses: its operator "
        "can do what they can do together, whatever operators are declared."
    )


def operators_statements(
    operators: Sequence[str] | None, urls: Sequence[str] = ()
) -> tuple[str, ...]:
    """What a report assumes about operators. operators: of each aggregator, None if unknown;
    urls: addresses of the aggregators, if known."""
    warning = one_machine(urls)
    if operators is None:
        declared = "The aggregators are run by different operators (not checked here)."
    elif len(set(operators)) < len(operators):
        declared = (
            f"{len(operators)} aggregators are run by {len(set(operators))} operators; an operator "
            "counts as one party that brings all its aggregators."
        )
    elif warning is None:
        declared = "Each aggregator is run by a different operator, as declared."
    else:
        declared = "Each aggregator declares a different operator."
    return (declared,) if warning is None else (declared, warning)


# What is not protected, assumed and broken, and caveats (spec: aggregation, sections 3, 7 and 8).

PARTICIPATION: Final = (
    "Who took part is not hidden: the coordinator, the aggregators and the network see it, with "
    "times. What is protected is a curator's data, not its membership."
)


def is_paper(query: Query) -> bool:
    """Whether noise follows each curator's own data, as in the source."""
    return query.stance is Stance.PAPER


def post_processing(query: Query) -> tuple[str, ...]:
    """What is made of the noisy sums; it costs no privacy."""
    match query.function:
        case Function.MEAN:
            return ("mean = centre + noisy sum / noisy count; null where the count is below 1",)
        case Function.VARIANCE:
            return (
                "mean and variance of the noisy sum, squares and count; null where the count is "
                "below 1, a negative variance is 0",
            )
        case _:
            return ("the total times the resolution",)


def not_protected(query: Query) -> tuple[str, ...]:
    """What the query's unit leaves open."""
    one = "record" if reads_vectors(query) else "reading"
    sentences = [
        PARTICIPATION,
        f"The participants are the curators that answered; one without a {one} answers too, with "
        f"zeros. How many had {one}s is released only if the query asks for it (completeness).",
        "A person behind several curators is protected once for each of them, not as one.",
    ]
    if query.privacy_unit is PrivacyUnit.RECORD:
        sentences.append(
            "The unit record hides one record, not a person's habit: records that go together "
            "(of one visitor, day after day) are not hidden together."
            if reads_vectors(query)
            else "The unit record hides one reading, not a household's habit: readings that go "
            "together (the same evening, day after day) are not hidden together."
        )
        sentences.append(
            "A record replaced by another one is a removal and an addition: two changes, whose "
            "figures add."
            if query.every_record
            else "A reading moved in time is a removal and an addition: two changes, whose figures "
            "add. A value changed in place is covered as one."
        )
    return tuple(sentences)


_ATOM: Final = (
    "Proposition 4.1 overlooks the atom: with probability (1-pr_u)(1-pr_s)^h, against n-1 curators "
    "and all but h aggregators, no noise hides the victim's value and it passes exactly; its "
    "proof takes the expected noise, which is no distribution. Over continuous noise no epsilon "
    "holds with delta 0."
)
_ADDED: Final = (
    "Proposition 4.1 adds the two layers' epsilons; with both probabilities 1 the noises are added "
    "to one output, and min(epsilon_u, epsilon_s) holds while an honest aggregator exists, "
    "epsilon_u when none does."
)
_LOCAL_SENSITIVITY: Final = (
    "The noise scale is the curator's own largest reading. With 0 a possible reading no (epsilon, "
    "delta) with delta below 1 holds for a sum: all-zero readings give their sum with certainty. "
    "With readings in [lo, hi], lo above 0, no finite epsilon with delta 0 holds. For sums the "
    "scale, a private maximum, can besides be estimated from repeated rounds."
)
_COUNT_EXCEPTION: Final = (
    "In a count one reading adds 1 for every curator that has readings, so its "
    "scale is constant there; the curator without readings, which draws nothing, is the exception."
)


def source_defects(query: Query) -> tuple[str, ...]:
    """Where the source claims what does not hold."""
    defects = []
    if query.mechanism is Mechanism.TWO_LAYER:
        assert query.pr_u is not None
        assert query.pr_s is not None
        if min(query.pr_u, query.pr_s) < 1:
            defects.append(_ATOM)
        else:
            defects.append(_ADDED)
    if is_paper(query) and query.mechanism is not Mechanism.EXACT:
        defects.append(_LOCAL_SENSITIVITY)
        if query.function is Function.COUNT:
            defects.append(_COUNT_EXCEPTION)
    return tuple(defects)


def voided_by(query: Query) -> tuple[str, ...]:
    """What would make the verified lines false."""
    sentences = [
        "participation, bounds or epsilon chosen after looking at the data",
        "aggregator keys that a curator did not get out of band",
    ]
    if query.mechanism is not Mechanism.EXACT:
        sentences.append("noise drawn from a source that someone else can predict")
    if query.sharing is Sharing.ADDITIVE:
        sentences.append("all aggregators pooling what they hold (row d says what remains)")
    elif query.sharing is Sharing.SHAMIR:
        sentences.append(
            f"{openers(query)} aggregators pooling what they hold (row d says what remains)"
        )
    return tuple(sentences)


def assumptions(
    query: Query,
    operators: Sequence[str] | None,
    self_test: SelfTest | None,
    urls: Sequence[str] = (),
) -> tuple[str, ...]:
    """What the verified lines rest on; see `query_report` for the arguments."""
    t_u, t_s = query.collusion.curators, query.collusion.aggregators
    sentences = [*rule_kept(query)]
    if query.sharing is Sharing.NONE:
        sentences.append(
            "The single aggregator sees every noisy contribution; what protects a curator is its "
            "own noise alone."
        )
    else:
        sentences.append(
            f"At most {t_u} curators (with those that add no noise, and every identity that the "
            f"adversary enrolled) and at most {t_s} of {query.aggregators} aggregators pool what "
            "they see; row e states the guarantee then, the other rows the guarantees beyond."
        )
    if query.mechanism is Mechanism.DISTRIBUTED and query.layer is not Layer.AGGREGATOR:
        sentences.append(
            f"At least {query.min_participants - t_u} honest curators draw their shares in every "
            "manifest."
        )
    if query.sharing is Sharing.SHAMIR and aggregator_plan(query) is not None:
        sentences.append(
            f"Every manifest holds the noise of at least {query.c_noise} aggregators; each "
            "aggregator checks it."
        )
    sentences.append(
        "Bounds, max_readings and resolution were declared without looking at the data, and honest "
        "curators clamp to them. An enrolled curator participates whether or not it has readings."
    )
    if query.every_record:
        sentences.append(
            "Every record counts: no curator's table holds more than max_readings rows, so that "
            "one record more or less changes one vector by its bound. Curators refuse tables that "
            "are larger."
        )
    sentences.append(
        "Parties may pool all they see but follow the protocol; what anchors, rosters, descriptors "
        "and commitments add against parties that deviate is described with the protocol."
    )
    sentences.extend(operators_statements(operators, urls))
    if self_test is not None:
        outcome = "passed" if self_test.passed else "FAILED: do not rely on this report"
        sentences.append(
            f"The samplers' check at start: {outcome}. It cannot distinguish a predictable source "
            "from a secret one."
        )
    return tuple(sentences)


def forward_secrecy(query: Query, aggregators: Sequence[AggregatorEntry]) -> str:
    """Until when a recording of a round can be decrypted, by the keys that its `aggregators`
    have in its descriptor; empty before a round is opened. Spec: keys, section 2."""
    needed = (
        f"{openers(query)} of the aggregators' keys"
        if query.sharing is Sharing.SHAMIR
        else ("the aggregators' keys together" if query.aggregators > 1 else "the aggregator's key")
    )
    opened = f"as long as these keys exist, {needed} and a recording of the traffic open its pieces"
    if not aggregators:
        return f"Pieces are sealed to keys that the aggregators destroy later: {opened}."
    seals = [entry.seal for entry in aggregators]
    if all(seal.round is not None for seal in seals):
        return (
            f"Pieces are sealed to keys of this round alone, destroyed when it ends: {opened}. "
            "Afterwards nobody can open them."
        )
    last = max(seal.until for seal in seals)
    return (
        f"Pieces are sealed to keys that open rounds until {format_instant(last)}, destroyed once "
        f"the last of these has ended: {opened}. Afterwards nobody can open them."
    )


_YEAR_S: Final = 365 * 86_400
_YEARS_DELTA: Final = 1e-6


def year_of_schedule(query: Query, lines: tuple[VerifiedLine, ...]) -> Iterator[str]:
    """What a year of a query's schedule costs under its own assumption, in both currencies."""
    if query.schedule is None:
        return
    line = next(line for line in lines if line.scenario is Scenario.ASSUMED)
    rounds = -(-_YEAR_S // query.schedule.period_s)
    cost = Cost(line.epsilon, debited_delta(line.delta), line.rho)
    if cost.zcdp is None or cost.epsilon is None or cost.delta is None:
        yield f"A year of this schedule, {rounds:,} rounds, has no verified figure."
        return
    rho, delta = (rounds * bound for bound in cost.zcdp)
    sentence = f"A year of this schedule, {rounds:,} rounds, costs each {query.privacy_unit}"
    if query.privacy_unit is PrivacyUnit.RECORD:
        sentence += " that every round covers"
    added = f"epsilon {short(epsilon_amount(rounds * cost.epsilon))} if epsilons are added"
    if cost.delta:
        added += f" (delta {short(delta_amount(min(rounds * cost.delta, Fraction(1))))})"
    if delta >= Fraction(_YEARS_DELTA):
        yield f"{sentence} {added}."
        return
    epsilon = zcdp_epsilon(float(rho), float(Fraction(_YEARS_DELTA) - delta))
    yield (
        f"{sentence} rho {short(amount(rho))}, which is epsilon {short(amount(Fraction(epsilon)))} "
        f"at delta 0.000001; {added}."
    )


def rule_kept(query: Query) -> Iterator[str]:
    """What the rule of a sum without noise says, and who checks it."""
    if (rule := query.rule) is None:
        return
    yield (
        f"Disclosure rule: the sum is of {rule.min_participants} curators or more, which every "
        "aggregator checks."
    )
    if rule.max_share is None:
        return
    [part, *_] = parts(query)
    least = f"{amount(max(least_totals(query)) * part.value)} {part_unit(query, part)}"
    holders = "largest curator holds" if rule.top == 1 else f"{rule.top} largest curators hold"
    yield (
        f"Disclosure rule: the {holders} at most {short(amount(rule.max_share))} of the sum. It is "
        f"released only from {least} on, of which no accepted contribution is a larger share; a "
        "host is trusted not to give one of its curators the range of several."
    )


def without_noise(query: Query) -> Iterator[str]:
    """What is not protected in a sum without noise."""
    if (rule := query.rule) is None:
        return
    yield "No differential privacy: nobody adds noise. What is assumed names a rule instead."
    if rule.small_cells:
        yield (
            "Whoever may read the round sees every cell of the table, also one of a single record: "
            "the rule is of the sum as a whole. Suppression protects only who is given a copy."
        )
    if rule.max_share is None:
        yield "Nobody checks how large a part of the sum a single curator holds."
    else:
        yield (
            "The coordinator adds up the parts, so it sees too small a sum as well and releases "
            "nothing by convention; whoever checks a transcript refuses one."
        )
    yield (
        f"Who knows the values of all members but one learns that one: {rule.min_participants - 1} "
        "colluding curators may be enough. So may what is known from elsewhere, sums over other "
        "registers, and sums with noise over the same readings."
    )


def beside_exact_sums(report: PrivacyReport, sums: int) -> PrivacyReport:
    """The report of a round over readings of which sums without noise were released as well."""
    if not sums:
        return report
    one = "A sum without noise was" if sums == 1 else f"{sums} sums without noise were"
    caveat = (
        f"{one} released of readings of this time. What holds here, holds against who has none."
    )
    return report.model_copy(update={"caveats": (caveat, *report.caveats)})


def caveats(
    query: Query, lines: tuple[VerifiedLine, ...], sampler_delta: str | None
) -> tuple[str, ...]:
    """What a reader of the verified lines has to know."""
    sentences: list[str] = []
    sentences.extend(without_noise(query))
    if is_paper(query):
        sentences.append(
            "Stance paper: noise follows each curator's own data, as in the source. Nothing is "
            "verified; the sensitivity's value is private and not shown."
        )
    sentences.extend(validity.caveats(query))
    sentences.append(
        "This is one release: rounds over the same readings add up, and a curator's ledger keeps "
        "the sum. A round that aborts after pieces may have left counts as released."
    )
    if sampler_delta is not None and query.mechanism is not Mechanism.EXACT:
        sentences.append(
            f"To the delta of every row add sampler_delta, {short(sampler_delta)}, for draws that "
            "are not quite exact (at an epsilon further along a curve it grows as 1 + e^epsilon)."
        )
    if clamped_tail(query) is not None:
        most = max((line.clamp_delta or Fraction(0) for line in lines), default=Fraction(0))
        sentences.append(
            f"To the delta of every row add its clamp_delta, {short(delta_amount(most))} at most, "
            "for noise of curators that is clamped; above 2^-50 it is in delta already, compared "
            "with the declared one and debited."
        )
    sentences.append(
        "A host that holds the data of many curators is one party that may collude with all of "
        "them; its own curators are not protected from it."
    )
    sentences.extend(year_of_schedule(query, lines))
    weaker = [line for line in lines if line.model == "none"]
    if weaker and len(weaker) < len(lines):
        named = ", ".join(line.scenario.value for line in weaker)
        sentences.append(f"Nothing holds in row{'s' if len(weaker) > 1 else ''} {named}.")
    if query.mechanism is Mechanism.TWO_LAYER and not is_paper(query):
        sentences.append(
            "Noise of two layers is hedging: while an honest aggregator draws, its noise counts; "
            "when the last one falls, only the victim's own draw is left (row d)."
        )
    if query.mechanism is Mechanism.DISTRIBUTED and query.layer is Layer.AGGREGATOR:
        sentences.append(
            "Curators add no noise of their own: when all aggregators collude, a contribution is "
            "read exactly."
        )
    return tuple(sentences)
