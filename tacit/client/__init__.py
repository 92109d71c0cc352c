"""The Python client of the three services: `Client`, and `AsyncClient` with the same calls.

client      both clients, how they connect, and calls that every service accepts
exchange    requests with retries, long polls, and the calls that both clients share
objects     answers for notebooks: tables, data frames, plots
problems    problem documents as exceptions
curator, jobs, registry, rounds    the calls of one part of the API each; the budget is in registry
"""

from tacit.client.client import AsyncClient, Client
from tacit.client.exchange import Retry
from tacit.client.jobs import JobNotSucceeded
from tacit.client.objects import (
    AskedQuery,
    Budget,
    Job,
    JobResult,
    Picture,
    Preview,
    Report,
    Result,
    Round,
    price,
    show_progress,
)
from tacit.client.problems import (
    BudgetExceeded,
    Conflict,
    FieldProblem,
    Forbidden,
    Gone,
    Invalid,
    KeyReused,
    Malformed,
    NoAnswer,
    NotFinished,
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
from tacit.errors import Error, FieldsRefused, MissingExtra, NoDeployment
from tacit.query.query import Query

__all__ = [
    "AskedQuery",
    "AsyncClient",
    "Budget",
    "BudgetExceeded",
    "Client",
    "Conflict",
    "Error",
    "FieldProblem",
    "FieldsRefused",
    "Forbidden",
    "Gone",
    "Invalid",
    "Job",
    "JobNotSucceeded",
    "JobResult",
    "KeyReused",
    "Malformed",
    "MissingExtra",
    "NoAnswer",
    "NoDeployment",
    "NotFinished",
    "NotFound",
    "NotReleased",
    "Picture",
    "Preview",
    "Problem",
    "Query",
    "Report",
    "Result",
    "Retry",
    "Round",
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
    "price",
    "show_progress",
]
