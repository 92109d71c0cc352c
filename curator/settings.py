"""Settings of a curator service: one process, any number of curators."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import ClassVar, Final, Literal

from pydantic import AwareDatetime, Field, SecretStr, field_validator, model_validator

from common.runtime.clock import zone_named
from common.runtime.settings import ConsoleSettings
from tacit.accounting.amounts import CURATORS_DAY_DELTA, CURATORS_DAY_EPSILON
from tacit.accounting.composition import LARGEST_EPSILON, Currency
from tacit.query.disclosure import DisclosureRule
from tacit.query.terms import LONGEST_VECTOR

EPOCH_SECONDS_END: Final = datetime(1973, 3, 4, tzinfo=UTC)
"""Epoch seconds up to the year 5138 are before it when they are taken as milliseconds."""


class CuratorSettings(ConsoleSettings):
    """Settings of a curator service, in addition to those of every service."""

    service: ClassVar[str] = "curator"
    roles: ClassVar[frozenset[str]] = frozenset({"operator"})
    kept_bytes: ClassVar[int] = 5 << 19  # a gateway of a million has no more to spare

    port: int = Field(default=8400, ge=0, le=65535, description="Port to listen on.")
    participate: bool = Field(
        default=True,
        description="Find rounds and contribute; if off, the service only stores readings.",
    )
    send_window_share: float = Field(
        default=0.8,
        ge=0,
        le=1,
        description=(
            "The moment of sending is drawn from this share of a round's remaining open "
            "time. 0 sends immediately, for demonstrations and benchmarks: the moment then "
            "shows when drawing ended."
        ),
    )
    prepare_lead_s: float = Field(
        default=2.0,
        ge=0,
        description=(
            "How long before its moment of sending a contribution is drawn, so that the time "
            "for drawing does not show."
        ),
    )
    poll_wait_s: float = Field(
        default=20.0,
        ge=0,
        le=30,
        description="Long poll for open rounds and collections: seconds to wait.",
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
    retention_s: int = Field(
        default=400 * 86_400,
        ge=60,
        le=100 * 366 * 86_400,
        description=(
            "For how long after a round's deadline the owner can see which curators refused "
            "it, on which grounds, and what was delivered to which aggregator. Debits, "
            "credits and the round's descriptor always stay."
        ),
    )
    settle_after_s: float = Field(
        default=5.0, ge=0, description="Pause between questions about how a round ended."
    )
    requests_per_aggregator: int = Field(
        default=2, ge=1, le=16, description="Uploads in flight to one aggregator."
    )
    require_pq_signatures: bool = Field(
        default=False,
        description="Refuse rounds whose seal keys are not signed with both ML-DSA-65 and Ed25519, "
        "by identities that committed to a next pair (`tacit keys next`).",
    )
    restore_quiet_s: float = Field(
        default=172_800,
        ge=0,
        description=(
            "For how long a store that was restored from a backup participates in nothing: "
            "it may have given answers that it does not know of. A round needs only seal "
            "keys that were made after the restore. 0 also assumes exact clocks; for tests "
            "only."
        ),
    )
    future_tolerance_s: float = Field(
        default=300.0, ge=0, description="How far in the future a reading's time may lie."
    )
    earliest_reading: AwareDatetime = Field(
        default=datetime(2000, 1, 1, tzinfo=UTC),
        ge=EPOCH_SECONDS_END,
        description="Readings before this time are refused. Not before 1973-03-04, so that epoch "
        "seconds, taken as milliseconds, always are.",
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
        default=LONGEST_VECTOR, ge=1, description="Longest vector in one reading's `values`."
    )
    import_max_body_bytes: int = Field(
        default=512 * 1024 * 1024, gt=0, description="Largest file that is imported, as sent."
    )
    import_max_plain_bytes: int = Field(
        default=8 * 1024 * 1024 * 1024, gt=0, description="Largest file after decompression."
    )
    import_max_feed_bytes: int = Field(
        default=1024 * 1024 * 1024,
        gt=0,
        description=(
            "Largest Green Button or NEM12 file, decompressed: it is kept in memory until its end."
        ),
    )
    import_max_ratio: int = Field(
        default=200, ge=1, description="Most bytes that one compressed byte may expand to."
    )
    import_max_errors: int = Field(
        default=1000, ge=0, description="Row errors that an import lists; all are counted."
    )
    policy_period_s: int = Field(
        default=86_400,
        ge=60,
        le=366 * 86_400,
        description="Budget period, until an operator sets a policy.",
    )
    policy_epsilon: str = Field(
        default=CURATORS_DAY_EPSILON,
        pattern=r"^\d{1,9}(\.\d{1,6})?$",
        description="Epsilon per period and privacy unit, until an operator sets a policy.",
    )
    policy_delta: str = Field(
        default=CURATORS_DAY_DELTA,
        pattern=r"^(0|1|0?\.\d{1,15})$",
        description="Delta per period and privacy unit, until an operator sets a policy.",
    )
    policy_currency: Currency = Field(
        default=Currency.EPSILON,
        description="What the two bound, until an operator sets a policy: `epsilon` sums of "
        "epsilons and of deltas, `zcdp` the epsilon at this delta that all zCDP together "
        "guarantees.",
    )
    policy_allow_unverified: bool = Field(
        default=False,
        description="Take part in rounds without a verified figure (`paper`) until an operator "
        "sets a policy. For rehearsals.",
    )
    policy_require_validity: Literal["proved"] | None = Field(
        default=None,
        description="Take part only in rounds in which every contribution is `proved`, until an "
        "operator sets a policy.",
    )
    policy_exact_rule: DisclosureRule | None = Field(
        default=None,
        description=(
            "Participate in sums without noise under at least this rule, such as "
            '`{"min_participants": 100, "max_share": "0.1"}`, until an operator sets a '
            "policy; default: in none."
        ),
    )
    calendar_timezone: str = Field(
        default="UTC",
        description="IANA zone of the days in calendars of readings, unless a request names one.",
    )
    mqtt_host: str | None = Field(
        default=None,
        description=(
            "MQTT broker from which readings are received; default: none. Needs the extra `mqtt`."
        ),
    )
    mqtt_port: int = Field(default=1883, ge=1, le=65535, description="Port of the MQTT broker.")
    mqtt_user: str | None = Field(default=None, description="User at the MQTT broker.")
    mqtt_password: SecretStr | None = Field(default=None, description="Its password.")
    mqtt_client_id: str = Field(
        default="tacit-curator",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$",
        description="Name of the session at the broker; a different one for each process.",
    )
    mqtt_site: str = Field(
        default="site",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$",
        description="The site in `tacit/v1/{site}/{device}/readings`.",
    )
    mqtt_mappings: str = Field(
        default="tacit",
        description="What is subscribed, with commas between: `tacit`, `home-assistant`, "
        "`tasmota`, `shelly-gen1`, `shelly-gen2`, `zigbee2mqtt`, `esphome`, "
        "`dsmr-reader`, or paths of mapping files (TOML or JSON).",
    )
    mqtt_devices: Path | None = Field(
        default=None,
        description="TOML or JSON file of device to curator; a device that is not in it belongs "
        "to the curator of its name, else to the only one hosted.",
    )
    mqtt_timezone: str | None = Field(
        default=None,
        description="IANA zone of time stamps without an offset; without it they are refused.",
    )
    mqtt_tls: bool = Field(default=False, description="Speak TLS with the MQTT broker.")
    mqtt_tls_authority: Path | None = Field(
        default=None,
        description="PEM file of the authorities that are trusted for the MQTT broker; the "
        "system's unless given.",
    )
    mqtt_tls_certificate: Path | None = Field(
        default=None, description="PEM file with the client's certificate; needs its key."
    )
    mqtt_tls_key: Path | None = Field(default=None, description="PEM file with its private key.")
    mqtt_session_expiry_s: int = Field(
        default=604_800,
        ge=60,
        le=2**32 - 1,
        description="For how long the broker stores messages while this service is disconnected.",
    )
    mqtt_receive_maximum: int = Field(
        default=1000,
        ge=1,
        le=65_535,
        description="Most messages that the broker sends before the first is acknowledged.",
    )
    mqtt_batch_messages: int = Field(
        default=500, ge=1, le=65_535, description="Most messages that are stored together."
    )
    mqtt_batch_wait_s: float = Field(
        default=0.02, ge=0, le=10, description="How long a message waits for others."
    )
    mqtt_keepalive_s: int = Field(
        default=30,
        ge=5,
        le=3600,
        description="Time without a message after which the MQTT broker is pinged.",
    )

    @model_validator(mode="after")
    def _policy_in_its_currency(self) -> CuratorSettings:
        if self.policy_currency is Currency.ZCDP:
            fits = Fraction(self.policy_epsilon) <= LARGEST_EPSILON
            fits &= 0 < Fraction(self.policy_delta) < 1
            if not fits:
                raise ValueError(
                    "policy_currency zcdp needs policy_epsilon of at most "
                    f"{LARGEST_EPSILON} and policy_delta in (0, 1)"
                )
        return self

    @field_validator("calendar_timezone")
    @classmethod
    def _zone(cls, name: str) -> str:
        return zone_named(name).key

    @model_validator(mode="after")
    def _mqtt_over_tls(self) -> CuratorSettings:
        named = self.mqtt_tls_authority or self.mqtt_tls_certificate or self.mqtt_tls_key
        if named is not None and not self.mqtt_tls:
            raise ValueError("mqtt_tls_* files need mqtt_tls=true")
        if (self.mqtt_tls_certificate is None) != (self.mqtt_tls_key is None):
            raise ValueError("mqtt_tls_certificate and mqtt_tls_key belong together")
        return self
