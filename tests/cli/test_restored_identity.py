"""A service is put back from a backup of before its identity was replaced, and revoked at last."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.services.deployment import Deployment, Running, pair
from cli.services.up import service_settings
from tests.cli.test_pairing import tacit

pytestmark = pytest.mark.slow


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    plan = Deployment.plan(tmp_path, 1)
    plan.save()
    found = Running(plan, service_settings())
    try:
        found.start()
        pair(plan)
        yield found
    finally:
        found.stop()


def restarted(running: Running, service: Any) -> None:
    running.start_one(service)
    running.wait_for(service)


def test_a_backup_of_before_goes_on_by_the_pair_that_replaced_it(
    running: Running, tmp_path: Path
) -> None:
    home = ("--home", running.deployment.directory)
    [service] = running.deployment.aggregators
    (tmp_path / "words").write_text("a passphrase of several words\n")
    words = ("--passphrase-file", tmp_path / "words")
    settings = {"TACIT_DATA_DIR": service.directory, "TACIT_AGGREGATOR_ID": service.id}
    first, second, file = tmp_path / "first.key", tmp_path / "second.key", tmp_path / "backup"

    def done(*arguments: object) -> str:
        found = tacit(*arguments, **settings)
        assert found.returncode == 0, found.stderr
        return found.stdout

    done("keys", "next", service.id, "--out", first, *words, *home)
    done("backup", "aggregator", "--out", file, *words)
    done("keys", "rotate", "identity", service.id, "--next", first, "--following", second,
         *words, *home)  # fmt: skip
    with service.client() as client:
        newest = client.get("/.well-known/tacit-aggregator")["fingerprint"]
    with running.deployment.coordinator.client() as client:
        client.trust.confirm_aggregator(
            service.id, _document(service)
        )  # the coordinator looks, and keeps
    running.processes[service.id].terminate()
    running.processes[service.id].wait()
    restore = ("restore", "aggregator", file, "--replace", *words)
    done(*restore)
    with pytest.raises(RuntimeError, match="did not start"):
        restarted(running, service)
    assert "identity_superseded" in (Path(service.directory) / "service.log").read_text()
    as_it_is = ("--identity", first, "--identity-passphrase-file", tmp_path / "words")
    nowhere = tacit(*restore, *as_it_is, **settings)
    assert (nowhere.returncode, len(nowhere.stderr.splitlines())) == (2, 1)
    chain = ("--chain-from", running.deployment.coordinator.url)
    other = ("--identity", second, "--identity-passphrase-file", tmp_path / "words")
    wrong = tacit(*restore, *other, *chain, **settings)
    assert (wrong.returncode, "key_not_anchored" in wrong.stderr) == (2, True)
    done(*restore, *as_it_is, *chain)
    restarted(running, service)
    with service.client() as client:
        assert client.get("/.well-known/tacit-aggregator")["fingerprint"] == newest
    # and the pair after it still ends it, which nothing undoes
    revoking = ("keys", "revoke", service.id, "--next", second, *words, *home)
    assert done(*revoking) == done(*revoking)
    third = tacit("keys", "next", service.id, "--out", tmp_path / "third", *words, *home)
    assert (third.returncode, "identity_superseded" in third.stderr) == (4, True)


def _document(service: Any) -> str:
    """Of the newest identity, as its operator reads it out."""
    from tacit.protocol.identities import IdentityChain
    from tacit.wire import encode_binary

    with service.client() as client:
        text = client.request("GET", "/.well-known/tacit-aggregator/identity").content
    chain = IdentityChain.model_validate_json(text)
    return encode_binary(chain.documents[-1].statement.fingerprint)
