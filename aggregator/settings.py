"""Settings of an aggregator.

In addition to the settings there is one switch that is a file: `<data_dir>/restored` (see
`aggregator.rounds.restoring`), created by the operator who restores a backup.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from common.runtime.settings import ServiceSettings
from tacit.query.disclosure import DisclosureRule
from tacit.query.terms import LONGEST_VECTOR, MAX_CURATORS


class AggregatorSettings(ServiceSettings):
    """Settings of an aggregator, in addition to those of every service."""

    service: ClassVar[str] = "aggregator"

    port: int = Field(default=8300, ge=0, le=65535, description="Port to listen on.")
    aggregator_id: str = Field(
        default="aggregator-1",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$",
        description="Name of this aggregator; every round descriptor contains it.",
    )
    operator: str = Field(
        default="operator-1",
        min_length=1,
        max_length=128,
        description="Who runs this aggregator. Two aggregators of one operator are one aggregator.",
    )
    seal_key_s: int = Field(
        default=3600,
        ge=60,
        le=86_400,
        description="Length of the period for which a seal key is used.",
    )
    seal_key_grace_s: int = Field(
        default=600,
        ge=0,
        description="How long after its period a seal key may still open a new round.",
    )
    seal_key_hold_s: int = Field(
        default=21_600,
        ge=60,
        description=(
            "How long after its period a seal key is destroyed at the latest; rounds that "
            "still name it are then aborted. A round's deadline lies within the first half "
            "of this time, unless the round has a key of its own."
        ),
    )
    key_dir: Path | None = Field(
        default=None,
        description=(
            "Directory of the files that are needed to decrypt stored seal keys; default: "
            "`<data_dir>/keys`. Replicas share it and backups omit it. It can be in memory: "
            "if the machine then stops, open rounds are aborted."
        ),
    )
    peers: Literal["pinned", "any"] | None = Field(
        default=None,
        description="Which other aggregators may be in a round: `pinned` ones (`tacit pair peer`), "
        "or `any` that the coordinator names. Without it: `pinned` as soon as one is pinned.",
    )
    policy_min_participants: int = Field(
        default=2,
        ge=1,
        description="Least `min_participants` of a query that this aggregator participates in.",
    )
    policy_max_curators: int = Field(
        default=MAX_CURATORS, ge=1, description="Largest `n_max` of a query."
    )
    policy_max_roster: int = Field(
        default=2**26,
        ge=1,
        description="Largest `roster_size` of a round: bitmaps and indices are of that length.",
    )
    policy_max_dimension: int = Field(
        default=LONGEST_VECTOR, ge=1, description="Longest vector of a query."
    )
    policy_max_round_s: int = Field(
        default=31 * 86_400, ge=1, description="Furthest deadline of a round, from now."
    )
    exact_rule: DisclosureRule | None = Field(
        default=None,
        description=(
            "Participate in sums without noise (mechanism `exact`) under at least this rule, "
            'such as `{"min_participants": 15, "max_share": "0.15"}`; default: in none.'
        ),
    )
    allow_paper: bool = Field(
        default=True,
        description="Participate in rounds of the `paper` stance, whose guarantee is not verified.",
    )
    max_pieces: int = Field(
        default=1000, ge=1, description="Most pieces of lone curators in one request."
    )
    round_max_body_bytes: int = Field(
        default=64 * 1024 * 1024,
        gt=0,
        description="Largest body of a round's requests: sealed batches, signed accepted sets.",
    )
    enrolment_max_body_bytes: int = Field(
        default=256 * 1024 * 1024,
        gt=0,
        description="Largest enrolment, which lists a host's curators. That much is read only for "
        "as many curators as a grant allows that the header `Tacit-Grant` names, one at a time.",
    )
    enrolment_open_body_bytes: int = Field(
        default=64 * 1024,
        gt=0,
        description="Largest enrolment that is read before its grant is known.",
    )
    queue_max_items: int = Field(
        default=10_000, ge=1, description="Most uploads that wait for the writer."
    )
    queue_max_bytes: int = Field(
        default=128 * 1024 * 1024, ge=1, description="Most bytes that wait for the writer."
    )
    cached_senders: int = Field(
        default=100_000,
        ge=1,
        description="Senders, derived keys and sessions that are kept in memory (about 1 kB each).",
    )
    sender_ttl_s: float = Field(
        default=5.0,
        ge=0,
        description="How long another process's revocation of a sender may go unnoticed.",
    )
    abandon_s: int = Field(
        default=7 * 86_400,
        ge=60,
        description="A round without a release this long after its deadline is aborted, and its "
        "pieces are destroyed.",
    )
    retention_s: int = Field(
        default=90 * 86_400,
        ge=60,
        description="How long a finished round is remembered after its deadline; then it is "
        "answered with 410. Its id and its set against differencing always stay.",
    )
    sweep_s: float = Field(default=30.0, gt=0, description="Pause between checks for overdue work.")
