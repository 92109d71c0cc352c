"""Column types that mean the same in SQLite and PostgreSQL."""

from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import BigInteger
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

from common.runtime.clock import EPOCH, epoch_microseconds

NAMES: Final = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}
"""How indexes and constraints of every service are named, so that a migration can find them."""


class Instant(TypeDecorator[datetime]):
    """An aware UTC time kept as microseconds since 1970: exact, sortable, the same everywhere."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, _: Dialect) -> int | None:
        """To the database; a naive time is refused."""
        return None if value is None else epoch_microseconds(value)

    def process_result_value(self, value: int | None, _: Dialect) -> datetime | None:
        """From the database, aware, in UTC."""
        return None if value is None else EPOCH + timedelta(microseconds=value)
