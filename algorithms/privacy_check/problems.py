"""What is refused. Spec: trajectory-kcl, section 10."""

from __future__ import annotations

from tacit.errors import Invalid


class UnknownColumn(Invalid):
    name = "unknown_column"
    title = "The table has no such column"


class QidSensitiveOverlap(Invalid):
    name = "qid_sensitive_overlap"
    title = "A column is quasi-identifier and sensitive at once"


class EmptyTable(Invalid):
    name = "empty_table"
    title = "The table has no rows"


class BadDistance(Invalid):
    name = "bad_distance"
    title = "The ground distance is not a metric"


class ValueMissing(Invalid):
    name = "value_missing"
    title = "A sensitive cell has no value"
