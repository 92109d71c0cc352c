"""A service's own identities: committed to, replaced and destroyed, each in one transaction."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest
from sqlalchemy import MetaData, text
from sqlalchemy.schema import CreateTable

from common.store.database import open_database
from common.store.erasure import Erasure
from common.store.identities import (
    NextKeyCommitted,
    OwnIdentity,
    Replacement,
    SecretGone,
    chain_of,
    commit_next,
    destroy_identity,
    first_identity,
    identities,
    identity_table,
    replace,
)
from common.store.transactions import Database
from tacit.crypto.signing import HybridIdentity
from tacit.protocol.identities import (
    KeyChangeUnconfirmed,
    Pin,
    Reason,
    Role,
    SuccessionRefused,
)

NOW: Final = datetime(2031, 5, 1, tzinfo=UTC)
WEEK: Final = timedelta(days=7)
NEXT, LATER, LAST, THIEF = (HybridIdentity(bytes([number]) * 64) for number in range(1, 5))
TABLE: Final = identity_table(MetaData())


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = open_database(f"sqlite:///{tmp_path / 'store.db'}")
    async with opened.begin() as transaction:
        await transaction.execute(text(str(CreateTable(TABLE))))
        await first_identity(transaction, TABLE)
    yield opened
    await opened.dispose()


async def held(database: Database) -> tuple[OwnIdentity, ...]:
    async with database.reading() as transaction:
        return await identities(transaction, TABLE)


async def commit(database: Database, following: HybridIdentity) -> None:
    async with database.begin() as transaction:
        await commit_next(transaction, TABLE, Role.AGGREGATOR, "north", following.public)


def planned(successor: HybridIdentity, following: HybridIdentity) -> Replacement:
    return Replacement(successor, following.public, Reason.PLANNED, WEEK)


async def rotate(database: Database, asked: Replacement) -> OwnIdentity:
    async with database.begin() as transaction:
        return await replace(transaction, TABLE, "demo", asked, NOW)


async def test_the_first_key_stays_with_its_document_and_others_can_follow_it(
    database: Database,
) -> None:
    [first] = await held(database)
    assert (first.serial, first.document, chain_of((first,))) == (0, None, None)
    pin = Pin(fingerprint=first.signer.fingerprint)
    await commit(database, NEXT)
    [upgraded] = await held(database)
    assert upgraded.public_key == first.public_key
    chain = chain_of((upgraded,))
    assert chain is not None
    pin = pin.follow("demo", chain, NOW, Role.AGGREGATOR, "north")
    new = await rotate(database, planned(NEXT, LATER))
    assert (new.serial, new.public_key) == (1, NEXT.public.ed25519)
    last = await rotate(database, planned(LATER, LAST))
    both = await held(database)
    assert [each.until for each in both] == [NOW + WEEK, NOW + WEEK, None]
    chain = chain_of(both)
    assert chain is not None
    pin = pin.follow("demo", chain, NOW, Role.AGGREGATOR, "north")
    for key in (first.public_key, new.public_key, last.public_key):
        pin.check_key(key, NOW)


async def test_the_same_again_changes_nothing_and_another_is_refused(database: Database) -> None:
    await commit(database, NEXT)
    before = await held(database)
    await commit(database, NEXT)
    assert await held(database) == before
    with pytest.raises(NextKeyCommitted):
        await commit(database, THIEF)
    with pytest.raises(SuccessionRefused):
        await rotate(database, planned(THIEF, LATER))
    assert await held(database) == before
    new = await rotate(database, planned(NEXT, LATER))
    after = await held(database)
    assert await rotate(database, planned(NEXT, LATER)) == new
    with pytest.raises(NextKeyCommitted):
        await rotate(database, planned(NEXT, THIEF))
    with pytest.raises(NextKeyCommitted):
        await commit(database, THIEF)
    assert await held(database) == after


async def test_an_identity_without_a_commitment_is_not_replaced(database: Database) -> None:
    with pytest.raises(KeyChangeUnconfirmed):
        await rotate(database, planned(NEXT, LATER))


async def test_what_is_destroyed_is_in_no_file_and_the_chain_stays(
    database: Database, tmp_path: Path
) -> None:
    await commit(database, NEXT)
    asked = Replacement(NEXT, LATER.public, Reason.COMPROMISED)
    [stolen] = await held(database)
    assert stolen.secret is not None
    await rotate(database, asked)
    async with database.begin() as transaction:
        await destroy_identity(transaction, TABLE, 1, NOW)  # the one of now
        await destroy_identity(transaction, TABLE, 0, NOW)
    assert await Erasure(database).erase()
    old, new = await held(database)
    assert (old.secret, old.public_key, old.until) == (None, stolen.public_key, NOW)
    with pytest.raises(SecretGone):
        _ = old.signer
    assert new.secret == NEXT.to_bytes()
    for path in tmp_path.iterdir():
        assert stolen.secret not in path.read_bytes()
        assert stolen.secret[:32] not in path.read_bytes()
    shown = chain_of((old, new))
    assert shown is not None and len(shown.documents) == 2
