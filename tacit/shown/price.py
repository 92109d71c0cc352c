"""What a query would cost, and how far off its result would be: no service is asked."""

from __future__ import annotations

import json

from tacit.query.query import Query
from tacit.report.model import Subject
from tacit.shown.reports import Preview


def price(query: Query, participants: int | None = None) -> Preview:
    """The report of a query with this many curators (default: as few as it takes), as a
    coordinator's preview would be whose aggregators each have an operator of their own."""
    # Loaded only here: a client works without the extra `proofs`.
    from tacit.report.queries import query_report

    made = query_report(
        query, subject=Subject(kind="query", id=query.name), participants=participants
    )
    return Preview(json.loads(made.model_dump_json()))
