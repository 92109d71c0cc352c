"""Settings of the coordinator."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, model_validator

from common.runtime.settings import ConsoleSettings
from tacit.query.disclosure import DisclosureRule
from tacit.report.statements import is_loopback


class CoordinatorSettings(ConsoleSettings):
    """Settings of the coordinator, in addition to those of every service."""

    service: ClassVar[str] = "coordinator"
    roles: ClassVar[frozenset[str]] = frozenset({"operator", "analyst"})

    deployment: str = Field(
        default="tacit",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$",
        description="Name of the deployment, part of every round descriptor.",
    )
    port: int = Field(default=8200, ge=0, le=65535, description="Port to listen on.")
    exact_rule: DisclosureRule | None = Field(
        default=None,
        description=(
            "Allow sums without noise (mechanism `exact`) under at least this rule, such as "
            '`{"min_participants": 15, "max_share": "0.15"}`; default: none.'
        ),
    )
    allow_paper: bool = Field(
        default=True,
        description=(
            "Allow the `paper` stance, which does what the sources do and has no verified "
            "guarantee. Each curator's own policy decides whether it participates."
        ),
    )
    require_validity: Literal["proved"] | None = Field(
        default=None,
        description=(
            "Accept only queries whose contributions are `proved`, also in rounds of "
            "federated jobs: a lying curator or host then moves a sum by no more than its "
            "report says. Existing queries stay as they are. Reports that a job collects one "
            "by one (`collect`) have no proof and are still allowed."
        ),
    )
    aggregator_timeout_s: float = Field(
        default=10.0, gt=0, description="Time for one request to an aggregator."
    )
    seal_key_per_round: bool = Field(
        default=False,
        description=(
            "Request a separate seal key from each aggregator for every round; the "
            "aggregator destroys it at the round's end. Recommended if hosts deliver; each "
            "lone curator then begins a session in every round."
        ),
    )
    lasting_seals: bool = Field(
        default=False,
        description="After each release ask the aggregators of the quorum to seal the transcript "
        "with Ed25519 and ML-DSA-65, and seal the ledger's head once a day: evidence for years, "
        "13 kB each. Identities need a document for it (`tacit keys next`).",
    )
    profile_metrics: bool = Field(
        default=False,
        description="Show the load profile that was released last on `/metrics`: "
        "each of at most 96 slots with the limits between which it was before noise in 95 of 100 "
        "cases. Anyone who reaches `/metrics` then reads it: results else need a token.",
    )
    budget_warning_days: int = Field(
        default=30,
        ge=1,
        le=366,
        description="A limit of the budget that the schedules use up within this time needs an "
        "operator: on the first page, in the metric `conditions` and in notifications.",
    )
    backup_warning_days: int = Field(
        default=8, ge=1, le=3660, description="So does a last backup older than this."
    )
    notify_webhook_url: SecretStr | None = Field(
        default=None,
        description="Address that gets a POST when something begins to need an operator, and when "
        "it ends (`https://...`; `http://` on this machine alone).",
    )
    notify_webhook_key: SecretStr | None = Field(
        default=None,
        description="Key with which these requests are signed (HMAC-SHA-256), at least 32 "
        "characters; the receiver has it too.",
    )
    notify_smtp_url: SecretStr | None = Field(
        default=None,
        description="Mail server that sends the same by e-mail, with its user: "
        "`smtps://user:password@host:465` (TLS) or `smtp://...:587` (STARTTLS, which only a server "
        "on this machine may lack).",
    )
    notify_from: str = Field(default="", description="Sender of these e-mails.")
    notify_to: tuple[str, ...] = Field(
        default=(), description="JSON list of the addresses that get them."
    )
    patience_s: float = Field(
        default=60.0,
        gt=0,
        description=(
            "How long a round waits for aggregators that do not answer: after its deadline "
            "before it aborts, and after its opening until all have received it. A Shamir "
            "quorum continues without the missing ones after a quarter of this time, at most "
            "5 seconds."
        ),
    )
    retention_s: int | None = Field(
        default=None,
        ge=60,
        le=100 * 366 * 86_400,
        description=(
            "How long after a round's end its result, report, transcript and other content "
            "are stored; then they are answered with 410. Default: permanently. The ledger, "
            "the sets against differencing, the round's id and the newest 100 rounds always "
            "stay."
        ),
    )
    lease_s: float = Field(
        default=15.0,
        gt=1,
        description="How long a replica keeps a round without renewing its lease.",
    )
    poll_s: float = Field(
        default=0.05,
        gt=0,
        description=(
            "Pause between polls of an aggregator with an open round, if more than four are "
            "open: they share the polls, and a round in which nothing arrives is polled less "
            "often. For up to four rounds the aggregator reports when all have delivered."
        ),
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
    dask_scheduler: str | None = Field(
        default=None,
        description=(
            "Address of a Dask scheduler whose workers run the jobs (`tcp://...`); without "
            "it the coordinator starts its own worker processes when data or jobs arrive. "
            "Workers see raw data, so they must be run by the party that is trusted with it."
        ),
    )
    job_workers: int = Field(
        default=2, ge=1, le=256, description="Worker processes that the coordinator starts."
    )
    job_url: str | None = Field(
        default=None,
        description="URL under which workers reach this service; `public_url` or the address that "
        "it listens on unless given.",
    )
    job_lease_s: float = Field(
        default=10.0,
        gt=0.5,
        description="How long an attempt at a job may be silent before another replica, or the "
        "coordinator after a restart, starts the next one. The process that started an attempt "
        "waits until Dask reports the end of its task.",
    )
    job_attempts: int = Field(
        default=3, ge=1, le=100, description="Attempts at a job whose worker was lost."
    )
    job_memory_bytes: int = Field(
        default=4 * 1024**3, gt=0, description="Memory that one job may take."
    )
    job_wall_s: float = Field(
        default=86400.0,
        gt=0,
        description="Longest run of one attempt; of a job over curators, the most processor time "
        "of its outcome.",
    )
    job_outcome_bytes: int = Field(
        default=1024**3, gt=0, description="Largest result that a job may have."
    )
    insecure_allow_seed: bool = Field(
        default=False,
        description="Allow `seed` with the sound stance too: the output is then reproducible, "
        "hence not private, and is released outside the budget. For tests and teaching only.",
    )
    storage_key: SecretStr | None = Field(
        default=None,
        description="Key with which stored datasets and seeds of jobs are sealed: 32 bytes in "
        "base64url. Without it one is made at the first start and written to "
        "`<data_dir>/storage.key`; several replicas need the same one.",
    )
    stored_datasets: bool = Field(
        default=True,
        description="Allow datasets to be stored. It makes the coordinator their trusted keeper; "
        "a deployment for rounds alone turns it off.",
    )
    dataset_dir: Path | None = Field(
        default=None,
        description="Directory of the sealed datasets, shared by all replicas; default: "
        "`<data_dir>/datasets`.",
    )
    dataset_max_bytes: int = Field(
        default=4 * 1024**3,
        gt=0,
        description="Largest dataset, as it is sent and also when it is expanded.",
    )
    dataset_max_ratio: int = Field(
        default=200, ge=1, description="Largest ratio by which a .gz or .xz may expand."
    )
    dataset_max_rows: int = Field(
        default=10**9,
        ge=1,
        description="Most rows of a dataset, where its kind does not allow fewer.",
    )
    dataset_url_prefixes: tuple[str, ...] = Field(
        default=(),
        description=(
            "JSON list of address prefixes, each ending in `/`, from which datasets may be "
            "fetched. None: datasets are uploaded only."
        ),
    )

    @model_validator(mode="after")
    def _notifies_in_private(self) -> CoordinatorSettings:
        """Refuse outlets that would send in the clear, or that lack a part."""
        if self.notify_webhook_url is not None:
            url, key = self.notify_webhook_url.get_secret_value(), self.notify_webhook_key
            scheme = urlsplit(url).scheme
            private = scheme == "https" or (scheme == "http" and is_loopback(url))
            if not private or not urlsplit(url).hostname:
                raise ValueError("notify_webhook_url begins with https:// and a host")
            if key is None or len(key.get_secret_value()) < 32:
                raise ValueError("notify_webhook_key needs at least 32 characters")
        if self.notify_smtp_url is not None:
            server = urlsplit(self.notify_smtp_url.get_secret_value())
            if server.scheme not in ("smtp", "smtps") or not server.hostname:
                raise ValueError("notify_smtp_url begins with smtps:// or smtp:// and a host")
            addresses = (self.notify_from, *self.notify_to)
            if len(addresses) < 2 or not all("@" in address for address in addresses):
                raise ValueError("notify_smtp_url needs addresses in notify_from and notify_to")
        return self
