"""Keys that parties replaced, at a service that has parties on its roster.

Spec: keys, section 5.2. The key of now is on the roster itself. A row here is a key that was there,
the link that replaced it, and until when sessions that it signed are accepted.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import Column, LargeBinary, MetaData, String, Table, Text, delete, insert, select

from common.store.columns import Instant
from common.store.transactions import Transaction
from tacit.protocol.party_identities import PartyChain, SignedPartySuccession, follow_party


@dataclass(frozen=True)
class ReplacedKey:
    """An Ed25519 key that a party had; `until`: sessions that it signed are accepted."""

    identity_key: bytes
    link: SignedPartySuccession
    until: datetime


_NAME: Final = "replaced_party_key"


def replaced_key_table(metadata: MetaData) -> Table:
    """The table `replaced_party_key`, added to a service's own metadata."""
    return Table(
        _NAME,
        metadata,
        Column("party", String(128), primary_key=True),
        Column("identity_key", LargeBinary(32), primary_key=True),
        Column("link", Text, nullable=False),
        Column("until", Instant, nullable=False),
    )


async def replaced_keys(
    transaction: Transaction, table: Table, party: str
) -> tuple[ReplacedKey, ...]:
    """All keys that a party had before, in no order."""
    found = await transaction.execute(select(table).where(table.c.party == party))
    return tuple(
        ReplacedKey(
            row.identity_key, SignedPartySuccession.model_validate_json(row.link), row.until
        )
        for row in found
    )


async def follow(
    transaction: Transaction,
    table: Table,
    deployment: str,
    party: str,
    held: bytes,
    shown: PartyChain,
    now: datetime,
) -> bytes:
    """Keep the links that lead on from the key on the roster; the key of now, for the roster.

    Raises as `follow_party`.
    """
    known = await replaced_keys(transaction, table, party)
    followed = {each.identity_key: each.link.statement.identity_key for each in known}
    links = follow_party(deployment, party, held, followed, shown, now)
    for link in links:
        await transaction.execute(
            insert(table).values(
                party=party,
                identity_key=held,
                link=link.model_dump_json(),
                until=link.statement.overlap_until,
            )
        )
        held = link.statement.identity_key
    return held


async def forget_replaced(transaction: Transaction, table: Table, party: str) -> None:
    """Forget what a party had before: it left, or enrolled again."""
    await transaction.execute(delete(table).where(table.c.party == party))
