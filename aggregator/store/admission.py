"""Who may speak and who may join: the one paired coordinator, and the grants."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from aggregator.store.tables import coordinators, grants, tokens
from common.models.enrolment import PartyKind
from common.service.tokens import Scope


@dataclass(frozen=True)
class CoordinatorRow:
    deployment: str
    identity_key: bytes


@dataclass(frozen=True)
class GrantRow:
    party: str
    kind: PartyKind
    max_curators: int
    expires: datetime
    used: datetime | None


# --- coordinator ---------------------------------------------------------------------------------


async def coordinator(connection: AsyncConnection) -> CoordinatorRow | None:
    """The coordinator that this aggregator is paired with."""
    row = (await connection.execute(select(coordinators))).first()
    return None if row is None else CoordinatorRow(row.deployment, row.identity_key)


async def put_coordinator(connection: AsyncConnection, row: CoordinatorRow, now: datetime) -> None:
    """Pair with a coordinator, in place of any other."""
    await connection.execute(delete(coordinators))
    await connection.execute(
        insert(coordinators).values(
            id=1, deployment=row.deployment, identity_key=row.identity_key, paired=now
        )
    )


async def remove_coordinator(connection: AsyncConnection) -> bool:
    """Be paired with nobody; whether there was a coordinator."""
    done = await connection.execute(delete(coordinators))
    return done.rowcount > 0


async def end_scope(
    connection: AsyncConnection, scope: Scope, now: datetime, overlap: timedelta = timedelta()
) -> None:
    """Revoke all tokens that were made for one scope, or let them end after an overlap."""
    valid = tokens.c.scopes == scope.value, tokens.c.revoked.is_(None)
    if not overlap:
        await connection.execute(update(tokens).where(*valid).values(revoked=now))
        return
    end = now + overlap
    longer = or_(tokens.c.expires.is_(None), tokens.c.expires > end)
    await connection.execute(update(tokens).where(*valid, longer).values(expires=end))


# --- grants --------------------------------------------------------------------------------------


async def add_grant(connection: AsyncConnection, secret_hash: str, row: GrantRow) -> None:
    """Keep the hash of a one-time secret."""
    await connection.execute(
        insert(grants).values(
            secret_hash=secret_hash,
            party=row.party,
            kind=row.kind.value,
            max_curators=row.max_curators,
            expires=row.expires,
        )
    )


async def grant(connection: AsyncConnection, secret_hash: str) -> GrantRow | None:
    """The grant of a secret, used or not."""
    found = await connection.execute(select(grants).where(grants.c.secret_hash == secret_hash))
    row = found.first()
    if row is None:
        return None
    return GrantRow(row.party, PartyKind(row.kind), row.max_curators, row.expires, row.used)


async def use_grant(connection: AsyncConnection, secret_hash: str, now: datetime) -> bool:
    """Mark a grant as used; whether it was still unused."""
    done = await connection.execute(
        update(grants)
        .where(grants.c.secret_hash == secret_hash, grants.c.used.is_(None))
        .values(used=now)
    )
    return done.rowcount == 1


async def forget_grants(connection: AsyncConnection, before: datetime) -> None:
    """Drop grants that expired before an instant."""
    await connection.execute(delete(grants).where(grants.c.expires < before))
