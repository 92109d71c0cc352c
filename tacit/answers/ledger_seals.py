"""Answers about the ledger's heads as the coordinator sealed them."""

from __future__ import annotations

from tacit.answers.base import Answer
from tacit.protocol.trust import ShownLedgerSeal


class DaySeal(ShownLedgerSeal):
    """The ledger's head of a day, counted from 1970, sealed."""

    day: int


class LedgerSeals(Answer):
    """A page of seals, the oldest first."""

    seals: list[DaySeal]
