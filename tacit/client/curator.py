"""Calls of a curator service: readings in, and what their owner may see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

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
    get,
    items_of,
    json_of,
    operation,
    pages_of,
    repeatable,
    stream,
)

Kind = Literal["sequences", "transactions"]


def _send_readings(readings: Json | Sequence[Json]) -> Steps[list[answers.curator.ReadingTaken]]:
    """Send readings; one answer per item, in order. A repeated delivery is one reading."""
    body = readings if isinstance(readings, dict) else list(readings)
    return items_of(answers.curator.ReadingTaken, repeatable("POST", "/v1/readings", body), "items")


def _import_readings(
    content: bytes, *, unit: str, **columns: Any
) -> Steps[answers.curator.ImportedReadings]:
    """Import a CSV file of readings (plain, gz or xz); `columns` maps them, see the API."""
    return answer_of(
        answers.curator.ImportedReadings,
        Request(
            "POST",
            "/v1/readings/import",
            content=content,
            params={"unit": unit, **columns},
            headers={"Content-Type": "text/csv"},
            repeatable=True,
        ),
    )


def _import_progress(import_id: str) -> Steps[answers.curator.ImportedReadings]:
    """How far an import is, while it runs."""
    return answer_of(answers.curator.ImportedReadings, get(f"/v1/readings/imports/{import_id}"))


def _put_records(
    curator: str, columns: Sequence[str], rows: Sequence[Sequence[float | str]]
) -> Steps[answers.curator.KeptTable]:
    """Replace a curator's own table; a column has numbers or texts."""
    body = {"curator": curator, "columns": list(columns), "rows": [list(row) for row in rows]}
    return answer_of(answers.curator.KeptTable, repeatable("POST", "/v1/records", body))


def _import_records(
    curator: str, content: bytes, *, codes: Sequence[str] = ()
) -> Steps[answers.curator.KeptTable]:
    """Replace a curator's own table by that of a CSV file with a header (`content`); codes: the
    columns with texts."""
    return answer_of(
        answers.curator.KeptTable,
        Request(
            "POST",
            "/v1/records",
            content=content,
            params={"curator": curator, "codes": list(codes)},
            headers={"Content-Type": "text/csv"},
            repeatable=True,
        ),
    )


def _records(curator: str) -> Steps[answers.curator.KeptTable]:
    """Columns and number of rows of a curator's table."""
    return answer_of(answers.curator.KeptTable, get(f"/v1/curators/{curator}/records"))


def _drop_records(curator: str) -> Steps[None]:
    """Delete a curator's table."""
    yield repeatable("DELETE", f"/v1/curators/{curator}/records")


def _put_items(
    kind: Kind, curator: str, content: bytes, *, name: str = "records", form: str = "text"
) -> Steps[answers.curator.KeptItems]:
    """Give a curator a table of its own sequences or sets (`transactions`); a table of the same
    name is replaced. content: a file of them; form: text, ndjson or spmf."""
    return answer_of(
        answers.curator.KeptItems,
        Request(
            "POST",
            f"/v1/{kind}",
            content=content,
            params={"curator": curator, "name": name, "format": form},
            headers={"Content-Type": "text/plain"},
            repeatable=True,
        ),
    )


def _items(kind: Kind, curator: str) -> Steps[answers.curator.ItemTables]:
    """Names and sizes of a curator's tables of sequences, or of sets."""
    return answer_of(answers.curator.ItemTables, get(f"/v1/curators/{curator}/{kind}"))


def _drop_items(kind: Kind, curator: str, *, name: str = "records") -> Steps[None]:
    """Delete a curator's table of sequences, or of sets."""
    path = f"/v1/curators/{curator}/{kind}"
    yield Request("DELETE", path, params={"name": name}, repeatable=True)


def _statement(curator: str) -> Steps[answers.curator.OwnBudget]:
    """A curator's ledger statement: what was spent, what is left."""
    return answer_of(answers.curator.OwnBudget, get(f"/v1/curators/{curator}/budget"))


def _verify_ledger(
    *, seq: int | None = None, head: str | None = None
) -> Steps[answers.budget.LedgerVerification]:
    """Have a curator service verify every row of its ledger, and a checkpoint that you kept."""
    return answer_of(
        answers.budget.LedgerVerification,
        get("/v1/ledger/verification", {"seq": seq, "head": head}),
    )


def _history(curator: str) -> Stream[answers.curator.GivenContribution]:
    """Rounds that a curator contributed to or refused, newest first."""
    return pages_of(
        answers.curator.GivenContribution, f"/v1/curators/{curator}/contributions", "contributions"
    )


def _debits(curator: str, *, unit: str = "curator") -> Stream[answers.curator.Debit]:
    """All debits of a curator's ledger in one privacy unit, newest first."""
    return pages_of(
        answers.curator.Debit, f"/v1/curators/{curator}/debits", "debits", {"unit": unit}
    )


def _reports(curator: str) -> Stream[Answer]:
    """Jobs that asked a curator for noisy reports, newest first, and how many it made."""
    return pages_of(Answer, f"/v1/curators/{curator}/reports", "reports")


def _answer(curator: str, round_id: str) -> Steps[answers.curator.WholeContribution]:
    """One answer of a curator, and which parties would have to collude to learn more from it."""
    return answer_of(answers.curator.WholeContribution, get(_answer_path(curator, round_id)))


def _answer_anchors(curator: str, round_id: str) -> Steps[Json]:
    """Which round a curator answered, and to whose identities: {"descriptor_hash", "trust", ...}.

    `trust` is a trust file for `verify` and `tacit round verify`.
    """
    return json_of(get(f"{_answer_path(curator, round_id)}/anchors"))


def _answer_transcript(curator: str, round_id: str) -> Steps[Json]:
    """The transcript of a round that a curator answered, as its service fetched it."""
    return json_of(get(f"{_answer_path(curator, round_id)}/transcript"))


def _check_answer(curator: str, round_id: str) -> Steps[Json]:
    """Recombine the sum of a round that a curator answered: {"same_round", "result", ...}.

    Which round it was, and to whose keys its pieces went, is taken from the curator's service,
    not from the coordinator. `same_round`: whether the coordinator published the round that was
    answered; a transcript of another round is not checked. Raises TranscriptNotAnchored for an
    identity that did not receive the answer, and the errors of each single check.
    """
    # Loaded only here: everything else is asked without the protocol.
    from tacit.client.verification import check_answer

    return check_answer(_answer_path(curator, round_id), round_id)


def _reading_counts(curator: str) -> Steps[answers.curator.ReadingCounts]:
    """How many readings of a curator were accepted, refused, used, clamped."""
    return answer_of(answers.curator.ReadingCounts, get(f"/v1/curators/{curator}/readings"))


def _curators(*, prefix: str | None = None) -> Stream[Answer]:
    """The roster, by number; `prefix`: only those whose id begins so."""
    return pages_of(Answer, "/v1/curators", "curators", {"prefix": prefix})


def _own_curators(*, prefix: str = "", only: str | None = None) -> Stream[Answer]:
    """The curators of a curator service: budget left, newest reading, stops; `only`: of one filter
    (out_of_budget, without_bound, silent, stopped, own_policy)."""
    return pages_of(Answer, "/v1/curators", "curators", {"prefix": prefix or None, "filter": only})


def _summary() -> Steps[Answer]:
    """How many curators a curator service has, and how many of them need attention."""
    return answer_of(Answer, get("/v1/summary"))


def _intake(*, begin: str | None = None, end: str | None = None) -> Steps[Answer]:
    """Readings that arrived in each whole hour, by outcome; of one day if `begin` is not given."""
    return answer_of(Answer, get("/v1/intake", {"from": begin, "to": end}))


def _silent_devices(*, silent_s: int = 86_400) -> Stream[Answer]:
    """Devices without a reading in the last `silent_s` seconds, the longest silent first."""
    return pages_of(Answer, "/v1/devices", "devices", {"silent_s": silent_s})


def _registers() -> Steps[Answer]:
    """Registers that have readings, their units, and the queries that use them."""
    return answer_of(Answer, get("/v1/registers"))


def _completeness(
    register: str, *, period_s: int = 3_600, begin: str | None = None, end: str | None = None
) -> Steps[Answer]:
    """How many devices have a reading of a register in each period; of one day if `begin` is not
    given."""
    parameters = {"register": register, "period_s": period_s, "from": begin, "to": end}
    return answer_of(Answer, get("/v1/completeness", parameters))


def _calendar(
    curator: str,
    *,
    register: str | None = None,
    to: str | None = None,
    timezone: str | None = None,
) -> Steps[Answer]:
    """For each device of a curator the newest reading, and which of the 35 days up to a date
    (default: today) are complete, partial or missing. Of one register (default: the first). Days
    of an IANA zone (default: the service's)."""
    parameters = {"register": register, "to": to, "timezone": timezone}
    return answer_of(Answer, get(f"/v1/curators/{curator}/calendar", parameters))


def _policy(curator: str | None = None) -> Steps[Json]:
    """The default policy, or a curator's."""
    return json_of(get(_policy_path(curator)))


def _set_policy(policy: Json, *, curator: str | None = None) -> Steps[Json]:
    """Set the default policy, or a separate one for a curator; it replaces the whole policy."""
    request = repeatable("PUT", _policy_path(curator), policy)
    return json_of(request)


def _preview_policy(policy: Json, *, curator: str | None = None) -> Steps[Answer]:
    """Which rounds of the last 30 days a policy would have answered: {"rounds", "answered",
    "refused"}; of a curator, or of the whole process."""
    return answer_of(Answer, repeatable("POST", f"{_policy_path(curator)}/preview", policy))


def _drop_policy(curator: str) -> Steps[None]:
    """Delete your override of a curator's policy."""
    yield repeatable("DELETE", _policy_path(curator))


def _stops(curator: str | None = None) -> Steps[Answer]:
    """Whether a curator is stopped, and by whom; without `curator`: the whole process."""
    return answer_of(Answer, get(_stop_path(curator)))


def _stop(curator: str | None = None) -> Steps[Answer]:
    """Stop a curator; without `curator`: all of the process."""
    return answer_of(Answer, repeatable("PUT", _stop_path(curator), {"stopped": True}))


def _start_again(curator: str | None = None) -> Steps[Answer]:
    """Resume: remove your own stop. Stops by others (owner, operator, process) stay."""
    return answer_of(Answer, repeatable("PUT", _stop_path(curator), {"stopped": False}))


def _answer_path(curator: str, round_id: str) -> str:
    return f"/v1/curators/{curator}/contributions/{round_id}"


def _stop_path(curator: str | None) -> str:
    return "/v1/stop" if curator is None else f"/v1/curators/{curator}/stop"


def _policy_path(curator: str | None) -> str:
    return "/v1/policy" if curator is None else f"/v1/curators/{curator}/policy"


class Readings(Group[C]):
    """Readings of a curator service."""

    send = operation(_send_readings)
    import_file = operation(_import_readings)
    import_progress = operation(_import_progress)
    counts = operation(_reading_counts)
    intake = operation(_intake)
    silent_devices = stream(_silent_devices)
    registers = operation(_registers)
    completeness = operation(_completeness)
    calendar = operation(_calendar)


class Records(Group[C]):
    """Tables, sequences and sets of a service's curators."""

    put = operation(_put_records)
    import_file = operation(_import_records)
    get = operation(_records)
    delete = operation(_drop_records)
    put_items = operation(_put_items)
    get_items = operation(_items)
    delete_items = operation(_drop_items)


class Ledger(Group[C]):
    """What a service's curators have spent."""

    statement = operation(_statement)
    verify = operation(_verify_ledger)
    debits = stream(_debits)


class Contributions(Group[C]):
    """What curators contributed to rounds and jobs."""

    list = stream(_history)
    reports = stream(_reports)
    get = operation(_answer)
    anchors = operation(_answer_anchors)
    transcript = operation(_answer_transcript)
    check = operation(_check_answer)


class Curators(Group[C]):
    """Curators: all that a coordinator knows, or those that a curator service hosts."""

    list = stream(_curators)
    hosted = stream(_own_curators)
    summary = operation(_summary)
    stops = operation(_stops)
    stop = operation(_stop)
    resume = operation(_start_again)


class Policies(Group[C]):
    """What curators agree to."""

    get = operation(_policy)
    set = operation(_set_policy)
    preview = operation(_preview_policy)
    delete = operation(_drop_policy)
