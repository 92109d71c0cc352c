"""What a change makes of a curator's policy. No service and no output here.

A policy has flat names, `record.period.epsilon`, under which it is shown and changed. A change is
a JSON merge patch (RFC 7396): objects are laid over what there is, lists replace, null takes away.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from cli.context import read_json
from curator.policy import Policy
from tacit.field_words import rule, unknown_field
from tacit.wire import WireModel

Json = dict[str, Any]
NONE = "none"
"""How no limit, and an empty list, are written."""


class BadChange(ValueError):
    """The change names no field, or gives one a value that it cannot have."""


@dataclass(frozen=True)
class Change:
    """One field, by its flat name, and its values as texts."""

    name: str
    old: str
    new: str


def policy_of(document: object) -> Policy:
    """The policy of a JSON document. Raises BadChange, which names the fields that are wrong."""
    try:
        return Policy.model_validate_json(json.dumps(document))
    except ValidationError as error:
        raise BadChange("; ".join(map(_wrong, error.errors()))) from None


def changed(policy: Policy, changes: Sequence[str]) -> Policy:
    """The policy after changes, one laid over the other: `name=value`, a JSON file, or JSON.

    Raises BadChange, which names the fields that are wrong, OSError for a file.
    """
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
    return dict(_leaves("", policy.model_dump(mode="json")))


def _wrong(error: ErrorDetails) -> str:
    place = error["loc"]
    unknown = error["type"] == "extra_forbidden"
    said = unknown_field(place, Policy) if unknown else rule(error)
    return f"{'.'.join(map(str, place)) or 'policy'}: {said}"


def _leaves(prefix: str, document: Json) -> list[tuple[str, str]]:
    found = []
    for name, value in document.items():
        if isinstance(value, dict):
            found += _leaves(f"{prefix}{name}.", value)
        else:
            found.append((prefix + name, _text(value)))
    return found


def _text(value: object) -> str:
    if value is None or value == []:
        return NONE
    if isinstance(value, list):
        return ",".join(value)
    return value if isinstance(value, str) else json.dumps(value)


def _patch(change: str) -> Json:
    """The merge patch that one argument of the command line stands for."""
    name, sign, text = change.partition("=")
    is_json = change.lstrip().startswith("{")
    if is_json or not sign:
        if not is_json and not Path(change).is_file():
            raise BadChange(f"{change}: neither name=value nor a file")
        found = read_json(change)
        if not isinstance(found, dict):
            raise BadChange(f"{change}: a policy is a JSON object")
        return found
    value: object = _value(name, text.strip())
    for part in reversed(name.split(".")):
        value = {part: value}
    assert isinstance(value, dict)
    return value


def _value(name: str, text: str) -> object:
    """The JSON value of a field's text; what has another type stays a text, for the model to name.

    Raises BadChange where no single value has that name.
    """
    model: type[WireModel] | None = Policy
    annotation: Any = None
    parts = tuple(name.split("."))
    for depth, part in enumerate(parts, 1):
        if model is None or part not in model.model_fields:
            said = unknown_field(parts[:depth], Policy)
            raise BadChange(f"{name}: {said}; `tacit policy show` lists them")
        annotation = model.model_fields[part].annotation
        is_model = isinstance(annotation, type) and issubclass(annotation, WireModel)
        model = annotation if is_model else None
    if model is not None:
        raise BadChange(f"{name}: not one value but {', '.join(model.model_fields)}")
    if get_origin(annotation) is tuple:
        return [] if text in ("", NONE) else [item.strip() for item in text.split(",")]
    if annotation in (int, bool) or int in get_args(annotation):
        return _literal(text)
    return None if text == NONE else text


def _literal(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


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
