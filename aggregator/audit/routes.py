"""The route of the noise audit, for the operator of this aggregator alone."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, FastAPI
from fastapi import Query as Parameter

from aggregator.audit import audit
from aggregator.context import Aggregator
from aggregator.web import Operator
from common.web.bodies import gives
from common.web.parts import part
from tacit.answers.aggregators import NoiseAudit

Alpha = Annotated[
    float,
    Parameter(
        ge=1e-200,  # it is divided by curators and looks, and has to stay a number
        lt=1,
        description="The chance, in (0, 1), that an honest deployment ever sees anybody proposed "
        "for missing noise: it is divided among all curators and all looks. Of several, the "
        "largest counts.",
    ),
]


def add_audit(app: FastAPI) -> None:
    """Add it to the app."""

    @app.get(
        "/v1/audit/noise",
        **gives(NoiseAudit),
        tags=["audit"],
        summary="Who may add no noise, or stands far out, in local rounds: proposals only",
    )
    async def audit_noise(
        aggregator: Annotated[Aggregator, Depends(part(Aggregator))],
        _: Operator,
        alpha: Alpha = 0.05,
    ) -> dict[str, Any]:
        return await audit.look(aggregator, alpha)
