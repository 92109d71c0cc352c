"""The Kubernetes manifests: put together, checked strictly against the API's schemas, and held
against the compose file."""

from __future__ import annotations

import json
import shutil
import subprocess
from copy import deepcopy
from functools import cache
from typing import Any

import kubernetes_validate
import pytest
import yaml

from docs.generate import settings_class
from tests.deploy.engine import ROOT, read_compose

KUBERNETES = ROOT / "deploy" / "kubernetes"
VERSIONS = ("1.30.0", "1.36.0")
PARTIES = ("coordinator", "aggregator-a", "aggregator-b", "aggregator-c", "curator")
WORKLOADS = ("StatefulSet", "Deployment", "Job")


@cache
def built(name: str) -> list[dict[str, Any]]:
    """All objects of a kustomization, made once: whoever changes one copies it."""
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl on this machine")
    done = subprocess.run(
        ["kubectl", "kustomize", str(KUBERNETES / name)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def workloads(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {item["metadata"]["name"]: item for item in objects if item["kind"] in WORKLOADS}


def container(workload: dict[str, Any]) -> dict[str, Any]:
    [found] = workload["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def variables(workload: dict[str, Any]) -> dict[str, str]:
    return {item["name"]: item["value"] for item in container(workload).get("env", [])}


@pytest.mark.slow  # `make check` holds the files themselves against it
@pytest.mark.parametrize("name", ["services", "postgres", "workers"])
def test_every_object_follows_the_schema(name: str) -> None:
    objects = built(name)
    for version in VERSIONS:
        for item in objects:
            kubernetes_validate.validate(item, version, strict=True)


def test_a_wrong_field_is_noticed() -> None:
    item = deepcopy(workloads(built("services"))["curator"])
    item["spec"]["template"]["spec"]["containers"][0]["readonlyRootFilesystem"] = True
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(item, VERSIONS[0], strict=True)


@pytest.mark.parametrize("name", ["services", "postgres", "workers"])
def test_every_pod_is_as_hardened_as_in_compose(name: str) -> None:
    for workload in workloads(built(name)).values():
        pod, one = workload["spec"]["template"]["spec"], container(workload)
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == 10001
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert one["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert "memory" in one["resources"]["limits"]
        writable = {item["mountPath"] for item in one["volumeMounts"] if not item.get("readOnly")}
        assert writable <= {"/tmp", "/var/lib/tacit"}


def test_what_compose_says_is_said_here() -> None:
    """The same commands and settings, but for places; nothing that compose names is missing."""
    compose = read_compose(ROOT / "docker-compose.yml", {})
    found = workloads(built("services"))
    places = {"TACIT_OPERATOR_TOKEN_FILE", "TACIT_DATABASE_URL_FILE", "TACIT_STORAGE_KEY_FILE"}
    in_image = {"TACIT_HOST", "TACIT_DATA_DIR"}
    for name in PARTIES:
        service, here = compose["services"][name], variables(found[name])
        assert container(found[name])["args"] == service["command"]
        given = {key: value for key, value in service["environment"].items() if value}
        needed = {key for key in given if key not in in_image and "MQTT" not in key}
        assert needed - {"TACIT_LOG_LEVEL"} <= set(here) | places, name
        for key in needed & set(here) - places:
            assert here[key] == str(given[key]), (name, key)
    assert container(found["pairing"])["args"] == compose["services"]["pairing"]["command"]
    scaled = workloads(built("workers"))
    for name in ("scheduler", "worker"):
        image = compose["services"][name]["image"]
        assert container(scaled[name])["image"] == image


@pytest.mark.parametrize("name", PARTIES)
def test_every_setting_exists(name: str) -> None:
    role = name.split("-")[0]
    known = {f"TACIT_{field}".upper() for field in settings_class(role).model_fields}
    for kustomization in ("services", "postgres", "workers"):
        given = variables(workloads(built(kustomization))[name])
        assert {key.removesuffix("_FILE") for key in given} <= known


def test_every_secret_is_one_that_the_page_makes() -> None:
    page = (ROOT / "docs" / "how-to" / "deploy.md").read_text()
    for kustomization in ("services", "postgres", "workers"):
        for workload in workloads(built(kustomization)).values():
            for volume in workload["spec"]["template"]["spec"]["volumes"]:
                if "secret" in volume:
                    assert volume["secret"]["secretName"].removeprefix("tacit-") in page
    files = {"operator_token", "storage_key", "database_url"}
    for item in workloads(built("postgres")).values():
        for value in variables(item).values() if item["kind"] == "StatefulSet" else ():
            if value.startswith("/run/secrets/tacit/"):
                assert value.rpartition("/")[2] in files


def test_who_may_speak_with_whom() -> None:
    """Every network policy selects pods that exist, and everything not named is closed."""
    for name in ("services", "postgres", "workers"):
        objects = built(name)
        labels = {
            workload["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/name"]
            for workload in workloads(objects).values()
        } | {"worker"}
        policies = [item for item in objects if item["kind"] == "NetworkPolicy"]
        closed = [item for item in policies if item["metadata"]["name"] == "nothing-else"]
        assert closed[0]["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
        named = set(_names(json.loads(json.dumps([item["spec"] for item in policies]))))
        assert named <= labels


def _names(node: Any) -> list[str]:
    if isinstance(node, list):
        return [name for item in node for name in _names(item)]
    if not isinstance(node, dict):
        return []
    if node.get("key") == "app.kubernetes.io/name":
        return [str(value) for value in node["values"]]
    own = node.get("app.kubernetes.io/name")
    return ([str(own)] if own else []) + [name for item in node.values() for name in _names(item)]
