"""Settings of the coordinator."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from common.service.settings import ServiceSettings


class CoordinatorSettings(ServiceSettings):
    """What the coordinator can be told beside what every service can."""

    service: ClassVar[str] = "coordinator"

    deployment: str = Field(
        default="tacit",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$",
        description="Name of the deployment; it stands in every round descriptor.",
    )
    port: int = Field(default=8200, ge=0, le=65535, description="Port to listen on.")
    insecure_allow_exact: bool = Field(
        default=False,
        description="Allow mechanism `exact`, which adds no noise. Results are stamped as without "
        "privacy. For rehearsals on synthetic data only.",
    )
    allow_paper: bool = Field(
        default=True,
        description="Allow the `paper` stance, which does what the sources do and carries no "
        "verified guarantee. Each curator's own policy decides whether it takes part.",
    )
    aggregator_timeout_s: float = Field(
        default=10.0, gt=0, description="Time for one request to an aggregator."
    )
    patience_s: float = Field(
        default=60.0,
        gt=0,
        description="How long after its deadline a round waits for aggregators that do not answer "
        "before it aborts, and after its opening until all have heard of it. A Shamir quorum goes "
        "on without the missing ones after a quarter of it, at most 5 seconds.",
    )
    lease_s: float = Field(
        default=15.0, gt=1, description="How long a replica holds a round without renewing it."
    )
    poll_s: float = Field(
        default=0.05,
        gt=0,
        description="Pause between looks at an aggregator of an open round. Several open rounds "
        "share the looks, and a round in which nothing arrives is looked at less often.",
    )
    enrolment_max_body_bytes: int = Field(
        default=256 * 1024 * 1024,
        gt=0,
        description="Largest enrolment, which lists a host's curators. So much is read only for "
        "as many curators as a grant allows that the header `Tacit-Grant` names, one at a time.",
    )
    enrolment_open_body_bytes: int = Field(
        default=64 * 1024,
        gt=0,
        description="Largest enrolment that is read before its grant is known.",
    )
