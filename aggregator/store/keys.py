"""Secrets, and the keys of epochs. A destroyed private key is erased (`common.store.erasure`)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime

from sqlalchemy import bindparam, delete, insert, select, update

from aggregator.store.rounds import LIVE
from aggregator.store.tables import epoch_keys, rounds, secrets
from common.store.erasure import to_erase
from common.store.transactions import Transaction


@dataclass(frozen=True)
class KeyPair:
    """The keys of an epoch; what is destroyed is None. A key of an earlier version has no
    verification secret. `signed`: the public key."""

    private_key: bytes | None
    verification_secret: bytes | None
    signed: str


_SECRET = select(secrets.c.value).where(secrets.c.name == bindparam("of_name"))


async def secret(transaction: Transaction, name: str) -> bytes | None:
    """A secret by its name."""
    found = await transaction.execute(_SECRET, {"of_name": name})
    value: bytes | None = found.scalar_one_or_none()
    return value


async def add_secret(transaction: Transaction, name: str, value: bytes) -> None:
    """Keep a secret under a new name."""
    await transaction.execute(insert(secrets).values(name=name, value=value))


async def epoch_key(transaction: Transaction, epoch: int) -> KeyPair | None:
    """The key pair of an epoch."""
    found = await transaction.execute(select(epoch_keys).where(epoch_keys.c.epoch == epoch))
    row = found.first()
    return None if row is None else KeyPair(row.private_key, row.verification_secret, row.signed)


async def add_epoch_key(transaction: Transaction, epoch: int, pair: KeyPair) -> None:
    """Keep the key pair of a new epoch."""
    await transaction.execute(insert(epoch_keys).values(epoch=epoch, **asdict(pair)))


async def sign_epoch_key(transaction: Transaction, epoch: int, signed: str) -> None:
    """Keep another signature of an epoch's key."""
    await transaction.execute(
        update(epoch_keys).where(epoch_keys.c.epoch == epoch).values(signed=signed)
    )


async def idle_epochs(transaction: Transaction, before: int) -> tuple[int, ...]:
    """Epochs below `before` that hold a private key and that no live round needs."""
    needed = select(rounds.c.own_epoch).where(rounds.c.state.in_(LIVE))
    found = await transaction.execute(
        select(epoch_keys.c.epoch).where(
            epoch_keys.c.epoch < before,
            epoch_keys.c.private_key.is_not(None),
            epoch_keys.c.epoch.not_in(needed),
        )
    )
    return tuple(int(epoch) for epoch in found.scalars())


async def held_epochs(transaction: Transaction) -> tuple[int, ...]:
    """All epochs that hold a private key."""
    found = await transaction.execute(
        select(epoch_keys.c.epoch).where(epoch_keys.c.private_key.is_not(None))
    )
    return tuple(int(epoch) for epoch in found.scalars())


async def replace_epoch_key(transaction: Transaction, epoch: int, pair: KeyPair) -> None:
    """Keep another key pair for an epoch, whose old one is destroyed."""
    await transaction.execute(delete(epoch_keys).where(epoch_keys.c.epoch == epoch))
    await add_epoch_key(transaction, epoch, pair)


async def destroy_epoch_key(transaction: Transaction, epoch: int, now: datetime) -> None:
    """Forget the private key of an epoch, and its verification secret."""
    await to_erase(transaction)
    await transaction.execute(
        update(epoch_keys)
        .where(epoch_keys.c.epoch == epoch)
        .values(private_key=None, verification_secret=None, destroyed=now)
    )
