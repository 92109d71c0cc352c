"""Someone who sees why a set-valued job ended wants to know whether its survivors had records.

Two datasets, one public transcript: every sub-partition survives in both. In one all survivors are
false (there are no records), in the other every partition that is split again has a record. Which
limit ends the job has to be the same.
"""

from __future__ import annotations

from fractions import Fraction

import pytest

from algorithms.contract import SequentialContext
from algorithms.set_valued.counts import Run
from algorithms.set_valued.settings import PartitionCap, RowCap, Settings
from tacit.encoders.set_valued_counts import Taxonomy
from tacit.records.items import Transactions
from tests.algorithms.set_valued.examples import SilentLaw, released

GROUP, GROUPS = 4, 4
ITEMS = [str(place) for place in range(GROUP * GROUPS)]
MOST_PARTITIONS, MOST_ROWS = 80, 50
"""Both are met at the second depth: 165 partitions, 60 itemsets."""


def in_every_partition() -> list[list[str]]:
    """One record for each sub-partition of the second depth that is split again: an item of two or
    more groups, and of the first of them every set of items."""
    return [
        [ITEMS[GROUP * first + place] for place in range(GROUP) if inside >> place & 1]
        + [ITEMS[GROUP * other] for other in others]
        for groups in range(1, 1 << GROUPS)
        if (groups & (groups - 1))
        for first, *others in [[each for each in range(GROUPS) if groups >> each & 1]]
        for inside in range(1, 1 << GROUP)
    ]


def ended(records: list[list[str]], partitions: int, rows: int) -> Run:
    settings = Settings(
        Fraction(1, 2), SilentLaw(Fraction(1)), max_partitions=partitions, max_rows=rows
    )
    taxonomy = Taxonomy(len(ITEMS), GROUP)
    return released(Transactions.of(records, ITEMS), taxonomy, settings, SequentialContext())


@pytest.mark.parametrize("records", [[], in_every_partition()], ids=["all false", "all real"])
def test_the_same_limit_ends_both(records: list[list[str]]) -> None:
    with pytest.raises(PartitionCap, match=str(MOST_PARTITIONS)):
        ended(records, MOST_PARTITIONS, MOST_ROWS)
    with pytest.raises(RowCap, match=str(MOST_ROWS)):
        ended(records, 10_000, MOST_ROWS)


def test_counting_false_survivors_alone_tells_them_apart() -> None:
    """The control: the limit that a count of false survivors meets first, as it was."""

    def first_met(records: list[list[str]]) -> str:
        pairs = sum(len({ITEMS.index(item) // GROUP for item in each}) == 2 for each in records)
        false = {"partition_cap": 90 - pairs, "row_cap": 60}  # by kind of test: 90 are of pairs
        limits = {"partition_cap": MOST_PARTITIONS, "row_cap": MOST_ROWS}
        return next(name for name, number in false.items() if number > limits[name])

    real = in_every_partition()
    assert len({tuple(each) for each in real}) == 165
    assert [first_met([]), first_met(real)] == ["partition_cap", "row_cap"]
