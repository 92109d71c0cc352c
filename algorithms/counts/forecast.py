"""What counting over curators will give and take, before anything is spent: public values only.

Spec: federated-counting, section 10. A released sum holds R whole draws of noise of scale b, a
Polya difference of weight R: its mean absolute value is about 2 b Gamma(R + 1/2) / (sqrt(pi)
Gamma(R)).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context
from fractions import Fraction
from typing import Any, Final

from tacit.protocol.declared_pieces import SHORT
from tacit.randomness import SEED_BYTES
from tacit.report.figures import amount
from tacit.wire import format_exact

WORD_BYTES: Final = 8
DAY_S: Final = 86_400
_SHORT: Final = Context(prec=4)


@dataclass(frozen=True)
class PlannedQuestion:
    """A question as it is planned. stage: what it asks; rate: the least part of epsilon that one of
    its groups has; reach: A; threshold: what a count must reach to be looked into (None: all are
    read); chance: that an empty cell reaches it; group: cells of one group; most: cells at most."""

    stage: str
    rate: Fraction
    reach: int
    threshold: int | None
    chance: float | None
    group: int
    most: int

    @property
    def scale(self) -> Fraction:
        """b."""
        return self.reach / self.rate


@dataclass(frozen=True)
class Asking:
    """Who is asked, and how. draws: R; seeds: how many aggregators get the seeds of long pieces;
    deadline_s: of one round; records: a public guess of how many there are in total, None without
    one."""

    draws: Fraction
    aggregators: int
    seeds: int
    curators: int
    deadline_s: int
    records: int | None = None


def mean_absolute_error(draws: Fraction, scale: Fraction) -> float:
    """Of one released count, about."""
    weight = float(draws)
    ratio = math.exp(math.lgamma(weight + 0.5) - math.lgamma(weight))
    return 2 * float(scale) * ratio / math.sqrt(math.pi)


def cells_at_most(planned: PlannedQuestion, before: int | None, records: int | None) -> int:
    """Cells of a question, as expected. before: the threshold of the question before it, None
    where all its cells may be looked into; records: in total.

    A record adds `reach` to the question before at most, so that no more than `records * reach /
    before` of its cells reach the threshold; one more for what passes by noise.
    """
    if before is None or records is None:
        return planned.most
    return min(planned.most, (1 + records * planned.reach // before) * planned.group)


def forecast(questions: Sequence[PlannedQuestion], asking: Asking) -> dict[str, Any]:
    """The figures of a preview: JSON values."""
    steps, words, own, before = [], 0, 0, None
    for planned in questions:
        cells = cells_at_most(planned, before, asking.records)
        steps.append(_step(planned, asking, cells))
        words += cells
        own += _bytes(cells, asking)
        before = planned.threshold
    rarest = max((each.threshold or 0 for each in questions), default=0)
    found: dict[str, Any] = {
        "basis": "the least part of epsilon that a count may get, and all the noise that a sum may "
        "hold; smaller counts are not told from noise; words as many as may be asked, or fewer if "
        "so few records cannot fill them; bytes are those of words and seeds, without headers and "
        "proofs, if all n_max curators take part",
        "draws_of_noise": format_exact(asking.draws),
        "mean_absolute_error": max(
            (_figure(mean_absolute_error(asking.draws, each.scale)) for each in questions),
            key=float,
        ),
        "smallest_count_that_shows": rarest,
        "rounds": len(questions),
        "words_expected_at_most": words,
        "bytes_of_a_curator": own,
        "bytes_in_total": own * asking.curators,
        "days_at_most": _figure(len(questions) * asking.deadline_s / DAY_S),
        "steps": steps,
    }
    if asking.records is not None:
        found["smallest_share_that_shows"] = _figure(rarest / asking.records)
    return found


def _bytes(words: int, asking: Asking) -> int:
    """What a curator seals of a question for all aggregators."""
    seeds = asking.seeds if words > SHORT else 0
    return words * WORD_BYTES * (asking.aggregators - seeds) + SEED_BYTES * seeds


def _step(planned: PlannedQuestion, asking: Asking, cells: int) -> dict[str, Any]:
    return {
        "asks": planned.stage,
        "rate": format_exact(planned.rate),
        "scale": _figure(float(planned.scale)),
        "mean_absolute_error": _figure(mean_absolute_error(asking.draws, planned.scale)),
        "threshold": planned.threshold,
        "chance_of_a_false_cell": None if planned.chance is None else _figure(planned.chance),
        "words_expected_at_most": cells,
    }


def _figure(number: float) -> str:
    return amount(Fraction(number), _SHORT)
