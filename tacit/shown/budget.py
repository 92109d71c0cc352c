"""What was spent over all releases."""

from __future__ import annotations

from typing import Any

from tacit.shown import markup
from tacit.shown.base import Number, Shown
from tacit.shown.tables import frame


class SpentLine(Shown):
    """What holds over all rounds against one group of people."""

    scenario: str
    key: str
    trust_model: str | None
    epsilon: Number | None
    delta: Number | None


class Released(Shown):
    """All rounds composed, for a reading and for a curator."""

    rounds: int
    record: list[SpentLine]
    curator: list[SpentLine]
    sentence: str


class Budget(Shown):
    """The global bounds that the sources claim, and what really holds for what was released."""

    claimed: dict[str, Any]
    released: Released

    def rows(self) -> list[dict[str, Any]]:
        """A record for each group of people and unit: what all rounds together cost."""
        lines = (("record", self.released.record), ("curator", self.released.curator))
        return [
            {
                "unit": unit,
                "key": line.key,
                "scenario": line.scenario,
                "epsilon": line.epsilon,
                "delta": line.delta,
            }
            for unit, found in lines
            for line in found
        ]

    def to_frame(self) -> Any:
        """The rows as a pandas or polars data frame, whichever is installed, else as they are."""
        return frame(self.rows())

    def _repr_html_(self) -> str:
        rows = [[str(value) for value in row.values()] for row in self.rows()]
        heads = ["unit", "row", "who works together", "epsilon", "delta"]
        told = f"{self.released.rounds} rounds. {self.released.sentence}"
        return markup.table(heads, rows) + markup.text("p", told)
