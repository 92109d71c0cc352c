"""Real services for those who attack them."""

from tests.aggregator.conftest import alliance, pair
from tests.coordinator.conftest import house

__all__ = ["alliance", "house", "pair"]
