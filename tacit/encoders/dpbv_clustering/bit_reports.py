"""DPBV over curators: the flipped bits of every row, and the proof of what they are worth.

Spec: dpbv-clustering, sections 2, 3.1, 3.2 and 4.3; jobs, "Federated jobs". `dpbv-exact` states
(epsilon, delta) of a row; a curator proves it from the coins and the points, or refuses. `dpbv`, of
the stance `paper`, states nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from tacit.accounting.randomised_response import MOST_RESPONSES, delta_of_responses
from tacit.encoders.dpbv_clustering.encoder import (
    BLOCK_COINS,
    Box,
    Code,
    Design,
    Flip,
    Floats,
    Words,
    encode,
    from_wire,
    make_codes,
    words_per_value,
)
from tacit.encoders.dpbv_clustering.loss import most_differing
from tacit.encoders.dpbv_clustering.rows import (
    RowReports,
    floats,
    malformed,
    packed_reports,
    positive,
    whole,
)
from tacit.encoders.reports import Cost, EncodingRefused
from tacit.protocol.federation import MOST_REPORT_BYTES, Report
from tacit.randomness import NoiseSource
from tacit.wire import format_exact, parse_exact


@dataclass(frozen=True)
class BitReports(RowReports):
    """`dpbv` and `dpbv-exact`. half_windows: t of every attribute, after the box's map; `stated`:
    (epsilon, delta) of a row, None for `dpbv`; `tight`: only bits that can differ are counted."""

    half_windows: tuple[float, ...]
    bits: int
    design: Design
    seed: int
    flip: Flip
    tight: bool
    stated: Cost | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.half_windows) != self.columns:
            raise EncodingRefused("one half window for every attribute")
        if not all(half > 0 and math.isfinite(half) for half in self.half_windows):
            raise EncodingRefused("half windows are positive and finite")
        if not 0 <= self.seed < 1 << 64:
            raise EncodingRefused("a seed has 64 bits")
        if self.bits < 8 or self.bits * self.columns > MOST_RESPONSES:
            raise EncodingRefused(f"a row has at most {MOST_RESPONSES} bits")
        if 8 * self.columns * words_per_value(self.bits) > MOST_REPORT_BYTES:
            raise EncodingRefused(f"a report has at most {MOST_REPORT_BYTES} bytes")

    @cached_property
    def codes(self) -> tuple[Code, ...]:
        """Of every attribute."""
        return make_codes(self.box.ranges, self.half_windows, self.bits, self.design, self.seed)

    @cached_property
    def cost(self) -> Cost | None:
        """What is stated, where the coins prove it. Raises EncodingRefused where they do not."""
        if self.stated is None:
            return None
        differing = self.bits * self.columns
        if self.tight:
            differing = sum(most_differing(code) for code in self.codes)
        if not _proven(differing, self.flip, self.stated):
            raise EncodingRefused("the coins protect less than is stated")
        return self.stated

    def document(self) -> dict[str, Any]:
        """As JSON."""
        target = self.box.target
        found = {
            "method": "dpbv" if self.stated is None else "dpbv-exact",
            **self.bounds(),
            "rescale_to": None if target is None else [repr(value) for value in target],
            "one_factor": self.box.one_factor,
            "half_windows": [repr(value) for value in self.half_windows],
            "s": self.bits,
            "r_design": self.design,
            "r_seed": str(self.seed),
            "flip_threshold": self.flip.threshold,
            "tight_k": self.tight,
        }
        if self.stated is not None:
            found["epsilon"] = format_exact(self.stated.epsilon)
            found["delta"] = format_exact(self.stated.delta)
        return found

    def perturbed(self, rows: Mapping[str, Floats], source: NoiseSource) -> list[Report]:
        """Packed bits, the attributes one after the other."""
        step = max(1, BLOCK_COINS // (self.bits * self.columns))

        def packed(values: Floats) -> Iterator[Words]:
            for start in range(0, len(values), step):
                mapped = self.box.apply(values[start : start + step])
                yield encode(mapped, self.codes, self.flip, source)

        return packed_reports(rows, packed)

    def refusal(self, report: Report) -> str | None:
        """Bits of another length, or with pad bits that are not zero."""
        return self.misplaced(report) or malformed(report, self.columns, self.bits)

    def words(self, report: Report) -> Words:
        """The bits of a report that was taken, (d, ceil(s/64))."""
        assert report.bits is not None
        return from_wire(report.bits, self.columns, self.bits)


def _proven(differing: int, flip: Flip, stated: Cost) -> bool:
    """Whether this many flipped bits are (epsilon, delta)-private for any two values."""
    if not flip.threshold or not differing:
        return not differing
    try:
        needed = Flip.of_epsilon(stated.epsilon / differing)
    except ValueError:  # a coin as fair as that does not exist
        return False
    if flip.threshold >= needed.threshold:
        return True
    kept = Fraction(flip.epsilon)
    return delta_of_responses(differing, kept, stated.epsilon) <= stated.delta


def read_bits(
    given: dict[str, Any],
    lower: tuple[float, ...],
    upper: tuple[float, ...],
    records: int,
    *,
    exact: bool,
) -> BitReports:
    """The rest of a document, which is taken out of `given`. Raises ValueError, TypeError or
    KeyError where there is none."""
    target = given.pop("rescale_to")
    one_factor, tight = given.pop("one_factor"), given.pop("tight_k")
    design = given.pop("r_design")
    if design not in ("uniform", "grid") or not {one_factor, tight} <= {True, False}:
        raise EncodingRefused("the document is none of dpbv-clustering's")
    ends = None
    if target is not None:
        low, high = floats(target)
        ends = (low, high)
    stated = None
    if exact:
        stated = Cost(positive(given.pop("epsilon")), parse_exact(given.pop("delta")))
        if not 0 <= stated.delta < 1:
            raise EncodingRefused("a delta lies in [0, 1)")
    return BitReports(
        Box(lower, upper, ends, one_factor),
        records,
        floats(given.pop("half_windows")),
        whole(given.pop("s")),
        design,
        int(given.pop("r_seed")),
        Flip(whole(given.pop("flip_threshold"))),
        tight,
        stated,
    )
