"""The one-file reader of identity chains says the same as the library.

Spec: keys, section 5.2.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tacit.protocol.identities import SignedSuccession
from tacit.wire import encode_binary
from tests.examples.client import load_client
from tests.tacit.protocol.test_identities import PAIRS, THIEF, document, key, link, shown

PAST, FAR = datetime(2026, 1, 1, tzinfo=UTC), datetime(2099, 1, 1, tzinfo=UTC)


def late(serial: int, **changes: Any) -> SignedSuccession:
    """A link that took effect before today."""
    times = {"effective": PAST, "overlap_until": PAST + timedelta(days=7)}
    return link(serial, **{**times, **changes})


def test_a_chain_that_does_not_lead_on_is_not_followed() -> None:
    client = load_client()
    chain = json.loads(shown(0, 1, links=[late(1)]).model_dump_json(exclude_none=True))
    honest, first = chain["links"][0], chain["documents"][0]["statement"]
    assert client.leads_on(honest, first, "demo")
    assert client.document_hash(first) == encode_binary(document(0).fingerprint)
    false = {
        "of a thief": late(1, document=document(1, key=THIEF)),
        "of another deployment": late(1, deployment="other"),
        "of another name": late(1, document=document(1, name="south")),
        "of the future": late(1, effective=FAR, overlap_until=FAR),
        "two steps on": late(2),
    }
    for name, each in false.items():
        found = json.loads(each.model_dump_json(exclude_none=True))
        assert not client.leads_on(found, first, "demo"), name
    for part in ("signature", "old_signature"):
        other = {**honest, part: encode_binary(bytes(3373))}
        assert not client.leads_on(other, first, "demo"), part
        missing = {name: value for name, value in honest.items() if name != "old_signature"}
        assert not client.leads_on(missing, first, "demo")


@pytest.mark.parametrize("case", ["second document", "second successor"])
def test_a_fork_stops_the_device(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client = load_client()
    chain = shown(0, 1, links=[late(1)])
    if case == "second successor":
        other = late(1, document=document(1, next=bytes(32)))
        chain = shown(0, 1, links=[late(1), other])
    text = json.loads(chain.model_dump_json(exclude_none=True))
    monkeypatch.setattr(client, "ask", lambda _url: text)
    grant: dict[str, Any] = {"party": "north", "url": "http://it.test"}
    grant |= {"identity_key": encode_binary(key(0)), "fingerprint": ""}
    if case == "second document":
        found = document(0, next=bytes(32))
        grant["document"] = json.loads(found.model_dump_json(exclude_none=True))
    state = {"coordinator": {"party": "demo"}, "aggregators": {"north": grant}}
    with pytest.raises(SystemExit, match="two"):
        client.follow(state, grant)


def test_a_second_successor_and_a_revocation_that_come_later_stop_the_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = load_client()
    grant: dict[str, Any] = {"party": "north", "url": "http://it.test"}
    grant |= {"identity_key": encode_binary(key(0)), "fingerprint": ""}
    state = {"coordinator": {"party": "demo"}, "aggregators": {"north": grant}}

    def follow(*links: SignedSuccession) -> None:
        text = json.loads(shown(0, 1, links=list(links)).model_dump_json(exclude_none=True))
        monkeypatch.setattr(client, "ask", lambda _url: text)
        client.follow(state, grant)

    follow(late(1))
    follow(late(1))  # it is the one that was followed
    assert grant["identity_key"] == encode_binary(key(1))
    with pytest.raises(SystemExit, match="two successors"):
        follow(late(1), late(1, document=document(1, next=bytes(32))))
    follow(late(1), late(2, document=document(1, key=THIEF)))  # leads on for nobody
    ended = late(2, document=None, revoked_by=PAIRS[2].public, overlap_until=PAST)
    with pytest.raises(SystemExit, match="has revoked its identity"):
        follow(late(1), ended)
