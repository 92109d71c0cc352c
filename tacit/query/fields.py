"""The fields of a query, each checked by itself.

Spec: aggregation, section 2. Every rule that needs no other party is checked here, field by field,
so that a coordinator, an aggregator and a curator refuse the same things.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from fractions import Fraction
from itertools import pairwise
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, ValidationInfo, field_validator

from tacit.query.disclosure import DisclosureRule
from tacit.query.tables import Columns, Label, named_columns
from tacit.query.terms import (
    LONGEST_PART,
    LONGEST_VECTOR,
    MAX_AGGREGATORS,
    MAX_CURATORS,
    MAX_DIMENSION,
    RECORDS,
    Block,
    Completeness,
    Coordinates,
    Function,
    Identifier,
    Layer,
    Mechanism,
    Noise,
    PrivacyUnit,
    Purpose,
    RegisterName,
    Sharing,
    Stance,
    Validity,
    part_count,
)
from tacit.units import MAX_QUANTITY, NANO, UNITS, no_unit
from tacit.wire import Exact, Instant, KeptModel, WireModel, format_exact, require


class Collusion(WireModel):
    """Who may pool what they see: also those who add no noise, and sybils."""

    curators: Annotated[int, Field(ge=0, le=MAX_CURATORS)] = 0
    aggregators: Annotated[int, Field(ge=0, le=MAX_AGGREGATORS)] = 0


class Window(WireModel):
    """Half-open [start, end), in UTC."""

    start: Instant
    end: Instant

    @field_validator("end")
    @classmethod
    def _after_start(cls, end: Any, info: ValidationInfo) -> Any:
        start = info.data.get("start")
        return require(start is None or end > start, end, "must be after start")


ALWAYS: Final = Window(start=datetime(1970, 1, 1, tzinfo=UTC), end=datetime(2200, 1, 1, tzinfo=UTC))
"""The window of rows of a table: rows have no timestamps, so that all questions about them overlap
in a record's ledger. Of sequences and sets unless another one is given."""


class Schedule(WireModel):
    """Rounds open automatically, one for each period, over the period before."""

    period_s: Annotated[int, Field(ge=60, le=366 * 86_400)]
    first_start: Instant


MOST_BUDGET: Final = 10_000
"""Of an epsilon or a rho."""
_LEAST_DELTA: Final = Fraction(1, 10**30)
_USUAL_DELTA: Final = Fraction(1, 10**6)
"""Of a query with a rho, for its (epsilon, delta) line, the sound check and ledgers."""
RHO_STEPS: Final = 10**12
"""A rho is a multiple of 10^-12."""


class QueryFields(KeptModel):
    """A query's fields; the order of the fields is the order of their checks."""

    # A missing field is checked like a null one.
    model_config = ConfigDict(validate_default=True)

    name: Identifier
    purpose: Purpose | None = None
    function: Function
    register_name: RegisterName = Field("energy_import", alias="register")
    unit: str
    bounds: tuple[Exact, Exact]
    max_readings: Annotated[int, Field(ge=1, le=1_000_000)]
    resolution: Exact
    edges: tuple[Exact, ...] | None = None
    columns: Columns | None = None
    measure: Label | None = None
    percentiles: Annotated[tuple[Exact, ...], Field(min_length=1, max_length=99)] | None = None
    dimension: Annotated[int, Field(ge=1, le=LONGEST_VECTOR)] | None = None
    l1_bound: Exact | None = None
    blocks: tuple[Block, ...] | None = None
    coordinates: Coordinates | None = None
    window_bound: Exact | None = None
    privacy_unit: PrivacyUnit = PrivacyUnit.CURATOR
    validity: Validity | None = None
    stance: Stance = Stance.SOUND
    mechanism: Mechanism
    noise: Noise | None = None
    epsilon_u: Exact | None = None
    epsilon_s: Exact | None = None
    pr_u: Exact | None = None
    pr_s: Exact | None = None
    rho: Exact | None = None
    epsilon: Exact | None = None
    epsilon_i: Exact | None = None
    delta: Exact = Fraction(0)
    completeness: Completeness | None = None
    split: tuple[Exact, ...] | None = None
    layer: Layer | None = None
    noise_tail: Exact | None = None
    part_length: Annotated[int, Field(ge=4096, le=LONGEST_PART)] | None = None
    sharing: Sharing
    aggregators: Annotated[int, Field(ge=1, le=MAX_AGGREGATORS)]
    threshold: int | None = None
    collusion: Collusion = Collusion()
    c_noise: int | None = None
    min_participants: Annotated[int, Field(ge=1, le=MAX_CURATORS)] = 2
    n_max: Annotated[int, Field(ge=1, le=MAX_CURATORS)]
    deadline_s: Annotated[int, Field(ge=1, le=31 * 86_400)]
    window: Window | None = None
    schedule: Schedule | None = None
    family: Identifier | None = None
    family_minimum: Annotated[int, Field(ge=1, le=MAX_CURATORS)] | None = None
    rule: DisclosureRule | None = None
    group: Identifier | None = None
    job: Identifier | None = None
    every_record: Literal[True] | None = None
    registers: Annotated[tuple[RegisterName, ...], Field(min_length=1)] | None = None

    def __hash__(self) -> int:
        """Of a few fields that differ in most queries: caches compute it often."""
        return hash((self.name, self.group, self.n_max, self.epsilon or self.epsilon_u or self.rho))

    @field_validator("register_name")
    @classmethod
    def _records_of_a_table(cls, value: str, info: ValidationInfo) -> str:
        if info.data.get("function") is not Function.TABLE:
            return value
        default = value in (RECORDS, cls.model_fields["register_name"].default)
        return require(default, RECORDS, "a table is of records, not of a register: leave it out")

    @field_validator("unit")
    @classmethod
    def _known_unit(cls, unit: str) -> str:
        return require(unit in UNITS, unit, no_unit(unit))

    @field_validator("bounds")
    @classmethod
    def _ordered_bounds(
        cls, bounds: tuple[Fraction, Fraction], info: ValidationInfo
    ) -> tuple[Fraction, Fraction]:
        require(bounds[0] < bounds[1], bounds, "lower bound must be below upper bound")
        return require(_storable(bounds, info), bounds, "no reading can be as large as a bound")

    @field_validator("resolution")
    @classmethod
    def _whole_resolution(cls, value: Fraction, info: ValidationInfo) -> Fraction:
        require(value > 0, value, "must be above 0")
        return require(_whole(value, info), value, "must be a whole number of nano-units")

    @field_validator("edges")
    @classmethod
    def _rising_edges(
        cls, edges: tuple[Fraction, ...] | None, info: ValidationInfo
    ) -> tuple[Fraction, ...] | None:
        if "function" not in info.data:
            return edges
        if info.data["function"] is not Function.HISTOGRAM:
            return require(edges is None, edges, "only a histogram has edges")
        if edges is None or len(edges) < 2:
            return require(False, edges, "a histogram needs at least two edges")
        require(len(edges) <= MAX_DIMENSION, None, f"at most {MAX_DIMENSION} edges")
        require(all(a < b for a, b in pairwise(edges)), edges, "must rise strictly")
        return require(_storable(edges, info), edges, "no reading can be as large as an edge")

    @field_validator("columns", mode="before")
    @classmethod
    def _columns_by_name(cls, value: Any) -> Any:
        return named_columns(value)

    @field_validator("columns", "measure")
    @classmethod
    def _of_a_table(cls, value: Any, info: ValidationInfo) -> Any:
        if "function" not in info.data:  # that error is reported already
            return value
        if info.data["function"] is not Function.TABLE:
            return require(value is None, value, "only a table has this")
        if info.field_name == "columns":
            if not value:
                return require(False, value, 'a table needs columns, such as {"sex": ["f", "m"]}')
            names = {column.name for column in value}
            return require(len(names) == len(value), value, "column names must differ")
        return value

    @field_validator("percentiles")
    @classmethod
    def _rising_percentiles(
        cls, percentiles: tuple[Fraction, ...] | None, info: ValidationInfo
    ) -> tuple[Fraction, ...] | None:
        if percentiles is None or "function" not in info.data:
            return percentiles
        histogram = info.data["function"] is Function.HISTOGRAM
        require(histogram, percentiles, "only a histogram has percentiles: give its edges")
        inside = all(0 < item < 100 and (item * 10**6).denominator == 1 for item in percentiles)
        require(inside, percentiles, "must lie between 0 and 100, with at most six decimals")
        rising = all(a < b for a, b in pairwise(percentiles))
        return require(rising, percentiles, "must rise strictly")

    @field_validator("dimension", "l1_bound", "blocks", "coordinates")
    @classmethod
    def _vector_fields(cls, value: Any, info: ValidationInfo) -> Any:
        data, field = info.data, info.field_name
        if "function" not in data:  # that error is reported already
            return value
        if data["function"] is not Function.VECTOR_SUM:
            return require(value is None, value, "only a vector_sum has this")
        if field == "blocks" and value is not None:
            require(len(value) > 0, value, "must name at least one block")
            is_whole = all(_whole(block.resolution, info) for block in value)
            require(is_whole, value, "a resolution must be a whole number of nano-units")
            require(
                data.get("dimension") is None and data.get("l1_bound") is None,
                value,
                "give either dimension and l1_bound, or blocks",
            )
            total = sum(block.dimension for block in value)
            require(
                total <= LONGEST_VECTOR, value, f"at most {LONGEST_VECTOR} coordinates in total"
            )
            names = {block.name for block in value}
            require(len(names) == len(value), value, "block names must differ")
        if field == "blocks" and value is None and "dimension" in data:
            require(data["dimension"] is not None, value, "give dimension, or blocks")
        if field == "l1_bound" and value is not None:
            require(value > 0, value, "must be above 0")
        if field == "coordinates":
            slots = value in (None, Coordinates.SLOTS)
            require(not (slots and data.get("blocks")), value, 'blocks need "values"')
        return value

    @field_validator("window_bound")
    @classmethod
    def _bound_of_a_sum(cls, value: Fraction | None, info: ValidationInfo) -> Fraction | None:
        if value is None or "function" not in info.data:
            return value
        require(value > 0, value, "must be above 0")
        summed = info.data["function"] in (Function.SUM, Function.VECTOR_SUM)
        require(summed, value, "only a sum or a vector_sum bounds a curator's whole window")
        blocks = info.data.get("blocks") is not None
        return require(not blocks, value, "blocks have a window_bound of their own")

    @field_validator("stance")
    @classmethod
    def _provable_stance(cls, value: Stance, info: ValidationInfo) -> Stance:
        paper, table = value is Stance.PAPER, info.data.get("function") is Function.TABLE
        require(not (paper and table), value, "a table needs stance sound: no source has one")
        require(
            not (paper and _proved(info)),
            value,
            "a proved query needs stance sound: noise of a public scale",
        )
        windows = info.data.get("window_bound") is not None or any(
            block.window_bound is not None for block in info.data.get("blocks") or ()
        )
        return require(
            not (paper and windows), value, "a window_bound needs stance sound: no source has one"
        )

    @field_validator("noise")
    @classmethod
    def _noise_of_distributed(cls, value: Noise | None, info: ValidationInfo) -> Noise | None:
        data = info.data
        if value is not Noise.GAUSSIAN or not {"mechanism", "stance"} <= data.keys():
            return value
        distributed = data["mechanism"] is Mechanism.DISTRIBUTED
        require(distributed, value, "gaussian noise needs mechanism distributed")
        sound = data["stance"] is Stance.SOUND
        return require(sound, value, "gaussian noise needs stance sound: no source has it")

    @field_validator("epsilon_u", "epsilon_s", "pr_u", "pr_s", "epsilon", "epsilon_i")
    @classmethod
    def _mechanism_fields(cls, value: Fraction | None, info: ValidationInfo) -> Fraction | None:
        mechanism, field = info.data.get("mechanism"), info.field_name or ""
        if mechanism is None:
            return value
        needed = _EPSILONS[mechanism]
        if field not in needed:
            return require(value is None, value, f"has no meaning for mechanism {mechanism}")
        if field == "epsilon" and info.data.get("noise") is Noise.GAUSSIAN:
            if "rho" not in info.data:  # that error is reported already
                return value
            one = (value is None) != (info.data["rho"] is None)
            require(one, value, "give rho, or epsilon and delta: one of the two")
        elif value is None:
            return require(False, value, f"needed by mechanism {mechanism}")
        if value is None:
            return None
        if field.startswith("pr_"):
            return require(0 <= value <= 1, value, "a probability lies in 0..1")
        return require(0 < value <= MOST_BUDGET, value, "must be above 0 (and at most 10000)")

    @field_validator("rho")
    @classmethod
    def _rho_of_gaussian_noise(
        cls, value: Fraction | None, info: ValidationInfo
    ) -> Fraction | None:
        if value is None or "noise" not in info.data:
            return value
        gaussian = info.data["noise"] is Noise.GAUSSIAN
        require(gaussian, value, "only gaussian noise is measured by rho")
        require(0 < value <= MOST_BUDGET, value, "must be above 0 (and at most 10000)")
        is_step = (value * RHO_STEPS).denominator == 1
        nearest = format_exact(Fraction(max(1, math.floor(value * RHO_STEPS)), RHO_STEPS))
        return require(is_step, value, f"must be a multiple of 10^-12: {nearest} is")

    @field_validator("delta", mode="before")
    @classmethod
    def _delta_beside_rho(cls, value: Any, info: ValidationInfo) -> Any:
        # Only the default is a Fraction here: what a client sends is text.
        usual = isinstance(value, Fraction) and info.data.get("rho") is not None
        return _USUAL_DELTA if usual else value

    @field_validator("delta")
    @classmethod
    def _proper_delta(cls, value: Fraction, info: ValidationInfo) -> Fraction:
        require(0 <= value < 1, value, "must lie in [0, 1)")
        gaussian = info.data.get("noise") is Noise.GAUSSIAN
        return require(
            value >= _LEAST_DELTA or not gaussian,
            value,
            "gaussian noise needs a delta of 10^-30 or more: 0.000001 is usual",
        )

    @field_validator("split")
    @classmethod
    def _whole_split(
        cls, value: tuple[Fraction, ...] | None, info: ValidationInfo
    ) -> tuple[Fraction, ...] | None:
        if value is None:
            return None
        require(all(part > 0 for part in value), value, "every part must be above 0")
        require(sum(value) == 1, value, "the parts of epsilon must add up to 1")
        function = info.data.get("function")
        if function is not None:
            parts = part_count(function, info.data.get("blocks"), info.data.get("completeness"))
            require(len(value) == parts, value, f"needs {parts} parts")
        return value

    @field_validator("layer")
    @classmethod
    def _layer_of_distributed(cls, value: Layer | None, info: ValidationInfo) -> Layer | None:
        if info.data.get("mechanism") is Mechanism.DISTRIBUTED:
            layer = value or Layer.AGGREGATOR
            gaussian = info.data.get("noise") is Noise.GAUSSIAN
            return require(
                layer is Layer.AGGREGATOR or not (gaussian and _proved(info)),
                layer,
                "a proved query has gaussian noise of aggregators only: layer aggregator",
            )
        return require(value is None, value, "only mechanism distributed has layers")

    @field_validator("noise_tail")
    @classmethod
    def _tail_of_proved_noise(cls, value: Fraction | None, info: ValidationInfo) -> Fraction | None:
        data = info.data
        if value is None or not {"validity", "mechanism", "layer"} <= data.keys():
            return value
        require(_proved(info), value, "only a proved query clamps its noise")
        mechanism, layer = data["mechanism"], data["layer"]
        draws = mechanism is not Mechanism.EXACT and layer is not Layer.AGGREGATOR
        require(draws, value, "curators draw no noise in this mechanism")
        return require(0 < value < 1, value, "must lie between 0 and 1")

    @field_validator("part_length")
    @classmethod
    def _length_of_proved_parts(cls, value: int | None, info: ValidationInfo) -> int | None:
        if value is None or "validity" not in info.data:
            return value
        require(_proved(info), value, "only a proved query has parts")
        return require(value.bit_count() == 1, value, "must be a power of two")

    @field_validator("sharing")
    @classmethod
    def _provable_sharing(cls, value: Sharing, info: ValidationInfo) -> Sharing:
        provable = value is Sharing.ADDITIVE or not _proved(info)
        return require(provable, value, "a proved query needs additive sharing")

    @field_validator("aggregators")
    @classmethod
    def _enough_aggregators(cls, value: int, info: ValidationInfo) -> int:
        sharing, mechanism = info.data.get("sharing"), info.data.get("mechanism")
        if sharing is None:  # that error is reported already
            return value
        local = mechanism is Mechanism.LOCAL
        require(local == (sharing is Sharing.NONE), value, 'sharing "none" and local go together')
        if local:
            return require(value == 1, value, "mechanism local has exactly one aggregator")
        return require(value >= 2, value, "sharing needs at least two aggregators")

    @field_validator("threshold")
    @classmethod
    def _quorums_meet(cls, value: int | None, info: ValidationInfo) -> int | None:
        sharing, aggregators = info.data.get("sharing"), info.data.get("aggregators")
        if sharing is None:
            return value
        if sharing is not Sharing.SHAMIR:
            return require(value is None, value, "only sharing shamir has a threshold")
        if value is None:
            return require(False, value, "sharing shamir needs a threshold")
        if aggregators is not None:
            require(value <= aggregators, value, "must not exceed the number of aggregators")
            require(
                2 * value > aggregators,
                value,
                "2 k > c: any two quorums must share an aggregator, or a coordinator could open "
                "two sums of one round",
            )
        return value

    @field_validator("collusion")
    @classmethod
    def _bearable_collusion(cls, value: Collusion, info: ValidationInfo) -> Collusion:
        sharing, aggregators = info.data.get("sharing"), info.data.get("aggregators")
        threshold = info.data.get("threshold")
        if sharing is Sharing.ADDITIVE and aggregators is not None:
            require(
                value.aggregators <= aggregators - 1,
                value,
                "additive bears at most c-1 aggregators",
            )
        if sharing is Sharing.NONE and aggregators is not None:
            require(value.aggregators <= aggregators, value, "more than there are aggregators")
        if sharing is Sharing.SHAMIR and threshold is not None:
            require(
                value.aggregators <= threshold - 1, value, "shamir bears at most k-1 aggregators"
            )
        return value

    @field_validator("c_noise")
    @classmethod
    def _certain_noise(cls, value: int | None, info: ValidationInfo) -> int | None:
        data = info.data
        sharing, aggregators = data.get("sharing"), data.get("aggregators")
        if sharing is None:
            return value
        if sharing is not Sharing.SHAMIR or aggregators is None or data.get("threshold") is None:
            return require(value is None, value, "only sharing shamir declares c_noise")
        if data.get("mechanism") is Mechanism.EXACT:
            return require(value is None, value, "mechanism exact has no noise")
        value = value if value is not None else data["threshold"]
        corrupt = data["collusion"].aggregators if "collusion" in data else 0
        return require(corrupt < value <= data["threshold"], value, "t_s < c_noise <= k must hold")

    @field_validator("min_participants")
    @classmethod
    def _more_than_colluders(cls, value: int, info: ValidationInfo) -> int:
        collusion = info.data.get("collusion")
        colluders = collusion.curators if collusion is not None else 0
        return require(value >= colluders + 1, value, "must exceed the curators assumed to collude")

    @field_validator("n_max")
    @classmethod
    def _room_for_minimum(cls, value: int, info: ValidationInfo) -> int:
        return require(
            value >= info.data.get("min_participants", 1), value, "must reach min_participants"
        )

    @field_validator("window")
    @classmethod
    def _rows_have_no_time(cls, value: Window | None, info: ValidationInfo) -> Window | None:
        if info.data.get("function") is not Function.TABLE:
            return value
        return require(
            value in (None, ALWAYS), ALWAYS, "rows of a table have no time: leave it out"
        )

    @field_validator("schedule")
    @classmethod
    def _window_or_schedule(cls, value: Schedule | None, info: ValidationInfo) -> Schedule | None:
        table = info.data.get("function") is Function.TABLE
        require(value is None or not table, value, "rows of a table have no time: open its rounds")
        both = value is not None and info.data.get("window") is not None
        return require(not both, value, "give a window or a schedule, not both")

    @field_validator("family_minimum")
    @classmethod
    def _minimum_of_a_family(cls, value: int | None, info: ValidationInfo) -> int | None:
        if value is None:
            return None
        require(info.data.get("family") is not None, value, "only a family has a minimum")
        collusion = info.data.get("collusion")
        colluders = collusion.curators if collusion is not None else 0
        # They subtract themselves from a difference.
        return require(value > colluders, value, "must exceed the curators assumed to collude")

    @field_validator("rule")
    @classmethod
    def _rule_of_exact_sums(
        cls, value: DisclosureRule | None, info: ValidationInfo
    ) -> DisclosureRule | None:
        data = info.data
        if not {"mechanism", "function", "bounds", "min_participants"} <= data.keys():
            return value  # those errors are reported already
        exact = data["mechanism"] is Mechanism.EXACT
        require(exact or value is None, value, "noise protects here: only mechanism exact has one")
        if value is None:
            example = 'mechanism exact needs one, such as {"min_participants": 15}'
            return require(not exact, value, example)
        matches = (data["function"] is Function.TABLE) == (value.small_cells is True)
        require(matches, value, "a table, and no other function, has small_cells: true")
        fewest = data["min_participants"]
        require(
            fewest >= value.min_participants,
            value,
            f"the query releases a sum of {fewest} already: raise its min_participants",
        )
        if value.max_share is None:
            return require(value.top == 1, value, "top has a meaning with a max_share alone")
        summed = data["function"] in (Function.SUM, Function.VECTOR_SUM)
        require(summed, value, "only a sum or a vector_sum has shares: leave out max_share")
        require(_proved(info), value, 'max_share needs validity "proved": it bounds the largest')
        return require(data["bounds"][0] >= 0, value, "max_share needs bounds from 0 up")

    @field_validator("job")
    @classmethod
    def _records_are_no_readings(cls, value: str | None, info: ValidationInfo) -> str | None:
        table = info.data.get("function") is Function.TABLE
        require(value is None or not table, value, "a table is no step of a job")
        gaussian = info.data.get("noise") is Noise.GAUSSIAN
        require(value is None or not gaussian, value, "a job's steps have no gaussian noise")
        counted = info.data.get("completeness") is not None
        return require(value is None or not counted, value, "a job's step counts no completeness")

    @field_validator("every_record")
    @classmethod
    def _of_a_jobs_records(cls, value: bool | None, info: ValidationInfo) -> bool | None:
        data = info.data
        if value is None or not {"privacy_unit", "coordinates", "job"} <= data.keys():
            return value
        of_job = data["coordinates"] is Coordinates.VALUES and data["job"] is not None
        require(of_job, value, "only a job's sum of vectors counts records")
        record = data["privacy_unit"] is PrivacyUnit.RECORD
        return require(record, value, "has a meaning for the unit record alone")

    @field_validator("registers")
    @classmethod
    def _of_a_jobs_statistics(
        cls, value: tuple[str, ...] | None, info: ValidationInfo
    ) -> tuple[str, ...] | None:
        data = info.data
        if value is None or not {"coordinates", "job"} <= data.keys():
            return value
        of_job = data["coordinates"] is Coordinates.VALUES and data["job"] is not None
        require(of_job, value, "only a job's sum of vectors names the registers of its statistics")
        return require(list(value) == sorted(set(value)), value, "must be sorted, each once")


def _proved(info: ValidationInfo) -> bool:
    return info.data.get("validity") is Validity.PROVED


def _storable(amounts: tuple[Fraction, ...], info: ValidationInfo) -> bool:
    """Whether amounts of the query's unit can be stored as readings (an unknown unit is reported
    elsewhere)."""
    unit = info.data.get("unit")
    if unit is None:
        return True
    return all(abs(amount) * UNITS[unit].factor * NANO <= MAX_QUANTITY for amount in amounts)


def _whole(resolution: Fraction, info: ValidationInfo) -> bool:
    """Whether a resolution is a whole number of the nano-units in which readings are stored."""
    unit = info.data.get("unit")
    return unit is None or (resolution * UNITS[unit].factor * NANO).denominator == 1


_EPSILONS: dict[Mechanism, frozenset[str]] = {
    Mechanism.TWO_LAYER: frozenset({"epsilon_u", "epsilon_s", "pr_u", "pr_s"}),
    Mechanism.LOCAL: frozenset({"epsilon_i"}),
    Mechanism.DISTRIBUTED: frozenset({"epsilon"}),
    Mechanism.EXACT: frozenset(),
}
