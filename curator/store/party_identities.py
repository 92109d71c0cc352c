"""Identities that follow those of the parties: links that were made, and the next private key of a
party until every service knows it.

Spec: keys, section 5.2. The private key of now is the party's own; that before is overwritten.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlalchemy import delete, func, insert, select, update

from common.store.erasure import to_erase
from common.store.transactions import Transaction
from curator.store.tables import parties, party_identities
from tacit.protocol.party_identities import PartyChain, SignedPartySuccession


@dataclass(frozen=True)
class NextIdentity:
    """What follows a party's identity: the link, and its private key until it is in use."""

    party: str
    serial: int
    link: SignedPartySuccession
    secret: bytes | None = field(repr=False)


async def waiting(transaction: Transaction) -> tuple[NextIdentity, ...]:
    """What follows parties' identities, and is not known to all their services yet; by party."""
    query = select(party_identities).where(party_identities.c.shown.is_(False))
    found = await transaction.execute(query.order_by(party_identities.c.party))
    return tuple(
        NextIdentity(
            row.party, row.serial, SignedPartySuccession.model_validate_json(row.link), row.secret
        )
        for row in found
    )


async def last_serial(transaction: Transaction, party: str) -> int:
    """How often a party's identity was replaced."""
    query = select(func.max(party_identities.c.serial)).where(party_identities.c.party == party)
    return int((await transaction.execute(query)).scalar_one() or 0)


async def add_next(transaction: Transaction, found: NextIdentity) -> None:
    """Keep what follows, before anybody is shown it."""
    await transaction.execute(
        insert(party_identities).values(
            party=found.party,
            serial=found.serial,
            link=found.link.model_dump_json(),
            secret=found.secret,
            shown=False,
        )
    )


async def chain(transaction: Transaction, party: str) -> PartyChain:
    """All links of a party, the oldest first; it has one at least."""
    query = select(party_identities.c.link).where(party_identities.c.party == party)
    found = await transaction.execute(query.order_by(party_identities.c.serial))
    links = (SignedPartySuccession.model_validate_json(link) for link in found.scalars())
    return PartyChain(links=tuple(links))


async def mark_shown(transaction: Transaction, found: NextIdentity) -> None:
    """All services know it."""
    table = party_identities
    mine = (table.c.party == found.party) & (table.c.serial == found.serial)
    await transaction.execute(update(table).where(mine).values(shown=True))


async def put_in_use(transaction: Transaction, found: NextIdentity) -> None:
    """The next identity is the party's now; the private key before is destroyed."""
    await to_erase(transaction)
    await transaction.execute(
        update(parties).where(parties.c.id == found.party).values(identity=found.secret)
    )
    await transaction.execute(
        update(party_identities).where(party_identities.c.party == found.party).values(secret=None)
    )


async def forget(transaction: Transaction, party: str) -> None:
    """Forget all links of a party: it enrols again."""
    await transaction.execute(delete(party_identities).where(party_identities.c.party == party))
