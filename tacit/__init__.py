"""Tacit's Python client."""

from tacit.client import AsyncClient, Client
from tacit.exchange import Retry
from tacit.problems import (
    BudgetExceeded,
    Conflict,
    FieldProblem,
    Forbidden,
    Gone,
    Invalid,
    KeyReused,
    Malformed,
    NotFound,
    NotReleased,
    Problem,
    RoundClosed,
    ServiceFailed,
    TooLarge,
    TooMany,
    TooSlow,
    Unauthenticated,
    Unavailable,
    UnsupportedForm,
)
from tacit.rounds import RoundNotReleased, TranscriptNotAnchored, Trust

__all__ = [
    "AsyncClient",
    "BudgetExceeded",
    "Client",
    "Conflict",
    "FieldProblem",
    "Forbidden",
    "Gone",
    "Invalid",
    "KeyReused",
    "Malformed",
    "NotFound",
    "NotReleased",
    "Problem",
    "Retry",
    "RoundClosed",
    "RoundNotReleased",
    "ServiceFailed",
    "TooLarge",
    "TooMany",
    "TooSlow",
    "TranscriptNotAnchored",
    "Trust",
    "Unauthenticated",
    "Unavailable",
    "UnsupportedForm",
]
