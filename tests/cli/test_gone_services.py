"""A service that is gone is revoked by who has the pair that it committed to, without the service.

Spec: keys, section 5.2. Real services; the aggregator is killed and never comes back.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.services.deployment import Running, join_token
from tacit import Problem
from tacit.protocol.enrolment import PartyKind
from tests.cli.test_away import QUERY
from tests.cli.test_pairing import tacit

pytestmark = pytest.mark.slow


@pytest.fixture
def running(two_aggregators: Running) -> Running:
    plan = two_aggregators.deployment
    token = join_token(plan, "house", PartyKind.CURATOR, 1, 3600)
    with plan.curator.client() as curator:
        curator.post("/v1/enrolments", {"token": token.to_text(), "curators": ["house"]})
    return two_aggregators


def test_what_was_kept_ends_an_aggregator_that_is_gone(running: Running, tmp_path: Path) -> None:
    plan = running.deployment
    home, coordinator = ("--home", plan.directory), plan.coordinator
    gone, left = plan.aggregators
    words = ("--passphrase-file", tmp_path / "words")
    (tmp_path / "words").write_text("a passphrase of several words\n")
    first, other, file = tmp_path / "first.key", tmp_path / "other.key", tmp_path / "revoked.json"

    def done(*arguments: object) -> str:
        found = tacit("keys", *arguments)
        assert found.returncode == 0, found.stderr
        return found.stdout

    def refused(*arguments: object, code: int) -> str:
        found = tacit("keys", *arguments)
        assert (found.returncode, len(found.stderr.splitlines())) == (code, 1), found.stderr
        return found.stderr

    done("next", gone.id, "--out", first, *words, *home)
    done("next", left.id, "--out", other, *words, *home)
    with gone.client() as client:
        shown = client.get("/.well-known/tacit-aggregator/identity")
        pinned = client.get("/.well-known/tacit-aggregator")
    with left.client() as client:
        body = {"fingerprint": pinned["fingerprint_base64url"], "operator": pinned["operator"]}
        client.request("PUT", "/v1/peers", {"id": gone.id, **body})
    with coordinator.client() as client:  # what a look before a round does
        client.trust.show_aggregator(gone.id, shown)
    running.processes[gone.id].kill()
    running.processes[gone.id].wait()

    revoke = ("revoke", gone.id, "--chain-from", coordinator.url, "--out", file, *words)
    assert "succession_refused" in refused(*revoke, "--next", other, code=1)
    assert "name the lost aggregator" in refused(
        "revoke", "--chain-from", coordinator.url, "--out", file, *words, "--next", first, code=2
    )
    assert "unknown_aggregator" in refused(
        "revoke", "nobody", "--chain-from", coordinator.url, *words, "--next", first, code=2
    )
    assert not file.exists()
    assert "nothing secret" in done(*revoke, "--next", first)

    forged = tmp_path / "forged.json"
    chain = json.loads(file.read_text())
    chain["links"][-1]["signature"] = chain["documents"][0]["signature"]
    forged.write_text(json.dumps(chain))
    assert "succession_refused" in refused("show", forged, *home, code=2)
    (tmp_path / "nonsense.json").write_text("[]")
    assert "is not a chain of identities" in refused(
        "show", tmp_path / "nonsense.json", *home, code=2
    )
    with coordinator.client() as client:
        assert not client.trust.aggregator(gone.id).get("links")

    for _ in range(2):  # the same again
        said = done("show", file, *home)
        for service in (coordinator, left, plan.curator):
            assert f"{service.url} refuses the service from now on" in said
        assert gone.url not in said
    with coordinator.client() as client:
        assert client.trust.aggregator(gone.id)["links"][-1]["statement"]["revoked_by"]
        made = client.queries.create({**QUERY, "name": "after"})
        hour = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-01T01:00:00Z"}
        with pytest.raises(Problem, match="identity_superseded"):
            client.rounds.open(made["id"], window=hour)
