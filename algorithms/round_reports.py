"""The privacy report of an algorithm that runs over curators, by rounds.

Spec: jobs, "Privacy report"; federated-counting, section 10.
"""

from __future__ import annotations

from typing import Final

from tacit.report.model import PrivacyReport

TRUST: Final = (
    "at most as many corrupt aggregators as the federation declares; coordinator and other "
    "curators are not trusted with privacy"
)
_CENTRAL: Final = ("The coordinator keeps the", "The column with the role curator")


def by_rounds(report: PrivacyReport) -> PrivacyReport:
    """Without what is said of a job on stored rows, which the coordinator holds."""
    mechanism = report.mechanism
    assert not isinstance(mechanism, str)
    kept = tuple(item for item in report.assumptions if not item.startswith(_CENTRAL))
    return report.model_copy(
        update={
            "mechanism": mechanism.model_copy(update={"name": f"{mechanism.name}, by rounds"}),
            "assumptions": kept,
            "details": {**report.details, "trust": TRUST},
        }
    )
