"""The budget with Python values and methods for notebooks."""

from __future__ import annotations

from typing import Any

from tacit.answers import budget
from tacit.client.objects import Exact, frame, table, text


class SpentLine(budget.ReleasedAmount):
    """The verified guarantee of all rounds against one group of people."""

    epsilon: Exact  # type: ignore[assignment]
    delta: Exact  # type: ignore[assignment]


class Released(budget.Released):
    """All rounds composed, for a reading and for a curator."""

    record: list[SpentLine]  # type: ignore[assignment]
    curator: list[SpentLine]  # type: ignore[assignment]


class Budget(budget.Budget):
    """The global bounds that the sources claim, and the verified guarantee of what was released."""

    claimed: dict[str, Any]  # type: ignore[assignment]
    released: Released

    def rows(self) -> list[dict[str, Any]]:
        """A record for each group of people and unit: the cost of all rounds together."""
        lines = (("record", self.released.record), ("curator", self.released.curator))
        return [
            {
                "unit": unit,
                "key": line.key,
                "scenario": line.scenario,
                "epsilon": line.epsilon,
                "delta": line.delta,
            }
            for unit, figure in lines
            for line in figure
        ]

    def to_frame(self) -> Any:
        """The rows as a pandas or polars data frame, whichever is installed, else as they are."""
        return frame(self.rows())

    def _repr_html_(self) -> str:
        rows = [[str(value) for value in row.values()] for row in self.rows()]
        heads = ["unit", "row", "who works together", "epsilon", "delta"]
        told = f"{self.released.rounds} rounds. {self.released.sentence}"
        return table(heads, rows) + text("p", told)
