"""Calls about queries and rounds (coordinator): creating queries; opening, following, ending,
reading and checking rounds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final
from uuid import uuid4

from pydantic import BaseModel

import tacit
from tacit import answers
from tacit.answers.base import Answer
from tacit.client.exchange import (
    C,
    Group,
    Json,
    Request,
    Steps,
    Stream,
    answer_of,
    creating,
    get,
    items_of,
    json_of,
    last,
    operation,
    pages_of,
    repeatable,
    stream,
    text_of,
    watch,
)
from tacit.errors import Error
from tacit.wire import format_instant


def _preview(
    query: Json | tacit.Query,
    *,
    epsilons: Sequence[str] | None = None,
    rhos: Sequence[str] | None = None,
) -> Steps[tacit.Preview]:
    """The privacy report and error forecast of a query; nothing is spent.

    `epsilons`, and for Gaussian noise `rhos`: decimal strings to try instead of the query's own;
    "stops" in the answer has the outcome of each.
    """
    body = _body(query)
    if epsilons is not None:
        body = {**body, "epsilons": list(epsilons)}
    if rhos is not None:
        body = {**body, "rhos": list(rhos)}
    return answer_of(tacit.Preview, repeatable("POST", "/v1/queries/preview", body))


def create_query(query: Json | tacit.Query, *, key: str | None = None) -> Steps[tacit.AskedQuery]:
    """Create a query; the same content is the same query."""
    return answer_of(tacit.AskedQuery, creating("/v1/queries", _body(query), key or uuid4().hex))


def _queries() -> Stream[tacit.AskedQuery]:
    """All queries."""
    return pages_of(tacit.AskedQuery, "/v1/queries", "queries")


def _query(query_id: str) -> Steps[tacit.AskedQuery]:
    """One query with its preview."""
    return answer_of(tacit.AskedQuery, get(f"/v1/queries/{query_id}"))


def _stop_query(query_id: str) -> Steps[tacit.AskedQuery]:
    """End the schedule of a query; open rounds continue."""
    return answer_of(tacit.AskedQuery, repeatable("DELETE", f"/v1/queries/{query_id}/schedule"))


def _body(query: Json | tacit.Query) -> Json:
    if isinstance(query, BaseModel):
        return query.model_dump(mode="json", exclude_none=True)
    return query


class Queries(Group[C]):
    """What rounds compute."""

    preview = operation(_preview)
    create = operation(create_query)
    list = stream(_queries)
    get = operation(_query)
    stop = operation(_stop_query)


FINISHED: Final = ("released", "aborted")


class RoundNotReleased(Error):
    """The round was aborted."""


def _open_round(
    query_id: str,
    *,
    window: Json | None = None,
    deadline_s: int | None = None,
    aggregators: list[str] | None = None,
    key: str | None = None,
) -> Steps[tacit.Round]:
    """Open a round; `window` is {"start", "end"} unless the query fixes one."""
    options = {"window": window, "deadline_s": deadline_s, "aggregators": aggregators}
    body = {"query_id": query_id, **{k: v for k, v in options.items() if v is not None}}
    return answer_of(tacit.Round, creating("/v1/rounds", body, key or uuid4().hex))


def _rounds(
    *, state: str | None = None, query_id: str | None = None, newest_first: bool = False
) -> Stream[tacit.Round]:
    """Rounds, by state or query: their heads; released rounds with the figures of the result."""
    order = {"newest_first": "true"} if newest_first else {}
    parameters = {"state": state, "query_id": query_id, "form": "head", **order}
    return pages_of(tacit.Round, "/v1/rounds", "rounds", parameters)


def _round(round_id: str) -> Steps[tacit.Round]:
    """One round."""
    return answer_of(tacit.Round, get(f"/v1/rounds/{round_id}"))


def _watch(round_id: str, timeout_s: float = 600.0) -> Stream[tacit.Round]:
    """The round at each change, until it is finished; raises NotFinished."""
    return _watched(round_id, timeout_s)


def _watched(
    round_id: str, timeout_s: float, *, only_finished: bool = False
) -> Stream[tacit.Round]:
    path, subject = f"/v1/rounds/{round_id}", f"round {round_id}"
    return watch(path, subject, FINISHED, timeout_s, kind=tacit.Round, only_finished=only_finished)


def _wait_for(
    round_id: str,
    timeout_s: float = 600.0,
    *,
    progress: Callable[[tacit.Round], object] | None = None,
) -> Steps[tacit.Result]:
    """The result of a round once it is released; raises RoundNotReleased if it aborts, NotFinished
    where that takes longer. `progress` is called with the round each time that it changes
    (`tacit.show_progress` prints it)."""
    watched = _watched(round_id, timeout_s, only_finished=progress is None)
    round_seen = yield from last(watched, progress)
    if round_seen.state == "aborted":
        raise RoundNotReleased(round_seen.reason)
    return (yield from _result(round_id))


def _instant(value: str | datetime) -> str:
    if isinstance(value, str):
        return value
    if value.utcoffset() is None:
        raise ValueError("a time needs a zone: datetime(..., tzinfo=UTC)")
    return format_instant(value)


def _ask(
    query: Json | tacit.Query,
    *,
    window: tuple[str | datetime, str | datetime] | None = None,
    deadline_s: int | None = None,
    timeout_s: float = 600.0,
    progress: Callable[[tacit.Round], object] | None = None,
) -> Steps[tacit.Result]:
    """Create a query, open a round of it and wait for the result. `window`: start and end
    (excluded) of the readings, RFC 3339 or datetimes with a zone, unless the query fixes one.
    `preview` shows the cost. Raises ValueError for a datetime without a zone."""
    span = None if window is None else {"start": _instant(window[0]), "end": _instant(window[1])}
    query_made = yield from create_query(query)
    opened = yield from _open_round(query_made.id, window=span, deadline_s=deadline_s)
    return (yield from _wait_for(opened.id, timeout_s, progress=progress))


def _result(round_id: str) -> Steps[tacit.Result]:
    """The released result with its privacy report."""
    return answer_of(tacit.Result, get(f"/v1/rounds/{round_id}/result"))


def _compare(
    first_round: str, second_round: str, *, per_curator: bool = False
) -> Steps[tacit.Comparison]:
    """Difference and ratio of two results (week by week, feeder by feeder), each with an interval
    that contains it without noise in 95 of 100 cases.

    Computed here from released results: it costs no privacy. `per_curator` first divides each
    figure by its number of curators. Raises NotComparable for a mean or a variance, and for
    different functions, units or bins.
    """
    # Loaded only here: other calls do without numpy.
    from tacit.report.comparison import NotComparable, Released, compare

    released = []
    for round_id in (first_round, second_round):
        shown = yield from _result(round_id)
        answer_query = yield from _query(shown.query_id)
        query = tacit.Query.model_validate_json(json.dumps(answer_query["query"]))
        released.append(Released(query, shown.participants, shown["result"]))
    if first_round == second_round:
        raise NotComparable("one result was named twice: its noise is the same both times")
    return tacit.Comparison(compare(released[0], released[1], per_curator=per_curator))


def _report(round_id: str) -> Steps[tacit.Report]:
    """The privacy report of a result."""
    return answer_of(tacit.Report, get(f"/v1/rounds/{round_id}/report"))


def _report_words(round_id: str) -> Steps[str]:
    """The privacy report of a result in plain words."""
    return text_of(f"/v1/rounds/{round_id}/report")


def _round_states(round_ids: Sequence[str]) -> Steps[list[tacit.Round]]:
    """Up to a thousand rounds by id, as in lists; unknown ids are left out."""
    body = {"rounds": list(round_ids)}
    return items_of(tacit.Round, repeatable("POST", "/v1/rounds/states", body), "rounds")


def _descriptor(round_id: str) -> Steps[Json]:
    """The signed descriptor of a round."""
    return json_of(get(f"/v1/rounds/{round_id}/descriptor"))


def _transcript(round_id: str) -> Steps[Json]:
    """What anyone needs to check the sum."""
    return json_of(get(f"/v1/rounds/{round_id}/transcript"))


def _refusals(round_id: str) -> Steps[answers.rounds.RoundRefusals]:
    """How many curators refuse a round, by ground; for operators."""
    return answer_of(answers.rounds.RoundRefusals, get(f"/v1/rounds/{round_id}/refusals"))


def _refused(round_id: str) -> Steps[answers.rounds.RefusedByProof]:
    """For operators: which curators of a proved round had invalid proofs, and why, the first
    thousand by name; and statements of aggregators that contradict each other."""
    return answer_of(answers.rounds.RefusedByProof, get(f"/v1/rounds/{round_id}/refused"))


def _standing(round_id: str) -> Steps[answers.rounds.OwnStanding]:
    """Which of a party's own curators had invalid proofs, and why; with the party's token."""
    return answer_of(answers.rounds.OwnStanding, get(f"/v1/rounds/{round_id}/standing"))


def _close_round(round_id: str) -> Steps[tacit.Round]:
    """Freeze before the deadline."""
    return _end(round_id, "close")


def _abort_round(round_id: str) -> Steps[tacit.Round]:
    """End a round without a sum, for good."""
    return _end(round_id, "abort")


def _verify(round_id: str, *, trust: tacit.Trust | None = None) -> Steps[Json]:
    """Recombine a round's transcript here and compare; {"result", "matches", "anchored", ...}.

    Every signature, commitment and reveal is checked, and the sum is recomputed from the partial
    sums. `trust` pins the identities of the coordinator and of all aggregators, as you know them
    from elsewhere (`tacit trust`): any other raises TranscriptNotAnchored. Without it only the
    coordinator vouches for its aggregators, and `anchored` is false. `validity`: how far one
    lying curator can move the result, computed here from the signed query. `sealed_by`:
    aggregators with a valid seal of this transcript, and the fingerprints of their identity
    documents.
    """
    # Loaded only here: everything else is asked without the protocol.
    from tacit.client.verification import verify_round

    return verify_round(round_id, trust)


def _seals(round_id: str) -> Steps[list[Answer]]:
    """The seals of a released round's transcript, as the aggregators made them."""
    return items_of(Answer, get(f"/v1/rounds/{round_id}/seals"), "seals")


def _ask_seals(round_id: str) -> Steps[answers.registry.SealsAsked]:
    """Ask the aggregators of a round's quorum for their seals of its transcript again."""
    return answer_of(
        answers.registry.SealsAsked, repeatable("POST", f"/v1/rounds/{round_id}/seals")
    )


def _end(round_id: str, how: str) -> Steps[tacit.Round]:
    return answer_of(
        tacit.Round, Request("POST", f"/v1/rounds/{round_id}/{how}", repeatable=how == "abort")
    )


def _received(round_id: str) -> Steps[Answer]:
    """The progress of an open round: which parties have not answered, and what every aggregator
    reports to have."""
    return answer_of(Answer, get(f"/v1/rounds/{round_id}/received"))


def _flow(*, since: str | None = None, until: str | None = None) -> Steps[Answer]:
    """Whether contributions arrive and where they stop, in counts: RFC 3339 times, by default the
    last 24 hours (coordinator; an aggregator reports its own hours)."""
    return answer_of(Answer, get("/v1/flow", {"from": since, "to": until}))


class Rounds(Group[C]):
    """Rounds of a query, and what they released."""

    ask = operation(_ask)
    open = operation(_open_round)
    list = stream(_rounds)
    get = operation(_round)
    states = operation(_round_states)
    watch = stream(_watch)
    wait = operation(_wait_for)
    result = operation(_result)
    compare = operation(_compare)
    report = operation(_report)
    report_text = operation(_report_words)
    descriptor = operation(_descriptor)
    transcript = operation(_transcript)
    refusals = operation(_refusals)
    refused_by_proof = operation(_refused)
    received = operation(_received)
    flow = operation(_flow)
    standing = operation(_standing)
    close = operation(_close_round)
    abort = operation(_abort_round)
    seals = operation(_seals)
    ask_seals = operation(_ask_seals)
    verify = operation(_verify)
