"""Maps topics to readings, and defines their payloads: data in TOML or JSON, no code.

    format = "tacit.mqtt-mapping/1"
    name = "my-meters"
    [[rules]]
    topic = "tele/{device}/SENSOR"    # {device} in one level; {site} is the settings'
    payload = "json"                  # "text": a bare number; "readings": as `POST /v1/readings`;
                                      # "senml": RFC 8428, as JSON or CBOR
    time = "/Time"                    # a JSON pointer, or "received"
    [[rules.readings]]
    value = "/ENERGY/Total"           # a JSON pointer (RFC 6901)
    register = "energy_import"
    unit = "kWh"
    kind = "total_increasing"

The first rule whose topic matches decides. Where `time` is "received", a message has no own time,
and gets another one when the broker delivers it again; an amount would then be booked twice, so
such a rule may be for counters and states only.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping as Table
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, TypeAdapter, ValidationError, field_validator, model_validator
from pydantic_core import to_json

from common.bodies import invalid_from
from curator.errors import BadMapping
from curator.files.units_and_local_time import Declared
from tacit.errors import Invalid
from tacit.query.terms import Identifier
from tacit.units import Kind
from tacit.wire import WireModel, require

RECEIVED: Final = "received"
READY: Final = (
    "tacit",
    "home-assistant",
    "tasmota",
    "shelly-gen1",
    "shelly-gen2",
    "zigbee2mqtt",
    "esphome",
    "dsmr-reader",
    "senml",
)
NOTHING: Final = ("", "unavailable", "unknown", "nan", "NaN", "null", "none", "None")
_LEVEL = re.compile(r"[^/+#\x00]+|\+")
Pointer = Annotated[str, Field(pattern=r"^(/([^~/]|~[01])*)+$", max_length=200)]
_devices: TypeAdapter[dict[str, str]] = TypeAdapter(dict[Identifier, Identifier])


class ReadingRule(Declared):
    """One reading of a payload. `value` is a pointer into JSON; a text is the value itself.
    `time`: of this reading, if it has its own. `channel` is appended to the device's name."""

    value: Pointer | None = None
    time: Pointer | None = None
    channel: Annotated[str, Field(pattern=r"^([._:@-][A-Za-z0-9]{1,16})?$")] = ""
    kind: Kind = Field(Kind.TOTAL_INCREASING, validate_default=True)


class TopicRule(WireModel):
    """Topics of one shape, and the readings in their payloads."""

    topic: Annotated[str, Field(min_length=1, max_length=500)]
    payload: Literal["readings", "senml", "json", "text"]
    kind: Kind | None = None
    """Of SenML: the kind of registers that take it."""
    time: Literal["received"] | Pointer = RECEIVED
    time_unit: Literal["ms", "s"] = "ms"
    """Of a time that is a number: since 1970. Seconds may have a fraction."""
    ignore: tuple[str, ...] = NOTHING
    """Texts that mean that there is no reading (such as `unavailable`)."""
    readings: tuple[ReadingRule, ...] = ()

    @field_validator("topic")
    @classmethod
    def _a_topic(cls, topic: str) -> str:
        plain = topic.replace("{site}", "s").replace("{device}", "d", 1)
        good = all(_LEVEL.fullmatch(level) for level in plain.split("/"))
        require("{device}" in topic, topic, "names {device} in one level")
        return require(good and "{" not in plain, topic, "is not a topic (levels, +, {site})")

    @model_validator(mode="after")
    def _readings_of_the_payload(self) -> TopicRule:
        reads_readings = self.payload in ("readings", "senml")
        require(self.payload == "senml" or self.kind is None, self, "kind is of senml only")
        require(
            reads_readings != bool(self.readings),
            self,
            "readings are listed for json and text only",
        )
        pointed = all(
            (rule.value is not None) == (self.payload == "json") for rule in self.readings
        )
        require(pointed, self, "json needs a pointer to each value, text has none")
        timed = any(rule.time is not None for rule in self.readings) or self.time != RECEIVED
        require(self.payload == "json" or not timed, self, "only json has a time in it")
        amounts = any(rule.kind is Kind.DELTA and rule.time is None for rule in self.readings)
        require(
            not (amounts and self.time == RECEIVED),
            self,
            ("an amount needs its own time: if it is delivered again, it would be counted twice"),
        )
        return self


class Mapping(WireModel):
    """A file of rules."""

    format: Literal["tacit.mqtt-mapping/1"]
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,63}$")]
    description: str = ""
    rules: Annotated[tuple[TopicRule, ...], Field(min_length=1)]


@dataclass(frozen=True)
class Route:
    """A rule at one site: its topic filter, and which topics match it."""

    filter: str
    pattern: re.Pattern[str]
    rule: TopicRule

    def device(self, topic: str) -> str | None:
        """The device that a topic names; None if the topic does not fit this rule."""
        match = self.pattern.fullmatch(topic)
        return None if match is None else match["device"]


def routes(mappings: Sequence[Mapping], site: str) -> tuple[Route, ...]:
    """The rules of all mappings, in their order, for a site."""
    return tuple(_route(rule, site) for mapping in mappings for rule in mapping.rules)


def _route(rule: TopicRule, site: str) -> Route:
    levels = rule.topic.replace("{site}", site).split("/")
    filters = ["+" if "{device}" in level or level == "+" else level for level in levels]
    pattern = "/".join(_pattern(level) for level in levels)
    return Route("/".join(filters), re.compile(pattern), rule)


def _pattern(level: str) -> str:
    if level == "+":
        return "[^/]*"
    before, device, after = level.partition("{device}")
    named = "(?P<device>[^/]+)" if device else ""
    return re.escape(before) + named + re.escape(after)


def load(names: str) -> tuple[Mapping, ...]:
    """Mappings by name (`READY`) or path, separated by commas. Raises BadMapping."""
    listed = [name.strip() for name in names.split(",") if name.strip()]
    if not listed:
        raise BadMapping("name at least one mapping")
    return tuple(_load(name) for name in listed)


def _load(name: str) -> Mapping:
    if name in READY:
        text = (resources.files(__package__) / "mappings" / f"{name}.toml").read_text("utf-8")
        content: Any = tomllib.loads(text)
    else:
        content = _read(Path(name))
    try:
        return Mapping.model_validate_json(to_json(content))
    except ValidationError as error:
        raise _broken(Path(name), error, content) from None


def load_devices(path: Path | None) -> Table[str, str]:
    """The curator of each device, from a file of `device = curator`. Raises BadMapping."""
    if path is None:
        return {}
    content = _read(path)
    try:
        return _devices.validate_json(to_json(content))
    except ValidationError as error:
        raise _broken(path, error, content) from None


def _read(path: Path) -> Any:
    try:
        text = path.expanduser().read_text(encoding="utf-8")
        return json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise BadMapping(f"{path}: cannot be read ({type(error).__name__})") from None
    except ValueError as error:
        raise BadMapping(f"{path}: is not TOML or JSON ({error})") from None


def _broken(path: Path, error: ValidationError, content: Any) -> BadMapping:
    problem = invalid_from(error, content)
    errors = problem.errors if isinstance(problem, Invalid) else ()
    return BadMapping(f"{path}: " + "; ".join(f"{e.pointer} {e.message}" for e in errors))


def schema() -> dict[str, Any]:
    """The JSON schema of a mapping file, as in `mappings/schema.json`."""
    document = Mapping.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **document}


if __name__ == "__main__":
    target = Path(__file__).parent / "mappings" / "schema.json"
    target.write_text(json.dumps(schema(), indent=2) + "\n", encoding="utf-8")
