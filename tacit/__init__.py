"""Tacit's library: the Python client, and everything that needs no network and no database.

`tacit.Client` and `tacit.AsyncClient` connect to a service. Beneath them, pure and usable alone:

    query        what a round computes: fields, sensitivity, encoding, mechanisms
    noise        exact integer noise            crypto      sharing, sealing, signing
    protocol     what parties sign and check    accounting  what a release costs
    report       the privacy report             encoders    a curator's half of a federated job
    paths        published paths                client      the clients' parts
    answers      answers of the API as models of the API
    validity     shares with a proof of their range (extra `proofs`)

Names are loaded when they are first used, so that `import tacit.noise` brings no HTTP client.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tacit.version import VERSION

if TYPE_CHECKING:
    from tacit.client.budget_objects import Budget
    from tacit.client.client import AsyncClient, Client
    from tacit.client.exchange import Retry
    from tacit.client.job_objects import Job, JobResult, Picture
    from tacit.client.jobs import JobNotSucceeded
    from tacit.client.objects import Round, show_progress
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
    from tacit.client.query_objects import AskedQuery, Comparison, Preview, Report, Result, price
    from tacit.client.rounds import RoundNotReleased
    from tacit.errors import Error, FieldsRefused, MissingExtra, NoDeployment
    from tacit.protocol.trust import TranscriptNotAnchored, Trust
    from tacit.query.query import Query

__all__ = [
    "AskedQuery",
    "AsyncClient",
    "Budget",
    "BudgetExceeded",
    "Client",
    "Comparison",
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
    "__version__",
    "price",
    "show_progress",
]

_PLACES: Final = {
    "client.budget_objects": ["Budget"],
    "client.client": ["AsyncClient", "Client"],
    "client.exchange": ["Retry"],
    "client.job_objects": ["Job", "JobResult", "Picture"],
    "client.jobs": ["JobNotSucceeded"],
    "client.objects": ["Round", "show_progress"],
    "client.query_objects": ["AskedQuery", "Comparison", "Preview", "Report", "Result", "price"],
    "client.rounds": ["RoundNotReleased"],
    "errors": ["Error", "FieldsRefused", "MissingExtra", "NoDeployment"],
    "protocol.trust": ["TranscriptNotAnchored", "Trust"],
    "query.query": ["Query"],
}
"""The modules of the names; all others are of `client.problems`."""
_PLACE: Final = {name: module for module, names in _PLACES.items() for name in names}

__version__ = VERSION


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"tacit.{_PLACE.get(name, 'client.problems')}"), name)
