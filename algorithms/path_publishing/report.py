"""What is true of a run's privacy, for each mode. Made of public parameters alone.

Spec: path-publishing, sections 4 and 9; jobs, "Privacy report".
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

from algorithms.contract import Stance
from algorithms.path_publishing import statements as say
from algorithms.path_publishing.parameters import (
    Mode,
    PathPublishingParameters,
    check_parameters,
)
from algorithms.path_publishing.report_graph_path import graph_path_parts
from algorithms.path_publishing.report_parts import Parts
from algorithms.path_publishing.report_sound import (
    complement_parts,
    randomized_parts,
    sealed_parts,
)
from common.models.base import format_exact
from common.models.report import (
    AccountingStatement,
    MechanismStatement,
    PrivacyReport,
    Subject,
)
from common.report.figures import ACCOUNTING_VERSION

NAME: Final = "path-publishing"
VERSION: Final = "1"


def path_report(params: PathPublishingParameters, stance: Stance) -> PrivacyReport:
    """The report of a run, planned or done. Raises what `check_parameters` raises."""
    mode = check_parameters(params, stance)
    parts = _OF_MODE[mode](params)
    evaluated = params.evaluate and mode != "sealed"
    caveats = parts.caveats
    if evaluated or mode == "graph-path":
        caveats += (say.EVALUATION,)
    return PrivacyReport(
        subject=Subject(kind="job", id="", algorithm=NAME, version=VERSION),
        stance=stance,
        mechanism=MechanismStatement(name=parts.mechanism, parameters=_shown(params, mode)),
        privacy_unit=parts.unit,
        neighbouring=parts.neighbouring,
        claimed=parts.claimed,
        verified=parts.verified,
        charged=parts.charged,
        noise=parts.noise,
        sampler_delta="0" if parts.exact else None,
        sampler_epsilon="0" if parts.exact else None,
        accounting=AccountingStatement(
            method=parts.accounting,
            library="tacit algorithms.path_publishing",
            version=ACCOUNTING_VERSION,
        ),
        public_parameters=parts.public,
        not_protected=parts.discloses,
        source_defects=parts.defects,
        voided_by=parts.voided_by,
        assumptions=(*parts.assumptions, say.TRUSTED),
        caveats=caveats,
        evaluation_attached=evaluated or mode == "graph-path",
        error=parts.error,
        details={"mode": mode, **parts.details},
    )


def _shown(params: PathPublishingParameters, mode: Mode) -> dict[str, Any]:
    def exact(value: Fraction | str | None) -> str | None:
        return format_exact(value) if isinstance(value, Fraction) else value

    match mode:
        case "graph-path":
            return {
                "epsilon_v": exact(params.epsilon_v),
                "epsilon_e": exact(params.epsilon_e),
                "split": params.split,
                "search_budget": params.search_budget,
            }
        case "complement":
            return {"epsilon_dir": exact(params.epsilon_dir), "layout": params.layout}
        case "randomized":
            return {"epsilon": exact(params.epsilon), "epsilon_dir": exact(params.epsilon_dir)}
        case "sealed":
            return {"recipients": len(params.recipients)}


_OF_MODE: Final[dict[Mode, Callable[[PathPublishingParameters], Parts]]] = {
    "graph-path": graph_path_parts,
    "complement": complement_parts,
    "randomized": randomized_parts,
    "sealed": sealed_parts,
}
