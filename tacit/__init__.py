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
from typing import TYPE_CHECKING, Any

from tacit.version import VERSION

if TYPE_CHECKING:
    from tacit.client import *

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
    "__version__",
    "price",
    "show_progress",
]

__version__ = VERSION


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("tacit.client"), name)
