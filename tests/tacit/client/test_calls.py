"""The client has a call for every route that people use, and both clients have the same calls."""

from __future__ import annotations

import inspect
import re
from functools import cache
from importlib import import_module
from itertools import product
from operator import attrgetter
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from tacit.client.client import AsyncClient, Calls, Client
from tacit.client.curator import Kind
from tacit.client.exchange import Request, operation, stream

PLACE = "place-holder"
# Spoken between services, by devices without a client, or by machines that watch a service.
OTHERS = {
    ("GET", "/healthz"),
    ("PUT", "/v1/rounds/{}/acknowledgement"),
    ("PUT", "/v1/acknowledgements"),
    ("PUT", "/v1/rounds/{}/refusal"),
    ("PUT", "/v1/parties/{}/identity"),  # of the coordinator
    ("POST", "/v1/parties/{}/token"),
    ("POST", "/v1/coordinator/token"),
    ("GET", "/v1/seal-keys/{}"),
}


def groups() -> dict[str, type]:
    """The class of each group by its property's name; "" is the client itself."""
    properties = inspect.getmembers_static(Calls, lambda member: isinstance(member, property))
    hints = {name: get_type_hints(member.fget)["return"] for name, member in properties}
    return {"": Calls, **{name: get_origin(hint) for name, hint in hints.items()}}


def calls() -> dict[str, Any]:
    """Every call by its full name: `jobs.run`."""
    return {
        f"{group}.{name}".lstrip("."): call
        for group, kind in groups().items()
        for name, call in inspect.getmembers_static(kind)
        if isinstance(call, operation | stream)
    }


def asked(name: str, call: Any) -> set[tuple[str, str]]:
    """The first request of a call, with and without its optional arguments."""
    found = set()
    parameters = inspect.signature(call.call).parameters.values()
    needed = [item for item in parameters if item.default is item.empty and item.kind in (0, 1)]
    named = {
        item.name: PLACE
        for item in parameters
        if item.default is item.empty and item.kind is item.KEYWORD_ONLY
    }
    optional: list[dict[str, Any]] = [{}]
    if any(item.name == "curator" and item.default is None for item in parameters):
        optional.append({"curator": PLACE})
    kinds = get_args(Kind) if any(item.annotation == "Kind" for item in needed) else (PLACE,)
    for kind, more in product(kinds, optional):
        given = [kind if item.annotation == "Kind" else PLACE for item in needed]
        step = next(call.call(*given, **named, **more))
        assert isinstance(step, Request), name
        found.add((step.method, re.sub(rf"{PLACE}|\{{\w+\}}", "{}", step.path)))
    return found


@cache
def routes(service: str) -> set[tuple[str, str]]:
    settings = getattr(import_module(f"{service}.settings"), f"{service.capitalize()}Settings")
    all_on = {"console": True} if "console" in settings.model_fields else {}
    document = import_module(f"{service}.app").create_app(settings(**all_on)).openapi()
    return {
        (method.upper(), re.sub(r"\{\w+\}", "{}", path))
        for path, operations in document["paths"].items()
        for method in operations
    }


GENERAL = {"request", "get", "post", "pages"}


@pytest.mark.parametrize("service", ["coordinator", "curator"])
def test_every_route_has_a_call(service: str) -> None:
    covered = set().union(
        *(asked(name, call) for name, call in calls().items() if name not in GENERAL),
        # the second requests of calls that make two
        {("GET", "/v1/rounds/{}/result")},
    )
    assert routes(service) - covered - OTHERS == set()


def test_every_call_asks_a_route_that_there_is() -> None:
    there = routes("coordinator") | routes("curator") | routes("aggregator")
    for name, call in calls().items():
        if name not in GENERAL:
            assert asked(name, call) <= there, name


def test_both_clients_have_every_call_explained() -> None:
    with Client("http://it.test") as client:
        other = AsyncClient("http://it.test")
        for name, call in calls().items():
            assert call.__doc__, name
            method, awaited = attrgetter(name)(client), attrgetter(name)(other)
            assert method.__doc__ == awaited.__doc__ == call.__doc__
            taken = list(inspect.signature(method).parameters)
            assert taken == list(inspect.signature(call.call).parameters)
