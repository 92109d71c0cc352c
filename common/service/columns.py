"""Column types that mean the same in SQLite and PostgreSQL."""

from datetime import datetime

from sqlalchemy import BigInteger
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

from common.service.clock import epoch_microseconds, from_epoch_microseconds


class Instant(TypeDecorator[datetime]):
    """An aware UTC time kept as microseconds since 1970: exact, sortable, the same everywhere."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, _: Dialect) -> int | None:
        """To the database; a naive time is refused."""
        return None if value is None else epoch_microseconds(value)

    def process_result_value(self, value: int | None, _: Dialect) -> datetime | None:
        """From the database, aware, in UTC."""
        return None if value is None else from_epoch_microseconds(value)
