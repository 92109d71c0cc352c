"""A store of before a replacement is no store to start from. Spec: keys, section 5.2."""

from __future__ import annotations

from itertools import pairwise

import pytest

from common.identity.own_identity import shown
from common.runtime.clock import SystemClock
from common.store.identities import continue_by, identities
from common.store.own_identities import SerialFile
from common.store.transactions import Database
from common.web.app import StartFailed
from common.web.dependencies import part_of
from coordinator.registry.members import Registry
from coordinator.store.tables import identities as table
from tacit.crypto.signing import HybridIdentity
from tacit.protocol.identities import IdentityChain, KeyNotAnchored, SuccessionRefused
from tacit.wire import encode_binary
from tests.coordinator.conftest import Houses

KEYS = [HybridIdentity(bytes([90 + number]) * 64) for number in range(3)]
NEXT = KEYS[0].public.model_dump(mode="json")
BODY = {
    "secret": encode_binary(KEYS[0].to_bytes()),
    "following": KEYS[1].public.model_dump(mode="json"),
}


async def test_a_store_of_before_a_replacement_does_not_start(house: Houses) -> None:
    """The coordinator's database, put back under a directory that knows better."""
    async with house(0) as it:
        assert (await it.ask("PUT", "/v1/identity/next", NEXT)).status_code == 200
        await it.stop()
        folder = it.settings.data_dir
        before = {path.name: path.read_bytes() for path in folder.glob("*.db*")}
        await it.start()
        answer = await it.ask("POST", "/v1/identity/successor", BODY)
        assert answer.status_code == 200, answer.text
        await it.restart()  # the newer one starts
        await it.stop()
        newer = {path.name: path.read_bytes() for path in folder.glob("*.db*")}
        for path in folder.glob("*.db*"):
            path.unlink()
        for name, content in before.items():
            (folder / name).write_bytes(content)
        with pytest.raises(StartFailed, match="identity_superseded"):
            await it.start()
        for name, content in newer.items():
            (folder / name).write_bytes(content)
        await it.start()
        assert SerialFile(folder / "identity.serial").read() == 1


async def test_a_store_of_before_goes_on_by_the_pair_that_replaced_it(house: Houses) -> None:
    """Two replacements after the copy: what others followed is the identity again, signed anew by
    nobody."""
    async with house(0) as it:
        database = part_of(it.app, Database)
        async with database.begin() as transaction:
            before = await identities(transaction, table)
        assert before[0].document is None  # a key alone, as it was before the first commitment
        await it.ask("PUT", "/v1/identity/next", NEXT)
        for pair, following in pairwise(KEYS):
            body = {
                "secret": encode_binary(pair.to_bytes()),
                "following": following.public.model_dump(mode="json"),
            }
            assert (await it.ask("POST", "/v1/identity/successor", body)).status_code == 200
        chain = await shown(part_of(it.app, Registry).own)
        async with database.begin() as transaction:
            newest = await identities(transaction, table)

        async def put_back() -> None:
            async with database.begin() as transaction:
                await transaction.execute(table.delete())
                await transaction.execute(table.insert().values(serial=0, secret=before[0].secret))

        async def going_on(chain: IdentityChain, pair: HybridIdentity) -> None:
            async with database.begin() as transaction:
                await continue_by(transaction, table, chain, pair, SystemClock().now())

        await put_back()
        with pytest.raises(KeyNotAnchored):  # not the last one's
            await going_on(chain, KEYS[0])
        with pytest.raises(KeyNotAnchored):
            await going_on(chain.model_copy(update={"links": ()}), KEYS[1])
        false = chain.links[1].model_copy(update={"signature": chain.links[0].signature})
        with pytest.raises(SuccessionRefused):
            await going_on(chain.model_copy(update={"links": (chain.links[0], false)}), KEYS[1])
        await going_on(chain, KEYS[1])
        async with database.begin() as transaction:
            found = await identities(transaction, table)
        assert found == newest
        await it.restart()
        assert part_of(it.app, Registry).own.serial == 2
        document = (await it.client.get("/.well-known/tacit-coordinator")).json()
        assert document["identity_key"] == encode_binary(KEYS[1].public.ed25519)
        # and again from the middle
        await put_back()
        await going_on(chain.model_copy(update={"links": chain.links[:1]}), KEYS[0])
        await going_on(chain, KEYS[1])
        async with database.begin() as transaction:
            assert await identities(transaction, table) == newest
