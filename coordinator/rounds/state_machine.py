r"""The state machine of one round (spec: aggregation, section 6).

    open -> frozen -> (proved rounds: verified ->) committed -> released
       \_______\__________________________\________-> aborted(reason)

One function per transition, with what only transitions need: the quorum that opens a round's sum,
the parts of hosts in proved rounds (spec: validity, section 4), the figures of a released round for
lists, and its transcript's seals for readers years later (spec: keys, section 4).
"""

from __future__ import annotations

import asyncio
import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from itertools import zip_longest
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from common.runtime.logs import get_logger
from common.store.database import exclusive
from common.store.transactions import LARGE_ROWS, Transaction
from coordinator.budget import charging
from coordinator.budget.ledger import LOCK
from coordinator.errors import (
    AggregatorUnreachable,
)
from coordinator.models.budget_ledger import Draft
from coordinator.registry.answers import answered, gather, refuses
from coordinator.registry.peers import Peer
from coordinator.rounds import differencing
from coordinator.rounds.context import (
    ACCEPTED_SETS,
    Conduct,
    RoundAborted,
    accepted_sets,
    change,
    failure,
    peers_of,
    salt_of,
    signed_descriptor,
)
from coordinator.rounds.progress import Closing
from coordinator.store import ledger as lasting_seals
from coordinator.store import registry
from coordinator.store import rounds as store
from coordinator.store.round_details import exact_sums
from coordinator.store.rounds import RoundRow
from tacit import sets
from tacit.accounting.guarantees import priced_text
from tacit.accounting.scenarios import Scenario
from tacit.crypto.signing import SignatureBroken, Signed, verify
from tacit.errors import Conflict
from tacit.protocol.differencing import DifferenceRefused
from tacit.protocol.proved_rounds import candidates_of
from tacit.protocol.round.agreement import (
    ManifestRefused,
    is_proved,
    manifest_hash,
    manifest_of,
    members_hash,
    whole_manifest,
)
from tacit.protocol.round.descriptor import ABORT_LABEL, AbortStatement, RoundDescriptor
from tacit.protocol.round.messages import (
    AcceptedSet,
    Commitment,
    Manifest,
    ProvedPart,
    Reveal,
    Transcript,
)
from tacit.protocol.round.opening import CommitmentRefused, check_commitments, open_sum
from tacit.protocol.round.state import RoundState
from tacit.protocol.trust import SealRefused, ShownSeal, check_seal
from tacit.query.disclosure import RuleNotMet
from tacit.query.functions import decode, dimension
from tacit.query.mechanisms import noisy_aggregators, shares_its_noise
from tacit.query.query import Query
from tacit.query.terms import Function, Sharing
from tacit.report.model import PrivacyReport, Subject
from tacit.report.queries import query_report
from tacit.report.statements import beside_exact_sums
from tacit.report.validity import with_total
from tacit.wire import encode_binary

REASON_CHARACTERS = 256
log = get_logger("tacit.rounds")

LARGE_ROSTER: Final = 1 << 17
"""From this roster on sets are compared in a thread."""
_COMMITMENTS = TypeAdapter(list[Signed[Commitment]])


# --- transitions ---------------------------------------------------------------------------------


def manifest_of_all(conduct: Conduct, row: RoundRow, invited: sets.Bits) -> Manifest | None:
    """The manifest if every aggregator has what all invited curators send.

    None if a round needs signed sets first, invites too few, or is large: then the first
    aggregator alone is asked for a commitment, as long sums should be computed by all at the
    same time.
    """
    descriptor = signed_descriptor(row).statement
    query = descriptor.query
    large = descriptor.roster_size * dimension(query) >= LARGE_ROSTER
    if large or is_proved(query):
        return None
    noise = tuple(range(query.aggregators)) if shares_its_noise(query) else ()
    try:
        return whole_manifest(descriptor, sets.pack(invited), noise, salt_of(conduct, descriptor))
    except Conflict:
        return None


async def freeze(
    conduct: Conduct,
    row: RoundRow,
    shown: Sequence[Closing] = (),
    expected: Manifest | None = None,
) -> None:
    """open -> frozen: signed accepted sets, and the manifest that follows from them.

    `shown`: what all aggregators have answered to this step already; if these are commitments to
    the `expected` manifest, the round is committed.
    """
    descriptor = signed_descriptor(row).statement
    commitments = [item for item in shown if isinstance(item.statement, Commitment)]
    if expected is not None and commitments and _agree(descriptor, expected, commitments):
        values = {
            "state": RoundState.COMMITTED,
            "commitments": _COMMITMENTS.dump_json(commitments).decode(),
        }
        await _freeze(conduct, row, descriptor, expected, **values)
        return
    known = [item if isinstance(item.statement, AcceptedSet) else None for item in shown]
    accepted = await _accepted_sets(conduct, row, descriptor, known)
    if is_proved(descriptor.query):
        await _freeze_proved(conduct, row, descriptor, accepted)
        return
    try:
        agree = partial(agree_on_quorum, descriptor, accepted, salt_of(conduct, descriptor))
        large = descriptor.roster_size >= LARGE_ROSTER
        manifest, chosen = await asyncio.to_thread(agree) if large else agree()
    except ManifestRefused as error:
        raise RoundAborted(f"{error.title}: {error.detail}") from None
    signed = ACCEPTED_SETS.dump_json(chosen).decode()
    await _freeze(conduct, row, descriptor, manifest, state=RoundState.FROZEN, accepted=signed)


def _agree(
    descriptor: RoundDescriptor, expected: Manifest, commitments: Sequence[Signed[Commitment]]
) -> bool:
    """Whether all aggregators commit to the expected manifest; otherwise they are asked for
    their sets."""
    try:
        check_commitments(descriptor, manifest_hash(expected), expected.quorum, commitments)
    except CommitmentRefused:
        return False
    return True


async def _freeze(
    conduct: Conduct, row: RoundRow, descriptor: RoundDescriptor, manifest: Manifest, **values: Any
) -> None:
    now = conduct.clock.now()
    if values["state"] is RoundState.COMMITTED:
        values["committed_at"] = now
    values |= {
        "frozen_at": now,
        "manifest": manifest.model_dump_json(),
        "participants": manifest.count,
    }

    async def run(transaction: Transaction) -> None:
        if await store.change(transaction, row.id, RoundState.OPEN, **values):
            await differencing.freeze(transaction, descriptor, manifest.members)

    try:
        await conduct.changes.submit(run)
    except DifferenceRefused as error:
        raise RoundAborted(error.detail) from None


async def _freeze_proved(
    conduct: Conduct,
    row: RoundRow,
    descriptor: RoundDescriptor,
    accepted: Sequence[Signed[AcceptedSet]],
) -> None:
    """open -> frozen, without a manifest: that follows from verdicts. With too few candidates
    nothing is verified."""
    try:
        await asyncio.to_thread(candidates_of, descriptor, accepted)
    except ManifestRefused as error:
        raise RoundAborted(f"{error.title}: {error.detail}") from None
    await change(
        conduct,
        row.id,
        RoundState.OPEN,
        state=RoundState.FROZEN,
        frozen_at=conduct.clock.now(),
        accepted=ACCEPTED_SETS.dump_json(list(accepted)).decode(),
    )


async def _note_due(conduct: Conduct, row: RoundRow) -> None:
    """A freeze before the deadline that some aggregators miss: it is final, and their grace time
    begins."""
    if conduct.clock.now() < row.due:
        await change(conduct, row.id, RoundState.OPEN, due=conduct.clock.now())


async def _accepted_sets(
    conduct: Conduct,
    row: RoundRow,
    descriptor: RoundDescriptor,
    shown: Sequence[Signed[AcceptedSet] | None],
) -> list[Signed[AcceptedSet]]:
    """Those of all aggregators, or of a quorum that may continue without the others."""
    peers = await peers_of(conduct, descriptor)
    answers = await gather(
        _accepted_set(peer, descriptor, shown_set) for peer, shown_set in zip_longest(peers, shown)
    )
    accepted = answered(answers)
    if len(accepted) < len(peers) and not _goes_on_without(conduct, row, descriptor, answers):
        await _note_due(conduct, row)
        raise failure("the freeze", peers, answers)
    return accepted


async def _accepted_set(
    peer: Peer, descriptor: RoundDescriptor, shown: Signed[AcceptedSet] | None
) -> Signed[AcceptedSet]:
    """An aggregator's set, if it is its own and of this round: a bad one must not affect the
    others."""
    signed = shown or await peer.freeze(descriptor.round)
    item, place = signed.statement, descriptor.index_of(peer.id)
    try:
        verify(item.label, signed, descriptor.aggregators[place].identity_key)
    except SignatureBroken:
        raise AggregatorUnreachable(f"{peer.id} signs with another identity") from None
    if item.aggregator != peer.id or item.descriptor_hash != descriptor.digest():
        raise AggregatorUnreachable(f"{peer.id} signs another round's set")
    return signed


def _goes_on_without(
    conduct: Conduct, row: RoundRow, descriptor: RoundDescriptor, answers: Sequence[object]
) -> bool:
    """Whether a Shamir quorum is complete, and the others refuse or their time is over."""
    query = descriptor.query
    missing = [item for item in answers if isinstance(item, Exception)]
    if query.sharing is not Sharing.SHAMIR:
        return False
    if len(answers) - len(missing) < quorum_size(query):
        return False
    waited = conduct.clock.now() - min(row.due, conduct.clock.now())
    grace = timedelta(seconds=min(5.0, conduct.patience_s / 4))
    return waited >= grace or all(refuses(item) for item in missing)


async def commit(conduct: Conduct, row: RoundRow) -> None:
    """frozen (in proved rounds verified) -> committed: one signed commitment from each aggregator
    of the quorum."""
    descriptor = signed_descriptor(row).statement
    manifest = _manifest(row)
    # as it is stored: neither read nor written again; who verified has all of the sets that counts
    digest, salt = manifest_hash(manifest), encode_binary(manifest.salt)
    sets_or_verdicts = (
        f'"accepted":{row.accepted or "[]"}'
        if row.verdicts is None
        else f'"accepted":[],"verdicts":{row.verdicts}'
    )
    request = f'{{"salt":"{salt}","manifest_hash":"{encode_binary(digest)}",{sets_or_verdicts}}}'
    peers = await _quorum(conduct, descriptor, manifest)
    answers = await gather(peer.commit(row.id, request) for peer in peers)
    commitments = answered(answers)
    if len(commitments) < len(peers):
        raise failure("the commitment", peers, answers)
    check_commitments(descriptor, digest, manifest.quorum, commitments)
    await change(
        conduct,
        row.id,
        row.state,
        state=RoundState.COMMITTED,
        committed_at=conduct.clock.now(),
        commitments=_COMMITMENTS.dump_json(commitments).decode(),
    )


async def release(conduct: Conduct, row: RoundRow) -> None:
    """committed -> released: report, reveal, recombine. Every step that can fail comes before
    the sum is opened."""
    signed = signed_descriptor(row)
    descriptor, manifest = signed.statement, _manifest(row)
    query, digest = descriptor.query, manifest_hash(manifest)
    commitments = _COMMITMENTS.validate_json(row.commitments or "[]")
    of_hosts: list[tuple[int, ...]] = []
    if manifest.parts is not None:
        async with conduct.database.reading() as transaction:
            of_hosts = await parts_of_hosts(transaction, manifest.parts)
    operators = tuple(entry.operator for entry in descriptor.aggregators)
    urls = tuple(entry.url for entry in descriptor.aggregators)
    of_round = partial(
        query_report,
        query,
        subject=Subject(kind="round", id=row.id),
        participants=manifest.count,
        operators=operators,
        urls=urls,
        hosts=of_hosts,
        aggregators=descriptor.aggregators,
        refused=row.refused,
    )
    if is_proved(query):  # the effect of a lie is computed again
        report = await asyncio.to_thread(of_round)
    else:
        key = (priced_text(query), operators, urls, manifest.count)
        report = await conduct.figured(key, of_round)
    if query.job is not None:
        async with conduct.database.reading() as transaction:
            charge = (await conduct.ledger.current(transaction)).spending.rounds[row.id]
        report = await asyncio.to_thread(charging.as_debited, report, query, charge)
    if query.rule is None:
        async with conduct.database.reading() as transaction:
            exact = await exact_sums(transaction, query, descriptor.window)
        report = beside_exact_sums(report, exact)
    peers = await _quorum(conduct, descriptor, manifest)
    request = f'{{"commitments":{row.commitments}}}'  # as it is stored
    answers = await gather(peer.reveal(row.id, request) for peer in peers)
    reveals: list[Reveal] = answered(answers)
    if len(reveals) < len(peers):
        raise failure("the reveal", peers, answers)
    add_up = partial(open_sum, descriptor, digest, manifest.quorum, commitments, reveals)
    large = dimension(query) >= LARGE_ROWS
    try:
        total = await asyncio.to_thread(add_up) if large else add_up()
    except RuleNotMet as error:  # nothing of what was revealed is stored
        raise RoundAborted(error.detail) from None
    transcript = Transcript(
        descriptor=signed,
        members_hash=members_hash(manifest.salt, manifest.members, manifest.parts),
        quorum=manifest.quorum,
        participants=manifest.count,
        contributions=manifest.contributions,
        commitments=tuple(commitments),
        reveals=tuple(reveals),
    )
    accepted = accepted_sets(row.accepted or "[]")
    bitmaps = [item.statement.held(descriptor.roster_size) for item in accepted]
    event = charging.released(row.id, descriptor.roster_size, [manifest.members, *bitmaps])
    result, now = decode(query, total), conduct.clock.now()
    values = {
        "state": RoundState.RELEASED,
        "result": json.dumps(result),
        "figures": json.dumps(figures(query, report, result)),
        "report": with_total(report, query, total).model_dump_json(),
        "transcript": transcript.model_dump_json(),
        "finished": now,
    }

    async def run(transaction: Transaction) -> None:
        await _conclude(conduct, transaction, row, event, **values)

    await conduct.changes.submit(run)
    if conduct.lasting_seals:
        await ask_for_seals(conduct, transcript)


async def abort(conduct: Conduct, row: RoundRow, reason: str) -> None:
    """Any state -> aborted, permanently; the aggregators' signed statements are stored."""
    descriptor, reason = signed_descriptor(row).statement, reason[:REASON_CHARACTERS]
    peers = await peers_of(conduct, descriptor)
    answers = await gather(peer.abort(row.id, reason) for peer in peers)
    statements: list[Signed[AbortStatement]] = []
    for peer, entry, item in zip(peers, descriptor.aggregators, answers, strict=True):
        if isinstance(item, Exception):
            continue
        try:
            verify(ABORT_LABEL, item, entry.identity_key)
            statements.append(item)
        except SignatureBroken:
            log.warning("abort_statement_broken", round=row.id, aggregator=peer.id)
    event = charging.aborted(descriptor, statements, reason)
    values = {
        "state": RoundState.ABORTED,
        "reason": reason,
        "aborts": json.dumps([_shown(item) for item in statements]),
        "finished": conduct.clock.now(),
    }

    async def run(transaction: Transaction) -> None:
        await _conclude(conduct, transaction, row, event, **values)

    await conduct.changes.submit(run)
    log.info("round_aborted", round=row.id, reason=reason, statements=len(statements))


async def _conclude(
    conduct: Conduct, transaction: Transaction, row: RoundRow, event: Draft, **values: Any
) -> None:
    """A round's last change, with its event in the ledger; both happen once, also under
    concurrency."""
    await exclusive(transaction, LOCK)
    if await store.change(transaction, row.id, row.state, **values):
        await conduct.ledger.append(transaction, [event])


def _shown(statement: Signed[AbortStatement]) -> dict[str, Any]:
    shown: dict[str, Any] = statement.model_dump(mode="json")
    return shown


def _manifest(row: RoundRow) -> Manifest:
    assert row.manifest is not None
    return Manifest.model_validate_json(row.manifest)


async def _quorum(conduct: Conduct, descriptor: RoundDescriptor, manifest: Manifest) -> list[Peer]:
    peers = await peers_of(conduct, descriptor)
    return [peers[index] for index in manifest.quorum]


# Which aggregators open a round's sum, where more than a threshold answered.
#
# Under Shamir sharing any k of c may open it, and the manifest is the intersection of *their* sets:
# a late one would exclude every curator whose piece it does not hold. The chosen quorum is the one
# that keeps most curators, the larger one of equals (its partial sums are checked against one
# another). The guarantees hold for any manifest, regardless of the choice (spec: aggregation,
# section 4).

SignedSet = Signed[AcceptedSet]


def quorum_size(query: Query) -> int:
    """How many aggregators open a sum, at least."""
    return query.threshold if query.threshold is not None else query.aggregators


def agree_on_quorum(
    descriptor: RoundDescriptor, accepted: Sequence[SignedSet], salt: bytes
) -> tuple[Manifest, list[SignedSet]]:
    """The manifest of the best quorum, and the signed sets that give it."""
    chosen = list(accepted)
    if descriptor.query.sharing is Sharing.SHAMIR and len(chosen) > quorum_size(descriptor.query):
        chosen = [chosen[place] for place in _best(descriptor, [item.statement for item in chosen])]
    return manifest_of(descriptor, chosen, salt), chosen


def _best(descriptor: RoundDescriptor, accepted: Sequence[AcceptedSet]) -> list[int]:
    """The places of the best quorum's sets."""
    query, places = descriptor.query, range(len(accepted))
    counts = _common(accepted, descriptor.roster_size)
    noisy = noisy_aggregators(query) if shares_its_noise(query) else 0
    heard = [sum(1 << other for other in set(item.contributions)) for item in accepted]
    best, chosen_places = (False, -1, 0), list(places)
    for choice in range(1 << len(accepted)):
        members = [place for place in places if choice >> place & 1]
        if len(members) < quorum_size(query):
            continue
        noise = ~0
        for place in members:
            noise &= heard[place]
        enough = noisy == 0 or noise.bit_count() >= noisy
        score = (enough, int(counts[choice]), len(members))
        if score > best:
            best, chosen_places = score, members
    return chosen_places


def _common(accepted: Sequence[AcceptedSet], roster_size: int) -> NDArray[np.int64]:
    """(2^n,): how many curators are in all sets of each choice, a bit mask over indices."""
    holders = np.zeros(roster_size, np.uint16)
    for place, item in enumerate(accepted):
        holders |= sets.unpack(item.members or b"", roster_size).astype(np.uint16) << np.uint16(
            place
        )
    counts = np.bincount(holders, minlength=1 << len(accepted)).astype(np.int64)
    for place in range(len(accepted)):  # sum over supersets, one place at a time
        halves = counts.reshape(-1, 2, 1 << place)
        halves[:, 0] += halves[:, 1]
    return counts


# The parts of hosts in proved rounds. Spec: validity, section 4.


async def parts_of_hosts(
    transaction: Transaction, parts: Iterable[ProvedPart]
) -> list[tuple[int, ...]]:
    """The curators in each part of each host of a round."""
    starts = [first for first, _ in await registry.host_runs(transaction)]
    hosts: dict[int, list[int]] = {}
    for part in parts:
        hosts.setdefault(bisect_right(starts, part.first), []).append(part.curators)
    return [tuple(parts_of_host) for parts_of_host in hosts.values()]


# The figures of a released round for lists, which need not read its report then.

_OWN_INTERVAL: Final = frozenset({Function.SUM, Function.COUNT})
"""Functions whose result is an opened number itself, and not computed from several."""


def figures(query: Query, report: PrivacyReport, result: Mapping[str, Any]) -> dict[str, Any]:
    """What a list shows of a result: its single numbers, the error of the sum or count, and the
    guess of the promised line."""
    numbers = {name: value for name, value in result.items() if isinstance(value, str | None)}
    interval = None
    if query.function in _OWN_INTERVAL and report.error is not None:
        interval = report.error["parts"][0]["interval"]
    promised = next(
        (line.guess for line in report.verified if line.key == Scenario.ASSUMED.value), None
    )
    return {"result": numbers, "interval": interval, "guess": promised}


# Seals come after the release, by setting (`TACIT_LASTING_SEALS`); an aggregator that gives none
# delays nothing. Spec: keys, section 4.

_seal_log = get_logger("tacit.coordinator.seals")


async def ask_for_seals(conduct: Conduct, transcript: Transcript) -> int:
    """Ask all aggregators of the quorum, and store the valid seals; returns how many there are."""
    descriptor = transcript.descriptor.statement
    peers = await peers_of(conduct, descriptor)
    quorum = [peers[index] for index in transcript.quorum]
    answers = await gather(peer.seal(transcript) for peer in quorum)
    good: list[ShownSeal] = []
    for peer, answer in zip(quorum, answers, strict=True):
        try:
            if isinstance(answer, Exception):
                raise answer
            check_seal(transcript, answer)
            if answer.aggregator != peer.id:
                raise SealRefused("a seal of another aggregator")
        except Exception as error:
            name = getattr(error, "name", type(error).__name__)
            _seal_log.warning("transcript_not_sealed", aggregator=peer.id, problem=name)
        else:
            good.append(answer)
    async with conduct.database.begin() as transaction:
        await lasting_seals.put_transcript_seals(transaction, descriptor.round, good)
    return len(good)
