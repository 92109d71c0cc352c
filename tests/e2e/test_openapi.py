"""Requests made up from every OpenAPI document, against running services: no answer is a 5xx that
the service did not mean, and every refusal is a problem document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cbor2
import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import Case

from cli.services.deployment import Deployment, Running, ServiceAddress, pair
from common.bodies import CBOR
from common.web.problems import TYPE_PREFIX

pytestmark = pytest.mark.slow

schemathesis.serializer.alias(CBOR, "application/octet-stream")
CASES = 15
MEANT = {
    "aggregator_unreachable",  # a made-up address, where nobody answers
    "peer_unavailable",
    "not_ready",
}


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    plan = Deployment.plan(tmp_path_factory.mktemp("schema"), 1)
    running = Running(plan, {"coordinator": {"TACIT_AGGREGATOR_TIMEOUT_S": "1"}})
    try:
        running.start()
        pair(plan)
        yield plan
    finally:
        running.stop()


def problem_of(answer: httpx.Response) -> str:
    if answer.headers.get("content-type", "").startswith("application/problem+json"):
        return str(answer.json()["type"]).removeprefix(TYPE_PREFIX)
    return ""


def coordinators_token(deployment: Deployment, aggregator: ServiceAddress) -> str:
    """With which the coordinator speaks to an aggregator."""
    with deployment.coordinator.client() as client:
        identity = client.get("/.well-known/tacit-coordinator")
    body = {key: identity[key] for key in ("deployment", "identity_key")}
    with aggregator.client() as client:
        token: str = client.request("PUT", "/v1/coordinator", body).json()["token"]
    return token


@pytest.mark.parametrize("kind", ["coordinator", "aggregator", "curator"])
def test_no_made_up_request_breaks_a_service(deployment: Deployment, kind: str) -> None:
    service = next(item for item in deployment.services if item.kind == kind)
    tokens = [(Path(service.directory) / "operator.token").read_text().strip()]
    if kind == "aggregator":
        tokens.append(coordinators_token(deployment, service))
    schema = schemathesis.openapi.from_url(f"{service.url}/openapi.json")
    seen: Counter[int] = Counter()
    in_cbor = 0
    broken: list[str] = []
    client = httpx.Client(base_url=service.url, timeout=None)

    def check(case: Case) -> None:
        nonlocal in_cbor
        token = tokens[seen.total() % len(tokens)]
        kwargs = case.as_transport_kwargs(headers={"Authorization": f"Bearer {token}"})
        if "json" in kwargs and seen.total() % 3 == 0:  # any JSON body is taken in CBOR, too
            kwargs["data"] = cbor2.dumps(kwargs.pop("json"))
            kwargs["headers"]["Content-Type"] = CBOR
            in_cbor += 1
        answer = _send(client, kwargs)
        seen[answer.status_code] += 1
        name = problem_of(answer)
        label = f"{case.method} {case.path}: {answer.status_code} {name}"
        if answer.status_code >= 500 and name not in MEANT:
            broken.append(label)
        if answer.status_code >= 400 and not name:
            broken.append(f"{label}: no problem document")

    operations = [result.ok() for result in schema.get_all_operations()]
    # What ends the pairing comes last: it ends the token with which others are asked.
    for operation in sorted(operations, key=lambda each: each.path == "/v1/coordinator"):

        @settings(
            max_examples=CASES,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def run(case: Case) -> None:
            check(case)

        run()
    client.close()
    assert not broken, sorted(set(broken))
    print(kind, sum(seen.values()), "requests", dict(sorted(seen.items())))
    assert seen.total() > 300
    assert in_cbor > 20


def _send(client: httpx.Client, kwargs: dict[str, Any]) -> httpx.Response:
    """A case as schemathesis would send it with requests."""
    import requests

    prepared = requests.Request(
        **{key: kwargs[key] for key in kwargs if key in _ARGUMENTS}
    ).prepare()
    headers = {key: value for key, value in prepared.headers.items() if value is not None}
    try:
        return client.request(
            prepared.method or "GET", str(prepared.url), content=prepared.body, headers=headers
        )
    except (httpx.InvalidURL, UnicodeEncodeError, httpx.LocalProtocolError, ValueError):
        return httpx.Response(200)  # no client could send this


_ARGUMENTS = {"method", "url", "headers", "params", "cookies", "json", "data", "files"}
