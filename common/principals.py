"""Who calls, and what they may do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tacit.errors import Forbidden


class Scope(StrEnum):
    """What the holder of a token may be taken for."""

    OPERATOR = "operator"
    ANALYST = "analyst"
    CURATOR = "curator"
    AGGREGATOR = "aggregator"
    DEVICE = "device"
    COORDINATOR = "coordinator"


class ScopeMissing(Forbidden):
    """The token is valid and may not do this."""

    name = "scope_missing"
    title = "The token lacks the scope for this"


@dataclass(frozen=True, slots=True)
class Principal:
    """The authenticated caller. `scopes` includes those implied."""

    token_id: str
    scopes: frozenset[Scope]
    subject: str | None = None

    def has(self, *scopes: Scope) -> bool:
        """Whether any of the scopes is held."""
        return not self.scopes.isdisjoint(scopes)

    def demand(self, *scopes: Scope) -> None:
        """Raise `ScopeMissing` unless any of the scopes is held."""
        if not self.has(*scopes):
            raise ScopeMissing(extra={"required_scopes": sorted(scopes)})
