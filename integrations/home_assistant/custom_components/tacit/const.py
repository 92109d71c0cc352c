"""Names of the integration."""

from datetime import timedelta
from typing import Final

DOMAIN: Final = "tacit"
CONF_CURATOR: Final = "curator"
CONF_METERS: Final = "meters"

STATEMENT_EVERY: Final = timedelta(minutes=5)
SEND_EVERY: Final = timedelta(minutes=5)
MOST_WAITING: Final = 5_000
"""Readings that wait for the curator. Of a counter the newest total covers all before."""
AT_ONCE: Final = 500
