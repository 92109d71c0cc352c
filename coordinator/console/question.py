"""A query as a form of five steps: its fields with plain defaults, and the query that they make.

Spec: console, section 5.5. Nothing here suggests a bound: bounds come from a meter's data sheet.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from common.web.wire import parse_json
from tacit.errors import Invalid
from tacit.query.query import Query
from tacit.query.words import Function, Mechanism, Sharing, Validity

STEPS: Final = ("What", "Participants", "How exact", "Whom do you trust", "Look and ask")

FIELDS: Final[tuple[Mapping[str, str], ...]] = (
    {
        "name": "",
        "function": "sum",
        "register": "energy_import",
        "unit": "kWh",
        "lower": "0",
        "upper": "",
        "max_readings": "1",
        "resolution": "0.001",
        "edges": "",
        "dimension": "",
        "l1_bound": "",
        "coordinates": "",
    },
    {
        "group": "",
        "min_participants": "100",
        "n_max": "100000",
        "family": "",
        "family_minimum": "",
        "when": "asked",
        "start": "",
        "end": "",
        "first_start": "",
        "period_s": "86400",
        "deadline_s": "60",
    },
    {
        "privacy_unit": "curator",
        "epsilon": "1",
        "epsilon_u": "",
        "pr_u": "",
        "pr_s": "",
        "delta": "",
        "split": "",
        "completeness": "",
    },
    {
        "mechanism": "distributed",
        "layer": "",
        "sharing": "additive",
        "aggregators": "3",
        "threshold": "",
        "c_noise": "",
        "collusion_aggregators": "2",
        "collusion_curators": "0",
        "validity": "declared",
        "noise_tail": "",
        "part_length": "",
        "stance": "sound",
    },
)
"""The fields of each step with their defaults; empty ones are left out of the query."""
STEP_OF: Final = {name: step for step, names in enumerate(FIELDS, 1) for name in names}
WHOLE: Final = frozenset(
    [
        "max_readings",
        "dimension",
        "min_participants",
        "n_max",
        "part_length",
        "family_minimum",
        "period_s",
        "deadline_s",
        "aggregators",
        "threshold",
        "c_noise",
        "collusion_aggregators",
        "collusion_curators",
    ]
)
_ONLY_FOR: Final = {
    "edges": ("function", Function.HISTOGRAM),
    "dimension": ("function", Function.VECTOR_SUM),
    "l1_bound": ("function", Function.VECTOR_SUM),
    "coordinates": ("function", Function.VECTOR_SUM),
    "epsilon_u": ("mechanism", Mechanism.TWO_LAYER),
    "pr_u": ("mechanism", Mechanism.TWO_LAYER),
    "pr_s": ("mechanism", Mechanism.TWO_LAYER),
    "layer": ("mechanism", Mechanism.DISTRIBUTED),
    "threshold": ("sharing", Sharing.SHAMIR),
    "c_noise": ("sharing", Sharing.SHAMIR),
    "noise_tail": ("validity", Validity.PROVED),
    "part_length": ("validity", Validity.PROVED),
    "validity": ("validity", Validity.PROVED),
}
"""Fields that mean something under one choice alone; else they are left out of the query."""
_PLACES: Final = {
    "/bounds": "upper",
    "/bounds/0": "lower",
    "/bounds/1": "upper",
    "/window": "end",
    "/window/start": "start",
    "/window/end": "end",
    "/schedule": "first_start",
    "/schedule/first_start": "first_start",
    "/schedule/period_s": "period_s",
    "/collusion": "collusion_aggregators",
    "/collusion/aggregators": "collusion_aggregators",
    "/collusion/curators": "collusion_curators",
    "/epsilon_i": "epsilon",
    "/epsilon_s": "epsilon",
    "/blocks": "dimension",
}


@dataclass(frozen=True)
class Fault:
    """What is wrong with a field of the form; `step`: where it stands."""

    field: str
    step: int
    message: str


def read(form: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, str]:
    """All fields: as they were typed, else these defaults, else those of `FIELDS`."""
    plain = {name: text for names in FIELDS for name, text in names.items()}
    known = {**plain, **defaults}
    return {name: form.get(name, text).strip() for name, text in known.items()}


def content(fields: Mapping[str, str]) -> dict[str, Any]:
    """The JSON of the query that the fields make, valid or not; null for what it has not."""
    given: dict[str, str | int | None] = {
        name: _value(name, text) for name, text in fields.items() if text
    }
    for name, (choice, wanted) in _ONLY_FOR.items():
        # Null where it is missing, so that an error names its place.
        given[name] = given.get(name) if fields[choice] == wanted else None
    asked: dict[str, Any] = {
        name: value
        for name, value in given.items()
        if name not in ("lower", "upper", "when", "start", "end", "first_start", "period_s")
        and not name.startswith("collusion_")
    }
    asked["bounds"] = [fields["lower"], fields["upper"]]
    if fields["mechanism"] == Mechanism.LOCAL:
        asked |= {"sharing": Sharing.NONE.value, "aggregators": 1}
        asked["epsilon_i"] = asked.pop("epsilon", None)
    elif fields["mechanism"] == Mechanism.TWO_LAYER:
        asked["epsilon_s"] = asked.pop("epsilon", None)
        plain = {"epsilon_u": asked["epsilon_s"], "pr_u": "1", "pr_s": "1"}
        asked |= {name: asked[name] or value for name, value in plain.items()}
    elif fields["mechanism"] == Mechanism.EXACT:
        asked["epsilon"] = None
    else:
        asked.setdefault("epsilon", None)
    for name in ("edges", "split"):
        if asked.get(name):
            asked[name] = fields[name].replace(",", " ").split()
    colluding = {
        name: given.get(f"collusion_{name}", 0)
        for name in ("aggregators", "curators")
        if fields["mechanism"] != Mechanism.LOCAL or name == "curators"
    }
    asked["collusion"] = colluding
    if fields["when"] == "fixed":
        asked["window"] = {"start": _utc(fields["start"]), "end": _utc(fields["end"])}
    elif fields["when"] == "schedule":
        asked["schedule"] = {
            "first_start": _utc(fields["first_start"]),
            "period_s": given.get("period_s", ""),
        }
    return asked


def query(fields: Mapping[str, str]) -> Query:
    """The query that the fields make. Raises Invalid with places of the query."""
    return parse_json(json.dumps(content(fields)).encode(), Query)


def fields_of(asked: Query) -> dict[str, str]:
    """The fields that make a query again: `query(fields_of(q)) == q` where it has no blocks and
    belongs to no job."""
    told = json.loads(asked.canonical())
    lower, upper = told.pop("bounds")
    fields = {"lower": lower, "upper": upper, "when": "asked"}
    if window := told.pop("window", None):
        fields |= {"when": "fixed", "start": _local(window["start"]), "end": _local(window["end"])}
    if schedule := told.pop("schedule", None):
        fields |= {
            "when": "schedule",
            "first_start": _local(schedule["first_start"]),
            "period_s": str(schedule["period_s"]),
        }
    for name, count in told.pop("collusion", {}).items():
        fields[f"collusion_{name}"] = str(count)
    for epsilon in ("epsilon_s", "epsilon_i"):
        if epsilon in told:
            fields["epsilon"] = told.pop(epsilon)
    for name, value in told.items():
        if name in STEP_OF:
            fields[name] = " ".join(value) if isinstance(value, list) else str(value)
    empty = {name: "" for name in STEP_OF if name not in ("validity", "period_s")}
    return {**empty, **fields}


def faults(error: Invalid) -> list[Fault]:
    """Where the form has to be mended; what belongs to no field stands at the last step."""
    places = [(each.pointer, each.message) for each in error.errors]
    return [_fault(*place) for place in places or [(error.pointer or "", error.detail)]]


def until(found: Iterable[Fault], step: int) -> list[Fault]:
    """Those of this step and the ones before."""
    return [each for each in found if each.step <= step]


def _fault(pointer: str, message: str) -> Fault:
    first = pointer.split("/")[1] if pointer.startswith("/") else ""
    field = _PLACES.get(pointer) or (first if first in STEP_OF else _PLACES.get(f"/{first}", ""))
    return Fault(field, STEP_OF.get(field, len(STEPS)), message)


def _value(name: str, text: str) -> str | int:
    return int(text) if name in WHOLE and text.isdecimal() and text.isascii() else text


def _utc(text: str) -> str:
    """A field `datetime-local`, in UTC as its label says; seconds may be left out."""
    if text.endswith("Z") or not text:
        return text
    return f"{text}Z" if text.count(":") == 2 else f"{text}:00Z"


def _local(text: str) -> str:
    return text.removesuffix("Z")


FUNCTIONS: Final = {
    Function.SUM: "the sum of all readings",
    Function.COUNT: "how many readings there are",
    Function.MEAN: "the mean reading",
    Function.VARIANCE: "how widely readings spread (needs far more noise)",
    Function.HISTOGRAM: "how many readings lie between given edges",
    Function.VECTOR_SUM: "a sum for each slot of the window",
}
MECHANISMS: Final = {
    Mechanism.DISTRIBUTED: "together, the parties add as much noise as is needed (the least error)",
    Mechanism.TWO_LAYER: "curators and aggregators each add noise (the source's protocol)",
    Mechanism.LOCAL: "each curator adds all the noise and trusts nobody (the largest error)",
}
