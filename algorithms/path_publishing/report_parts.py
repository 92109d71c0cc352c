"""What the report of a mode is made of. Spec: path-publishing, section 9."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from algorithms.path_publishing.coins import wrong_threshold
from algorithms.path_publishing.parameters import PathPublishingParameters
from common.models.report import (
    Charge,
    Claim,
    Neighbouring,
    NoiseStatement,
    Unit,
    VerifiedStatement,
)
from common.report.figures import amount, epsilon_amount


@dataclass(frozen=True)
class Parts:
    """What differs from mode to mode."""

    mechanism: str
    unit: Unit | None
    neighbouring: Neighbouring | None
    verified: tuple[VerifiedStatement, ...]
    charged: Charge
    discloses: tuple[str, ...]
    assumptions: tuple[str, ...]
    caveats: tuple[str, ...]
    voided_by: tuple[str, ...]
    accounting: str
    claimed: Claim | None = None
    noise: tuple[NoiseStatement, ...] = ()
    defects: tuple[str, ...] = ()
    error: dict[str, Any] | None = None
    details: dict[str, Any] = field(default_factory=dict)
    public: tuple[str, ...] = ("every parameter of the job",)
    exact: bool = True


def charge(unit: Unit, cost: Fraction) -> Charge:
    return Charge(
        ledger="dataset",
        privacy_unit=unit,
        epsilon=epsilon_amount(cost),
        delta="0",
        reserved=epsilon_amount(cost),
    )


def direction_noise(params: PathPublishingParameters) -> tuple[NoiseStatement, ...]:
    if params.epsilon_dir is None:
        return ()
    wrong = Fraction(wrong_threshold(params.epsilon_dir), 1 << 64)
    return (
        NoiseStatement(
            layer="coordinator",
            distribution="randomised response",
            part="direction of the path: wrong with this probability",
            probability=amount(wrong),
            draws=1,
        ),
    )


def direction_error(params: PathPublishingParameters) -> str:
    if params.epsilon_dir is None:
        return "not told"
    return f"wrong with probability {1 / (1 + math.exp(float(params.epsilon_dir))):.3g}"
