"""What tests of rotated identities share: a site with readings, pairs of keys, and forgeries.

Real coordinator, aggregators and curators.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from aggregator.context import Aggregator
from common.web.dependencies import part_of
from coordinator.registry.aggregators import Identities
from coordinator.store import registry as registry_store
from tacit.crypto.signing import HybridIdentity, fingerprint
from tacit.protocol.identities import (
    IDENTITY_LABEL,
    IdentityChain,
    Reason,
    Succession,
    commitment,
    succeed,
)
from tacit.query.disclosure import DisclosureRule
from tacit.wire import encode_binary
from tests.aggregator.double import Peer, Round
from tests.coordinator.double import WINDOW, problem, query
from tests.e2e.federation import Site
from tests.rules import RULE

KEYS = [HybridIdentity(bytes([40 + number]) * 64) for number in range(6)]
CHAIN = "/.well-known/tacit-aggregator/identity"


async def settled(it: Site) -> None:
    """Every aggregator pins the others; two curators have a reading."""
    it.house.settings = it.house.settings.model_copy(
        update={"exact_rule": DisclosureRule(min_participants=2)}
    )
    await it.house.restart()
    await it.agree(min_participants=1, allow_repeats=True, exact=RULE)
    for name in ("north", "south"):
        await it.enrol(name)
    items = [
        {"curator": name, "time": "2025-12-31T23:30:00Z", "value": "1.5", "unit": "kWh"}
        for name in ("north", "south")
    ]
    assert (await it.own("POST", "/v1/readings", items)).status_code == 200
    for peer, wire in zip(peers(it), it.house.wires, strict=True):
        peer.client.app = wire.app  # type: ignore[attr-defined]
    for name in ("late", "later"):  # rounds wait for them
        await it.house.enrol(it.house.federation.sender(name))
    documents = [await peer.client.get("/.well-known/tacit-aggregator") for peer in peers(it)]
    shown = {each.json()["id"]: each.json() for each in documents}
    for peer in peers(it):
        for name, other in shown.items():
            if name != peer.id:
                body = {
                    "id": name,
                    "operator": other["operator"],
                    "fingerprint": other["fingerprint_base64url"],
                }
                assert (await peer.ask("PUT", "/v1/peers", body)).status_code == 200


def peers(it: Site) -> list[Peer]:
    return it.house.federation.peers


async def commit(peer: Peer, key: HybridIdentity) -> dict[str, Any]:
    answer = await peer.ask("PUT", "/v1/identity/next", key.public)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def successor(peer: Peer, number: int, **changes: Any) -> httpx.Response:
    """Pair `number` becomes the identity; the next one follows."""
    body = {
        "secret": encode_binary(KEYS[number].to_bytes()),
        "following": KEYS[number + 1].public.model_dump(mode="json"),
        **changes,
    }
    return await peer.ask("POST", "/v1/identity/successor", body)


async def rotate(peer: Peer, number: int, **changes: Any) -> dict[str, Any]:
    answer = await successor(peer, number, **changes)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    assert found["key_fingerprint"] == fingerprint(KEYS[number].public.ed25519).hex()
    return found


def look_again(it: Site) -> None:
    """The coordinator's next look at the identities is now."""
    part_of(it.house.app, Identities)._checked.clear()


async def released(it: Site, opened: Any) -> dict[str, Any]:
    done = await it.house.finish(opened)
    assert done["state"] == "released", done
    return await it.house.result(opened)


def secrets_of(peer: Peer) -> int:
    """How many replaced identities an aggregator still could sign with."""
    return len(peer.part(Aggregator).identities.replaced())


async def opened(it: Site, name: str, deadline_s: int = 8) -> Round:
    return await it.house.open(query(name=name, deadline_s=deadline_s))


async def refused(it: Site, name: str) -> tuple[int, str]:
    """Why a round cannot be opened."""
    created = await it.house.ask("POST", "/v1/queries", query(name=name))
    body = {"query_id": created.json()["id"], "window": WINDOW}
    return problem(await it.house.ask("POST", "/v1/rounds", body))


async def coordinator_token(it: Site, peer: Peer) -> str:
    async with part_of(it.house.app, Identities).database.reading() as transaction:
        rows = await registry_store.list_aggregators(transaction)
    return next(row.token for row in rows if row.id == peer.id)


async def shown_by(peer: Peer) -> IdentityChain:
    return IdentityChain.model_validate_json((await peer.client.get(CHAIN)).content)


def forged(chain: IdentityChain, pair: HybridIdentity, old: HybridIdentity | None) -> Any:
    """A succession to a document of this pair, which commits to another pair than the owner's."""
    before = chain.documents[-1].statement
    document = before.model_copy(
        update={
            "serial": before.serial + 1,
            "ed25519": pair.public.ed25519,
            "mldsa65": pair.public.mldsa65,
            "next": commitment(KEYS[5].public),
        }
    )
    now = datetime.now(UTC).replace(microsecond=0)
    planned = old is not None
    statement = Succession(
        deployment="tacit",
        role=before.role,
        name=before.name,
        replaced=before.fingerprint,
        document=document,
        effective=now,
        overlap_until=now + timedelta(days=1) if planned else now,
        reason=Reason.PLANNED if planned else Reason.COMPROMISED,
    )
    return succeed(statement, pair, old)


def lied(chain: IdentityChain, pair: HybridIdentity, link: Any) -> Any:
    """The chain with that at its end."""
    new = pair.sign(IDENTITY_LABEL, link.statement.document)
    made = IdentityChain(documents=(*chain.documents, new), links=(*chain.links, link))
    return made.model_dump(mode="json", by_alias=True, exclude_none=True)
