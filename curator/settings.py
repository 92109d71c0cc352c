"""Settings of a curator service: one process, any number of curators."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from common.service.settings import ServiceSettings


class CuratorSettings(ServiceSettings):
    """What a curator service can be told beside what every service can."""

    service: ClassVar[str] = "curator"

    port: int = Field(default=8400, ge=0, le=65535, description="Port to listen on.")
    participate: bool = Field(
        default=True,
        description="Look for rounds and contribute; off, the service only takes readings.",
    )
    send_window_share: float = Field(
        default=0.8,
        ge=0,
        le=1,
        description="The moment of sending is drawn from this share of a round's remaining open "
        "time. 0 sends at once: for demonstrations and benchmarks, as it shows when drawing ended.",
    )
    prepare_lead_s: float = Field(
        default=2.0,
        ge=0,
        description="How long before its moment of sending a contribution is drawn, so that the "
        "time that drawing takes does not show.",
    )
    poll_wait_s: float = Field(
        default=20.0, ge=0, le=30, description="Long poll for open rounds: seconds to wait."
    )
    retry_s: float = Field(
        default=2.0, gt=0, description="Pause before an unreachable service is asked again."
    )
    peer_timeout_s: float = Field(
        default=30.0, gt=0, description="Longest wait for an answer of another service."
    )
    deliver_grace_s: float = Field(
        default=3600.0,
        ge=0,
        description="How long after a round's deadline delivery is still tried.",
    )
    settle_after_s: float = Field(
        default=5.0, ge=0, description="Pause between questions about how a round ended."
    )
    requests_per_aggregator: int = Field(
        default=2, ge=1, le=16, description="Uploads in flight to one aggregator."
    )
    key_epoch_s: int = Field(
        default=86_400,
        ge=60,
        description="Age at which a party's sealing key is replaced by a new one.",
    )
    future_tolerance_s: float = Field(
        default=300.0, ge=0, description="How far in the future a reading's time may lie."
    )
    allow_corrections: bool = Field(
        default=True,
        description='Let an item with `"correction": true` replace a stored reading. What was '
        "contributed before stays as it was.",
    )
    max_items: int = Field(
        default=50_000, ge=1, description="Most readings in one request (imports have no limit)."
    )
    max_values: int = Field(
        default=65_536, ge=1, description="Longest vector in one reading's `values`."
    )
    import_max_body_bytes: int = Field(
        default=512 * 1024 * 1024, gt=0, description="Largest file that is imported, as sent."
    )
    import_max_plain_bytes: int = Field(
        default=8 * 1024 * 1024 * 1024, gt=0, description="Largest file after decompression."
    )
    import_max_ratio: int = Field(
        default=200, ge=1, description="Most bytes that one compressed byte may stand for."
    )
    import_max_errors: int = Field(
        default=1000, ge=0, description="Row errors that an import lists; all are counted."
    )
    policy_period_s: int = Field(
        default=86_400, ge=60, description="Budget period, until an operator sets a policy."
    )
    policy_epsilon: str = Field(
        default="10",
        pattern=r"^\d{1,9}(\.\d{1,6})?$",
        description="Epsilon per period and privacy unit, until an operator sets a policy.",
    )
    policy_delta: str = Field(
        default="0.0001",
        pattern=r"^(0|1|0?\.\d{1,15})$",
        description="Delta per period and privacy unit, until an operator sets a policy.",
    )
    policy_allow_unverified: bool = Field(
        default=False,
        description="Take part in rounds without a verified figure (`paper`, `exact`) until an "
        "operator sets a policy. For rehearsals.",
    )
