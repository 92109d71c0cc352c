"""`tacit policy`: what the curators of a service agree to, by default and one by one.

A policy is shown and changed by flat names, such as `record.period.epsilon`. A change is a JSON
merge patch (RFC 7396): objects merge, lists replace, null deletes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from rich.markup import escape

from cli.context import (
    Answer,
    at_curator,
    read_json,
    tabled,
)
from curator.policy import Policy
from tacit import Client
from tacit.answers import base as api
from tacit.client.exchange import Json
from tacit.wire import WireModel, rule, unknown_field

NONE = "none"
"""Stands for no limit, and for an empty list."""


class BadChange(ValueError):
    """The change names an unknown field, or has an invalid value."""


@dataclass(frozen=True)
class Change:
    """One field, by its flat name, and its values as texts."""

    name: str
    old: str
    new: str


def policy_of(document: object) -> Policy:
    """The policy of a JSON document. Raises BadChange, which names the invalid fields."""
    try:
        return Policy.model_validate_json(json.dumps(document))
    except ValidationError as error:
        raise BadChange("; ".join(map(_wrong, error.errors()))) from None


def changed(policy: Policy, changes: Sequence[str]) -> Policy:
    """The policy after changes in this order: each `name=value`, a JSON file, or JSON. Raises
    BadChange, which names the invalid fields, OSError for a file."""
    document: Json = policy.model_dump(mode="json")
    for change in changes:
        document = _merged(document, _patch(change))
    return policy_of(document)


def differences(old: Policy, new: Policy) -> list[Change]:
    """The fields in which two policies differ, in the order of the model."""
    before, after = flat(old), flat(new)
    return [
        Change(name, before[name], after[name]) for name in before if before[name] != after[name]
    ]


def flat(policy: Policy) -> dict[str, str]:
    """Every field by its flat name, as `name=value` takes it."""
    return dict(_leaves("", policy.model_dump(mode="json"), Policy))


def _wrong(error: ErrorDetails) -> str:
    return f"{'.'.join(map(str, error['loc'])) or 'policy'}: {rule(error, Policy)}"


def _leaves(prefix: str, document: Json, model: type[WireModel]) -> list[tuple[str, str]]:
    result = []
    for name, field in model.model_fields.items():
        value, inner = document.get(name), _model(field.annotation)
        if inner is not None:
            result += _leaves(f"{prefix}{name}.", value or {}, inner)
        else:
            result.append((prefix + name, _text(value)))
    return result


def _text(value: object) -> str:
    if value is None or value == []:
        return NONE
    if isinstance(value, list):
        return ",".join(value)
    return value if isinstance(value, str) else json.dumps(value)


def _patch(change: str) -> Json:
    """The merge patch of one argument of the command line."""
    name, sign, text = change.partition("=")
    is_json = change.lstrip().startswith("{")
    if is_json or not sign:
        if not is_json and not Path(change).is_file():
            raise BadChange(f"{change}: neither name=value nor a file")
        result = read_json(change)
        if not isinstance(result, dict):
            raise BadChange(f"{change}: a policy is a JSON object")
        return result
    value: object = _value(name, text.strip())
    for part in reversed(name.split(".")):
        value = {part: value}
    assert isinstance(value, dict)
    return value


def _value(name: str, text: str) -> object:
    """The JSON value of a field's text; a text of another type is left for the model to refuse.
    Raises BadChange unless the name is that of a single value."""
    model: type[WireModel] | None = Policy
    annotation: Any = None
    parts = tuple(name.split("."))
    for depth, part in enumerate(parts, 1):
        if model is None or part not in model.model_fields:
            sentence = unknown_field(parts[:depth], Policy)
            raise BadChange(f"{name}: {sentence}; `tacit policy show` lists them")
        annotation = model.model_fields[part].annotation
        model = _model(annotation)
    if model is not None:
        raise BadChange(f"{name}: not one value but {', '.join(model.model_fields)}")
    if get_origin(annotation) is tuple:
        return [] if text in ("", NONE) else [item.strip() for item in text.split(",")]
    if text == NONE:
        return None
    if annotation in (int, bool) or int in get_args(annotation):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text


def _model(annotation: Any) -> type[WireModel] | None:
    """The model of a field that has one, perhaps beside None."""
    for kind in get_args(annotation) or (annotation,):
        if isinstance(kind, type) and issubclass(kind, WireModel):
            return kind
    return None


def _merged(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _merged(result.get(name), value)
    return result


app = typer.Typer(
    no_args_is_help=True, help="What curators agree to: limits, mechanisms, algorithms."
)

Curator = Annotated[
    str | None, typer.Option("--curator", help="Only for this curator, not for all of the process.")
]


@app.command("show")
@at_curator
def show_policy(client: Client, curator: Curator = None) -> Answer:
    """The default policy of a curator service, or the policy of one curator."""
    response = client.policies.get(curator)
    rows = [[name, escape(value)] for name, value in flat(policy_of(response)).items()]
    title = "The default policy" if curator is None else f"The policy of {curator}"
    return tabled(response, title, ["field", "value"], rows)


@app.command("set")
@at_curator
def set_policy(
    client: Client,
    changes: Annotated[
        list[str],
        typer.Argument(
            metavar="CHANGE",
            help="name=value (lists with commas, `none` for no limit), a JSON file, or JSON; "
            "other fields stay.",
        ),
    ],
    curator: Curator = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change, and send nothing.")
    ] = False,
) -> Answer:
    """Change a policy, from the next contribution on.

    Example: `tacit policy set record.period.epsilon=2.5 algorithms=kmeans,crowd-tasking`
    """
    old = policy_of(client.policies.get(curator))
    new = changed(old, changes)
    differing = differences(old, new)
    sent = bool(differing) and not dry_run
    policy = new.model_dump(mode="json", exclude_none=True)
    if sent:
        policy = client.policies.set(policy, curator=curator)
    outcome = "nothing changes" if not differing else "it is set" if sent else "nothing was sent"
    if sent and curator is not None:
        outcome += f"; `tacit policy drop {curator}` restores the default"
    lines = [*(f"{item.name}: {item.old} -> {item.new}" for item in differing), outcome]
    document = {"changes": [asdict(item) for item in differing], "sent": sent, "policy": policy}
    return Answer(document, lambda: typer.echo("\n".join(lines)))


@app.command("try")
@at_curator
def try_policy(
    client: Client,
    changes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CHANGE]...", help="As for `tacit policy set`; none: the current policy."
        ),
    ] = None,
    curator: Curator = None,
) -> Answer:
    """Which rounds of the last 30 days would have been answered with these changes."""
    policy_asked = changed(policy_of(client.policies.get(curator)), changes or [])
    policy = policy_asked.model_dump(mode="json", exclude_none=True)
    response = client.policies.preview(policy, curator=curator)

    def human() -> None:
        typer.echo(
            f"rounds since {response['since']}: {response['rounds']}, of which "
            f"{response['answered']} would have been answered"
        )
        for name, count in response["refused"].items():
            typer.echo(f"  {count} refused: {name}")

    return Answer(response, human)


@app.command("drop")
@at_curator
def drop(
    client: Client, curator: Annotated[str, typer.Argument(help="Id of the curator.")]
) -> Answer:
    """Delete your override of a curator's policy."""
    client.policies.delete(curator)
    text = f"{curator} has the default policy"
    return Answer({"dropped": curator}, lambda: typer.echo(text))


@app.command("stop")
@at_curator
def stop(client: Client, curator: Curator = None) -> Answer:
    """Stop participating in rounds and jobs, until started again. Readings are still collected;
    what was already sent cannot be recalled."""
    return _stops(client.curators.stop(curator), curator)


@app.command("start")
@at_curator
def start(client: Client, curator: Curator = None) -> Answer:
    """Resume. Removes your stop; stops set by others stay."""
    return _stops(client.curators.resume(curator), curator)


@app.command("stops")
@at_curator
def stops(client: Client, curator: Curator = None) -> Answer:
    """Whether curators are stopped, by whom and since when."""
    return _stops(client.curators.stops(curator), curator)


def _stops(response: api.Answer, curator: str | None) -> Answer:
    whose = "all curators of this process" if curator is None else curator
    by = {"process": response["since"]} if curator is None else response["by"]
    since = ", ".join(f"{party} since {at}" for party, at in by.items() if at is not None)
    sentence = f"{whose}: stopped ({since})" if response["stopped"] else f"{whose}: not stopped"
    return Answer(response, lambda: typer.echo(sentence))
