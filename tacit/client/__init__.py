"""The Python client of the three services: `Client`, and `AsyncClient` with the same calls.

client         both clients: their parts, how they connect
exchange       one request and its answer, with retries; blocking or on an event loop
operation      a call as a generator of requests, written once for both clients
problems       problem documents as exceptions
plain          answers as plain values
watching       long polls
readings, registry, queries, rounds, budget, datasets, jobs    one part of the API each
"""

from tacit.client.client import AsyncClient, Client
from tacit.client.exchange import Retry
from tacit.client.problems import (
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
    RoundExpired,
    ServiceFailed,
    TooLarge,
    TooMany,
    TooSlow,
    Unauthenticated,
    Unavailable,
    UnsupportedForm,
)
from tacit.client.rounds import RoundNotReleased, TranscriptNotAnchored, Trust

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
    "RoundExpired",
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
