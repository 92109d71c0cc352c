"""Answers about queries."""

from __future__ import annotations

from tacit.answers.base import Answer, Time
from tacit.query.query import Query
from tacit.report.model import PrivacyReport


class KeptQuery(Answer):
    """A query with the privacy report that each of its rounds would have. `rounds`: how many it
    had; `last`: the newest; `stopped`: since when its schedule opens no more."""

    id: str
    hash: str
    created: Time
    stopped: Time | None
    rounds: int
    last: str | None
    query: Query
    preview: PrivacyReport


class ListOfQueries(Answer):
    """A page of queries, the oldest first."""

    queries: list[KeptQuery]
