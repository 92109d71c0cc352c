"""A curator service in a world of doubles: the fixtures of its own tests."""

from tests.curator.conftest import site as site
from tests.curator.conftest import world as world
