"""`tacit algorithms`: the algorithms that run as jobs, and their parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from algorithms import catalogue
from cli.context import Answer, TextTable, console, printed, say, tabled
from tacit.errors import NotFound

Json = dict[str, Any]


@printed
def algorithms(
    name: Annotated[
        str | None, typer.Argument(help="An algorithm; all of them unless given.")
    ] = None,
) -> Answer:
    """The algorithms that run as jobs; for a named one, its parameters and its result."""
    try:
        entries = [
            catalogue.shown(entry_name) for entry_name in ([name] if name else catalogue.NAMES)
        ]
    except NotFound as error:
        raise ValueError(f"{name}: {error.detail}; see `tacit algorithms`") from None
    if name is None:
        rows = [
            [
                item["name"],
                item["dataset_kind"],
                ",\n".join(item["federated"] or ["no"]),  # narrow: names are wide
                item["title"],
            ]
            for item in entries
        ]
        columns = ["name", "dataset", "federated", "title"]
        return tabled(entries, "Algorithms", columns, rows)
    return Answer(entries[0], lambda: _one(entries[0]))


def _one(item: Json) -> None:
    for line in (f"{item['name']}: {item['title']}", item["purpose"], f"Source: {item['source']}"):
        say(line, markup=False)
    takes = f"Takes {item['dataset_kind']}; stances {', '.join(item['stances'])}"
    say(f"{takes}; {item['complexity']}", markup=False)
    for way, when in (item["federated"] or {}).items():
        say(f"Over curators by {way}: {when}", markup=False)
    rows = [list(row) for row in parameters(item["parameters"])]
    console.print(TextTable("Parameters", ["name", "kind", "default", "what it is"], rows))
    results = [[field, text] for field, text in item["result"].items()]
    console.print(TextTable("Result", ["name", "what it is"], results))


def parameters(schema: Json) -> list[tuple[str, str, str, str]]:
    """Name, kind, default and meaning of each parameter of a JSON Schema, and of nested ones:
    `sensor.name`, `sensor.coordinates[].lower`, `models[k-anonymity].k`; `*`: any name."""
    return list(_rows("", schema, schema))


def _rows(path: str, model: Json, schema: Json) -> Iterator[tuple[str, str, str, str]]:
    needed = set(model.get("required", ()))
    for name, about in model.get("properties", {}).items():
        default = "needed" if name in needed else _default(about.get("default"))
        meaning = str(about.get("description", ""))
        yield f"{path}{name}", _kind(about, schema), default, meaning
        for inside, part in _models(f"{path}{name}", about, schema):
            yield from _rows(f"{inside}.", part, schema)


def _models(path: str, about: Json, schema: Json) -> Iterator[tuple[str, Json]]:
    """The models that a value can be or contain, with their paths; alternatives by their names."""
    for one in (*about.get("anyOf", ()), *about.get("oneOf", ())):
        yield from _models(path, one, schema)
    for key, mark in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(about.get(key), dict):
            yield from _models(f"{path}{mark}", about[key], schema)
    model = schema.get("$defs", {}).get(about.get("$ref", "").rpartition("/")[2], {})
    properties = model.get("properties", {})
    names = [str(schema["const"]) for schema in properties.values() if "const" in schema]
    if names:
        path = f"{path.removesuffix('[]')}[{names[0]}]"
        model = model | {
            "properties": {
                key: schema for key, schema in properties.items() if "const" not in schema
            }
        }
    if model:
        yield path, model


def _default(value: object) -> str:
    return "-" if value is None else str(value)


def _kind(about: Json, schema: Json) -> str:
    """The kind of a parameter in a word or two: type, choices or bounds."""
    if "$ref" in about:
        about = schema.get("$defs", {}).get(about["$ref"].rpartition("/")[2], {})
    if "enum" in about:
        return " | ".join(map(str, about["enum"]))
    if "anyOf" in about:
        kinds = [_kind(one, schema) for one in about["anyOf"] if one.get("type") != "null"]
        return " | ".join(dict.fromkeys(kinds))
    if "oneOf" in about:
        return "object"
    text = str(about.get("const", about.get("type", "")))
    low = about.get("minimum", about.get("exclusiveMinimum"))
    high = about.get("maximum", about.get("exclusiveMaximum"))
    if low is not None or high is not None:
        text += f" {'' if low is None else low}..{'' if high is None else high}"
    return text
