"""The query as a whole: immutable, known by its hash. Spec: aggregation, section 2."""

from __future__ import annotations

import json
from typing import Any, Self

from pydantic import ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from tacit.errors import FieldsRefused, MissingExtra
from tacit.query.fields import QueryFields
from tacit.query.mechanisms import arithmetic_problem
from tacit.query.terms import Validity
from tacit.wire import errors_of


class Query(QueryFields):
    """What a round computes. The order of the fields is the order of their checks.

    `purpose`: what the result is for, one line by whoever asks, which owners are shown.
    `group`: whom it sums, a declared set of curators (default: everyone). `family`: its sums are
    protected against every other one over their register; `family_minimum`: how many curators a
    difference has to concern (default: `min_participants`); `job`: of a federated job, whose steps
    are not compared among themselves; `registers`: those that such a step takes statistics of:
    curators compare them with the step, and the guard compares it with other sums over them.
    `every_record`: no record is omitted, since none of the curators' tables can hold more than
    `max_readings`; then one more or less changes one record's vector, not two. Curators see to it,
    and refuse it otherwise. `completeness`: a noisy count of the curators that had a reading, as
    one part more, with a part of epsilon; without it a result says how many answered, with or
    without readings. `validity`: whether aggregators check a proof that each contribution lies
    in its range (default: declared, they do not); `noise_tail`: then, how much total variation
    the clamping of curators' noise may cost over a round (default: 2^-64); `part_length`: the
    total of how many neighbours a host proves at once (default: 4,096).
    """

    @classmethod
    def of(cls, /, **fields: Any) -> Self:
        """A query of these fields, as the API takes them: amounts as decimal strings, integers
        or Decimals, names of enumerations as text. Raises FieldsRefused (a ValueError), which
        names every field that breaks a rule."""
        try:
            return cls.model_validate_json(json.dumps(fields, default=str))
        except ValidationError as error:
            raise FieldsRefused(errors_of(error, cls)) from None

    @model_validator(mode="after")
    def _arithmetic_fits(self) -> Query:
        problem = arithmetic_problem(self)
        if problem is None and self.validity is Validity.PROVED:
            # Loaded only here: a library without its extra `proofs` reads all other queries.
            try:
                from tacit.query.proofs import proof_problem
            except ModuleNotFoundError:
                raise MissingExtra("pycryptodome", "proved queries") from None

            problem = proof_problem(self)
        if problem is not None:
            field, reason = problem
            error = PydanticCustomError("bad_parameter", "{reason}", {"reason": reason})
            raise ValidationError.from_exception_data(
                "Query", [InitErrorDetails(type=error, loc=(field,), input=None)]
            )
        return self
