"""The wizard: five steps from a question in plain words to a query, its price shown before.

A query as a form: its fields with plain defaults, and the query that they make; the state is in the
form alone. Nothing here suggests a bound: bounds come from a meter's data sheet. Spec: console,
section 5.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import Any, Final, Literal

from fastapi import Response

from common.bodies import parse_json
from common.web.console.charts import Rung, ladder, promise
from common.web.console.pages import console_router, see
from coordinator import queries
from coordinator.api import queries as api_queries
from coordinator.api.plans import preview_of
from coordinator.budget.outlook import outlook_of
from coordinator.budget.plans import Asked, LimitOutlook, OutlookRequest, Plan
from coordinator.console.budget import Choice, what_if
from coordinator.console.queries import spread
from coordinator.console.rounds import cost_of_each
from coordinator.console.visits import Person, Visit
from coordinator.services import CoordinatorServices, Services
from coordinator.store import queries as query_store
from coordinator.store import registry as group_store
from coordinator.store.registry import list_aggregators
from tacit.answers.budget import BudgetPreview, ScenarioAmount
from tacit.errors import DomainError, Invalid
from tacit.query.fields import Window
from tacit.query.query import Query
from tacit.query.terms import Function, Mechanism, Noise, Sharing, Validity
from tacit.report.model import PrivacyReport
from tacit.report.statements import one_machine
from tacit.units import REGISTERS, UNITS

router = console_router()

STEPS: Final = ("What", "Participants", "How exact", "Whom do you trust", "Look and ask")

FIELDS: Final[tuple[Mapping[str, str], ...]] = (
    {
        "name": "",
        "purpose": "",
        "function": "sum",
        "register": "energy_import",
        "unit": "kWh",
        "lower": "0",
        "upper": "",
        "max_readings": "1",
        "resolution": "0.001",
        "edges": "",
        "percentiles": "",
        "columns": "",
        "measure": "",
        "dimension": "",
        "l1_bound": "",
        "coordinates": "",
        "window_bound": "",
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
        "noise": "",
        "rho": "",
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
"""The fields of each step with their defaults; the query omits empty ones."""
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
PROFILE: Final[Mapping[str, str]] = {
    "function": "vector_sum",
    "max_readings": "96",
    "resolution": "0.001",
    "dimension": "96",
    "coordinates": "slots",
    "min_participants": "1000",
    "when": "schedule",
    "period_s": "86400",
    "deadline_s": "3600",
    "noise": "gaussian",
    "rho": "0.002883172",
    "epsilon": "",
}
"""A load profile of quarter hours, every day: 365 keep (8, 10^-6). Spec: profiles, section 4."""
_ONLY_FOR: Final = {
    "edges": ("function", Function.HISTOGRAM),
    "percentiles": ("function", Function.HISTOGRAM),
    "columns": ("function", Function.TABLE),
    "measure": ("function", Function.TABLE),
    "dimension": ("function", Function.VECTOR_SUM),
    "l1_bound": ("function", Function.VECTOR_SUM),
    "coordinates": ("function", Function.VECTOR_SUM),
    "epsilon_u": ("mechanism", Mechanism.TWO_LAYER),
    "pr_u": ("mechanism", Mechanism.TWO_LAYER),
    "pr_s": ("mechanism", Mechanism.TWO_LAYER),
    "layer": ("mechanism", Mechanism.DISTRIBUTED),
    "noise": ("mechanism", Mechanism.DISTRIBUTED),
    "rho": ("noise", Noise.GAUSSIAN),
    "threshold": ("sharing", Sharing.SHAMIR),
    "c_noise": ("sharing", Sharing.SHAMIR),
    "noise_tail": ("validity", Validity.PROVED),
    "part_length": ("validity", Validity.PROVED),
    "validity": ("validity", Validity.PROVED),
}
"""Fields that only one choice uses; otherwise the query omits them."""
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
    """What is wrong with a field of the form; `step`: the step with that field."""

    field: str
    step: int
    message: str


def read(form: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, str]:
    """All fields: as typed, else these defaults, else those of `FIELDS`."""
    plain = {name: text for names in FIELDS for name, text in names.items()}
    texts = {**plain, **defaults}
    return {name: form.get(name, text).strip() for name, text in texts.items()}


def content(fields: Mapping[str, str]) -> dict[str, Any]:
    """The JSON of the query that the fields make, valid or not; null for empty fields."""
    values: dict[str, str | int | None] = {
        name: _value(name, text) for name, text in fields.items() if text
    }
    for name, (choice, choice_needed) in _ONLY_FOR.items():
        # Null where it is missing, so that an error names its place.
        values[name] = values.get(name) if fields[choice] == choice_needed else None
    if fields["function"] not in (Function.SUM, Function.VECTOR_SUM):
        values["window_bound"] = None
    document: dict[str, Any] = {
        name: value
        for name, value in values.items()
        if name not in ("lower", "upper", "when", "start", "end", "first_start", "period_s")
        and not name.startswith("collusion_")
    }
    document["bounds"] = [fields["lower"], fields["upper"]]
    if fields["mechanism"] == Mechanism.LOCAL:
        document |= {"sharing": Sharing.NONE.value, "aggregators": 1}
        document["epsilon_i"] = document.pop("epsilon", None)
    elif fields["mechanism"] == Mechanism.TWO_LAYER:
        document["epsilon_s"] = document.pop("epsilon", None)
        plain = {"epsilon_u": document["epsilon_s"], "pr_u": "1", "pr_s": "1"}
        document |= {name: document[name] or value for name, value in plain.items()}
    elif fields["mechanism"] == Mechanism.EXACT or document.get("rho") is not None:
        document["epsilon"] = None
    else:
        document.setdefault("epsilon", None)
    for name in ("edges", "percentiles", "split"):
        if document.get(name):
            document[name] = fields[name].replace(",", " ").split()
    if document.get("columns"):
        document["columns"] = _json_or_text(fields["columns"])
    colluding = {
        name: values.get(f"collusion_{name}", 0)
        for name in ("aggregators", "curators")
        if fields["mechanism"] != Mechanism.LOCAL or name == "curators"
    }
    document["collusion"] = colluding
    if fields["when"] == "fixed":
        document["window"] = {"start": _utc(fields["start"]), "end": _utc(fields["end"])}
    elif fields["when"] == "schedule":
        document["schedule"] = {
            "first_start": _utc(fields["first_start"]),
            "period_s": values.get("period_s", ""),
        }
    return document


def query(fields: Mapping[str, str]) -> Query:
    """The query that the fields make. Raises Invalid with pointers into the query."""
    return parse_json(json.dumps(content(fields)).encode(), Query)


def fields_of(query_asked: Query) -> dict[str, str]:
    """The fields that make a query again: `query(fields_of(q)) == q` if it has no blocks and
    belongs to no job."""
    document = json.loads(query_asked.canonical())
    lower, upper = document.pop("bounds")
    fields = {"lower": lower, "upper": upper, "when": "asked"}
    if window := document.pop("window", None):
        fields |= {"when": "fixed", "start": _local(window["start"]), "end": _local(window["end"])}
    if schedule := document.pop("schedule", None):
        fields |= {
            "when": "schedule",
            "first_start": _local(schedule["first_start"]),
            "period_s": str(schedule["period_s"]),
        }
    for name, count in document.pop("collusion", {}).items():
        fields[f"collusion_{name}"] = str(count)
    for epsilon in ("epsilon_s", "epsilon_i"):
        if epsilon in document:
            fields["epsilon"] = document.pop(epsilon)
    if columns := document.pop("columns", None):
        fields["columns"] = json.dumps(columns)
    for name, value in document.items():
        if name in STEP_OF:
            fields[name] = " ".join(value) if isinstance(value, list) else str(value)
    empty = {name: "" for name in STEP_OF if name not in ("validity", "period_s")}
    return {**empty, **fields}


def faults(error: Invalid) -> list[Fault]:
    """The fields to correct; an error of no field is shown at the last step."""
    places = [(fault.pointer, fault.message) for fault in error.errors]
    return [_field_fault(*place) for place in places or [(error.pointer or "", error.detail)]]


def until(faults_found: Iterable[Fault], step: int) -> list[Fault]:
    """Those of this step and the ones before."""
    return [fault for fault in faults_found if fault.step <= step]


def _field_fault(pointer: str, message: str) -> Fault:
    first = pointer.split("/")[1] if pointer.startswith("/") else ""
    field = _PLACES.get(pointer) or (first if first in STEP_OF else _PLACES.get(f"/{first}", ""))
    return Fault(field, STEP_OF.get(field, len(STEPS)), message)


def _value(name: str, text: str) -> str | int:
    return int(text) if name in WHOLE and text.isdecimal() and text.isascii() else text


def _json_or_text(text: str) -> Any:
    """What is no JSON stays text, for the query to refuse."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _utc(text: str) -> str:
    """A field `datetime-local`, in UTC as its label says; seconds are optional."""
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
    Function.HISTOGRAM: "how many readings lie between given edges, and percentiles",
    Function.VECTOR_SUM: "a sum for each slot of the window",
    Function.TABLE: "a table of curators' own records, by codes and bins",
}
MECHANISMS: Final = {
    Mechanism.DISTRIBUTED: "together, the parties add as much noise as is needed (the least error)",
    Mechanism.TWO_LAYER: "curators and aggregators each add noise (the source's protocol)",
    Mechanism.LOCAL: "each curator adds all the noise and trusts no one (the largest error)",
}


# Five steps from a question in plain words to a query, with its price before a round is opened. The
# form itself holds the state. Spec: console, section 5.

_LAST: Final = len(STEPS)
_MOST_GROUPS: Final = 500


@dataclass(frozen=True)
class Price:
    """What a query would cost, and its accuracy. `error`: of each part; `lasts`: the first limit
    that the running schedules and this one exhaust, None if none."""

    report: PrivacyReport
    rungs: tuple[Rung, ...]
    one_machine: str | None
    error: Sequence[Mapping[str, Any]]
    useful_from: int | None
    cost: BudgetPreview
    each: ScenarioAmount
    lasts: LimitOutlook | None


async def shown(
    visit: Visit,
    services: CoordinatorServices,
    fields: Mapping[str, str],
    step: int,
    faults_found: Sequence[Fault] = (),
) -> Response:
    """The form at a step, and what is known so far."""
    query_asked, price = None, None
    choices: list[Choice] = []
    later: Sequence[Fault] = faults_found
    try:
        query_asked = query(fields)
        price = await _price(services, query_asked, operator=visit.operator)
    except Invalid as error:
        later = faults(error)
    except DomainError as error:
        later = [_fault(error)]
    if query_asked is not None and step == 3 and query_asked.mechanism is not Mechanism.EXACT:
        async with services.database.reading() as transaction:
            others = await query_store.scheduled(transaction)
        period_s = query_asked.schedule.period_s if query_asked.schedule else 86_400
        limit = None if price is None else price.lasts
        in_rho = query_asked.rho is not None
        choices = await what_if(services, query_asked, period_s, others, limit, in_rho=in_rho)
    async with services.database.reading() as transaction:
        groups = await group_store.page_of_groups(transaction, None, _MOST_GROUPS)
    wrong = list(faults_found) or (list(later) if step == _LAST else [])
    return visit.show(
        "wizard.html",
        status=422 if faults_found else 200,
        step=step,
        steps=STEPS,
        here=FIELDS[step - 1] if step < _LAST else (),
        fields=fields,
        faults=wrong,
        asked=query_asked,
        told=None
        if query_asked is None
        else json.dumps(json.loads(query_asked.canonical()), indent=2),
        price=price,
        choices=choices,
        spread=None if price is None else spread(price.report),
        promise=promise,
        groups=groups,
        registers=list(REGISTERS),
        units=list(UNITS),
        functions=FUNCTIONS,
        mechanisms=MECHANISMS,
        origin=visit.pages.address(visit.request),
        key=secrets.token_urlsafe(16),
    )


@router.get("/queries/new")
async def begin_query(
    visit: Person,
    services: Services,
    like: str | None = None,
    shape: Literal["number", "profile"] = "number",
) -> Response:
    async with services.database.reading() as transaction:
        if like is not None:
            values = fields_of((await queries.find(transaction, like)).query)
        else:
            values = await _defaults(transaction)
        if shape == "profile":
            tomorrow = services.clock.now().astimezone(UTC).date() + timedelta(days=1)
            values = {**values, **PROFILE, "first_start": f"{tomorrow:%Y-%m-%d}T00:00"}
    fields = read({}, values)
    return await shown(visit, services, fields, 1)


@router.post("/queries/new")
async def continue_query(visit: Person, services: Services) -> Response:
    form = await visit.form()
    fields = read(form, {})
    step = _step(form.get("step", "1"))
    pressed = form.get("go", "next")
    faults_found: Sequence[Fault] = ()
    query_asked = None
    try:
        query_asked = query(fields)
    except Invalid as error:
        faults_found = faults(error)
    if pressed == "make" and query_asked is not None and visit.operator:
        key = visit.key(form.get("key", ""), query_asked.canonical())
        try:
            created = await api_queries.create(services, query_asked, key)
        except DomainError as error:
            faults_found = faults(error) if isinstance(error, Invalid) else [_fault(error)]
        else:
            query_id = json.loads(created.answer.body)["id"]
            await visit.note("made a query", query_id)
            return see(f"/console/queries/{query_id}?said=made")
    target = _target(pressed, step)
    stops = until(faults_found, step if target > step else 0)
    if stops:
        target = min(stop.step for stop in stops)
    return await shown(visit, services, fields, target, stops)


def _step(text: str) -> int:
    return min(max(int(text), 1), _LAST) if text.isdecimal() else 1


def _target(pressed: str, step: int) -> int:
    """The step to show: the next, the previous, the same, or one by its number."""
    by_name = {"next": step + 1, "back": step - 1, "stay": step, "make": _LAST}
    return _step(str(by_name.get(pressed, pressed)))


def _fault(error: DomainError) -> Fault:
    """The field and the reason for which this deployment refuses a query."""
    detail = error.detail or error.title
    return faults(Invalid(detail, pointer=error.pointer or ""))[0]


async def _defaults(transaction: Any) -> dict[str, str]:
    """As many aggregators as are paired, of which all but one may collude."""
    paired = len(await list_aggregators(transaction))
    if paired < 2:
        return {}
    return {"aggregators": str(paired), "collusion_aggregators": str(paired - 1)}


async def _price(services: CoordinatorServices, query_asked: Query, *, operator: bool) -> Price:
    """What it would cost and give. Raises what `queries.preview` raises."""
    report = await queries.preview(services.database, query_asked, services.settings)
    async with services.database.reading() as transaction:
        urls = queries.urls_for(query_asked, await list_aggregators(transaction))
    now = services.clock.now()
    window = query_asked.window or Window(start=now - timedelta(hours=1), end=now)
    plan = Plan(query=query_asked, window=window)
    cost = await preview_of(services, plan, named=operator)
    lasts = None
    if query_asked.schedule is not None:
        async with services.database.reading() as transaction:
            others = await query_store.scheduled(transaction)
        beside = tuple(Asked(query_id=other.id) for other in others)
        outlook_request = OutlookRequest(queries=(Asked(query=query_asked), *beside))
        outlook = await outlook_of(
            services.database, services.ledger, services.clock, outlook_request
        )
        limits = outlook.limits
        ending = [limit for limit in limits if limit.exhausted is not None]
        lasts = min(ending, key=lambda limit: limit.exhausted or now, default=None)
    error = report.error or {}
    return Price(
        report=report,
        rungs=ladder(report.verified, None),
        one_machine=one_machine(urls),
        error=(*error.get("averages", ()), *error.get("parts", ())),
        useful_from=error.get("smallest_useful_group", {}).get("curators"),
        cost=cost,
        each=cost_of_each(cost, query_asked.privacy_unit),
        lasts=lasts,
    )
