"""A query that was created."""

from __future__ import annotations

from typing import Any

from tacit.shown import markup
from tacit.shown.base import Shown
from tacit.shown.reports import Preview


class AskedQuery(Shown):
    """A query as the coordinator keeps it, with its preview."""

    id: str
    query: dict[str, Any]
    preview: Preview

    def __str__(self) -> str:
        return f"query {self.id}, {self['query']['name']}"

    def _repr_html_(self) -> str:
        return markup.text("p", str(self)) + self.preview._repr_html_()
