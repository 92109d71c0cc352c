"""Real services for those who attack them."""

from tests.aggregator.conftest import alliance, pair
from tests.coordinator.conftest import house
from tests.curator.conftest import site, world
from tests.e2e.conftest import deviating, homes

__all__ = ["alliance", "deviating", "homes", "house", "pair", "site", "world"]
