"""The ladder: who would have to work together to learn what, one rung for each group.

Spec: console, section 4.2. It is a list, and so its own table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tacit.accounting.scenarios import Scenario
from tacit.report.guessing import of_a_hundred
from tacit.report.model import Pooled, VerifiedStatement

_LAST: Final = 1 << 62


@dataclass(frozen=True)
class Rung:
    """One group. `hundred`: cases of 100 in which it guesses right at most; `protected`: whether
    any bound holds; `promised`: whether the query promises protection down to here."""

    line: VerifiedStatement
    pooled: Pooled
    sentence: str
    hundred: int
    protected: bool
    promised: bool


def ladder(verified: Sequence[VerifiedStatement], participants: int | None) -> tuple[Rung, ...]:
    """The rungs of the lines of a round or query, the smallest group first.

    `participants`: the curators of a round; None before there are any. The line that the query
    promises is a rung of its own only where no larger group is held to the same figures: else the
    promise reaches down to that one. A query that promises nothing has no such rung. Lines without
    a group, as jobs have them, make none.
    """
    lines = [line for line in verified if line.pooled is not None]
    promised = next((line for line in lines if line.key == Scenario.ASSUMED.value), None)
    others = _distinct(line for line in lines if line is not promised)
    down_to = None
    if promised is not None and promised.model != "none":
        same = [line for line in others if _figures(line) == _figures(promised)]
        down_to = next((line for line in reversed(same) if _within(promised, line)), promised)
        if down_to is promised:
            others = _distinct([*others, promised])
    rungs, before = [], None
    for line in others:
        assert line.pooled is not None
        rungs.append(
            Rung(
                line,
                line.pooled,
                _sentence(line.pooled, before, participants),
                of_a_hundred(line.guess),
                line.model != "none",
                line is down_to,
            )
        )
        before = line.pooled
    return tuple(rungs)


def promise(rung: Rung) -> str:
    """What the query promises at this rung."""
    words = "This query promises protection down to here."
    honest = rung.pooled.of - rung.pooled.aggregators
    if rung.pooled.of > 1 and honest == 1:
        words += f" One honest aggregator of {rung.pooled.of} is enough."
    elif rung.pooled.of > 1 and honest > 1:
        words += f" {honest} honest aggregators of {rung.pooled.of} are enough."
    return words


def _distinct(lines: Iterable[VerifiedStatement]) -> list[VerifiedStatement]:
    """One line of each group, the smallest group first."""
    by_group = {_order(line): line for line in lines}
    return [by_group[group] for group in sorted(by_group)]


def _figures(line: VerifiedStatement) -> tuple[str | None, str | None, str | None]:
    return line.epsilon, line.delta, line.guess


def _within(smaller: VerifiedStatement, larger: VerifiedStatement) -> bool:
    """Whether all of one group belong to another."""
    assert smaller.pooled is not None
    assert larger.pooled is not None
    fewer = smaller.pooled.aggregators <= larger.pooled.aggregators
    return fewer and _curators(smaller.pooled) <= _curators(larger.pooled)


def _curators(pooled: Pooled) -> int:
    return _LAST if isinstance(pooled.curators, str) else pooled.curators


def _order(line: VerifiedStatement) -> tuple[int, int]:
    assert line.pooled is not None
    return line.pooled.aggregators, _curators(line.pooled)


def _sentence(pooled: Pooled, before: Pooled | None, participants: int | None) -> str:
    """Who they are; of the same curators as the rung before only what comes to it."""
    curators = aggregators = ""
    if pooled.curators == "all-others":
        curators = "all other curators" if participants is None else _others(participants - 1)
    elif pooled.curators:
        curators = f"{pooled.curators} other curator{'s' if pooled.curators != 1 else ''}"
    if pooled.aggregators == pooled.of:
        aggregators = "the aggregator" if pooled.of == 1 else f"all {pooled.of} aggregators"
    elif pooled.aggregators:
        aggregators = f"{pooled.aggregators} of the {pooled.of} aggregators"
    if not curators and not aggregators:
        return "Anyone who reads this result"
    if aggregators and curators and before is not None and before.curators == pooled.curators:
        return f"… and {aggregators}"
    return f"… with {' and '.join(each for each in (curators, aggregators) if each)}"


def _others(count: int) -> str:
    match count:
        case 0:
            return "no other curator, as there is none"
        case 1:
            return "the one other curator"
        case _:
            return f"all {count} other curators"
