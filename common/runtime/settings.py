"""Settings that every service has, from the environment (`TACIT_...`) with secrets from files, and
the limits of what it accepts.

Settings that limit what a service accepts at the same time, and how slow a client may be.

The defaults fit one process with a gigabyte of memory. Where several processes serve one address,
the limits apply to each process separately.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, get_args
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationInfo, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings.exceptions import SettingsError

from common.runtime.tls import TlsSettings
from tacit.report.statements import is_loopback

LAST_BACKUP: Final = "last-backup"
"""A file in the data directory whose time of change is that of the last backup."""
LONGEST_S: Final = 10**10
MOST_BYTES: Final = 1 << 60
"""Above these (300 years, an exbibyte) dates and limits of the system overflow."""


class LimitSettings(BaseSettings):
    """Limits that every service has."""

    model_config = SettingsConfigDict(
        env_prefix="TACIT_",
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        hide_input_in_errors=True,
    )

    max_body_bytes: int = Field(
        default=8 * 1024 * 1024, gt=0, description="Largest request body that is accepted."
    )
    max_held_bytes: int = Field(
        default=256 * 1024 * 1024,
        gt=0,
        description=(
            "Most bytes of request bodies in memory; more are answered 503. A single body is "
            "always read. A body that is read as a stream counts for at most 64 MiB."
        ),
    )
    max_requests: int = Field(
        default=1024,
        ge=1,
        description=(
            "Most requests in progress; more are answered 503. Long polls (`wait_s`), "
            "`/healthz`, `/readyz` and `/metrics` do not count."
        ),
    )
    max_connections: int = Field(
        default=8192,
        ge=1,
        description=(
            "Most open connections. A further one closes the connection that has waited "
            "longest for a request; if all have a request in progress, it is answered 503. "
            "If the system allows fewer open files, that number less 256 applies."
        ),
    )
    max_header_bytes: int = Field(
        default=64 * 1024,
        ge=1024,
        description="Largest request line with headers, to within one read of the socket.",
    )
    header_timeout_s: float = Field(
        default=30.0,
        gt=0,
        description="How long a connection may go without a whole request header, from its start "
        "or from the last answer; then it is closed.",
    )
    transfer_grace_s: float = Field(
        default=30.0,
        gt=0,
        description=(
            "How long a request body may keep the service waiting, and how long an answer "
            "may remain unread, in addition to the time that `transfer_least_bytes_per_s` "
            "allows."
        ),
    )
    transfer_least_bytes_per_s: int = Field(
        default=1024,
        ge=1,
        description="Least rate of bodies and answers; slower bodies are answered 408, and "
        "connections on which an answer does not move are closed.",
    )
    database_pool_size: int = Field(
        default=5, ge=1, description="Connections to PostgreSQL that are kept open."
    )
    database_pool_overflow: int = Field(
        default=5, ge=0, description="Further connections to PostgreSQL while many are needed."
    )
    database_pool_timeout_s: float = Field(
        default=10.0,
        gt=0,
        description="How long a request waits for a connection to PostgreSQL before it is "
        "answered 503.",
    )


# Settings that every service has, from the environment (`TACIT_...`), and secrets from files.
#
# For every secret field `name` the variable `TACIT_NAME_FILE` may hold the path of a file with the
# secret instead (as container secrets are mounted). Setting both is an error. A setting is never
# printed with its secret.


class SecretFiles(PydanticBaseSettingsSource):
    """Reads `<PREFIX><NAME>_FILE` for every field that is a secret."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """The content of the file that the environment names, without its last line break."""
        if not _is_secret(field):
            return None, field_name, False
        variable = f"{self.config.get('env_prefix', '')}{field_name}".upper()
        path = os.environ.get(f"{variable}_FILE")
        if not path:
            return None, field_name, False
        if os.environ.get(variable):
            raise SettingsError(f"{variable} and {variable}_FILE are both set: keep one")
        try:
            content = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(
                f"{variable}_FILE: the file cannot be read ({type(error).__name__})"
            ) from None
        return content.rstrip("\r\n"), field_name, False

    def __call__(self) -> dict[str, Any]:
        """All secrets that come from files."""
        values: dict[str, Any] = {}
        for name, field in self.settings_cls.model_fields.items():
            content, key, _ = self.get_field_value(field, name)
            if content is not None:
                values[key] = content
        return values


class ServiceSettings(LimitSettings, TlsSettings):
    """Settings of all three services; each service extends them in its `settings.py`."""

    service: ClassVar[str] = "service"
    """The name of the service: in metrics, logs and the default database file."""
    kept_bytes: ClassVar[int] = 8 << 20
    """Free memory that a process keeps for blocks to come (`common.runtime.process`)."""

    data_dir: Path = Field(
        default=Path("data"),
        description="Directory for the database and key files; made with mode 0700 if absent.",
    )
    database_url: SecretStr | None = Field(
        default=None,
        description="SQLAlchemy URL of the database, `sqlite:///...` or "
        "`postgresql://...`; default: `<data_dir>/<service>.db` in SQLite. "
        "One database per service.",
    )
    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: int = Field(default=8000, ge=0, le=65535, description="Port to listen on.")
    public_url: str | None = Field(
        default=None,
        description="URL under which other parties reach this service. It may have a path, which "
        "the proxy in front then removes.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least level that is logged."
    )
    log_format: Literal["json", "console"] = Field(
        default="json", description="One JSON object per line, or text for a terminal."
    )
    confirm_key_changes: bool = Field(
        default=False,
        description=(
            "Accept the next identity of another service only after a person has compared "
            "its fingerprint (`tacit keys confirm`), even if it follows from the earlier one."
        ),
    )
    operator_token: SecretStr | None = Field(
        default=None,
        description="The operator's API token, at least 32 characters; without it one is made at "
        "the first start and written to `<data_dir>/operator.token`.",
    )
    otlp_endpoint: str | None = Field(
        default=None,
        description="Address of a collector (`http://collector:4318`) that gets traces over "
        "OTLP/HTTP: route templates, statuses and durations. None unless given.",
    )
    tls_client_authority: Path | None = Field(
        default=None,
        description="PEM file of the authorities one of which must have signed a caller's "
        "certificate (mutual TLS); needs `tls_certificate`.",
    )

    @field_validator("*")
    @classmethod
    def _within_what_can_be_counted(cls, value: Any, field: ValidationInfo) -> Any:
        for ending, most in (("_s", LONGEST_S), ("_bytes", MOST_BYTES)):
            if str(field.field_name).endswith(ending) and value is not None and value > most:
                raise ValueError(f"at most {most}")
        return value

    @field_validator("data_dir")
    @classmethod
    def _home(cls, path: Path) -> Path:
        return path.expanduser()

    @field_validator("operator_token")
    @classmethod
    def _long_enough(cls, token: SecretStr | None) -> SecretStr | None:
        if token is not None and len(token.get_secret_value()) < 32:
            raise ValueError("a token needs at least 32 characters")
        return token

    @model_validator(mode="after")
    def _callers_over_tls(self) -> ServiceSettings:
        if self.tls_client_authority is not None and self.tls_certificate is None:
            raise ValueError("tls_client_authority needs tls_certificate and tls_key")
        return self

    @property
    def confirmed_keys(self) -> tuple[bytes, ...] | None:
        """Fingerprints of identities that are confirmed in advance; None if no change needs
        confirmation."""
        return () if self.confirm_key_changes else None

    @property
    def https(self) -> bool:
        """Whether others reach this service over TLS, its own or that of a proxy before it."""
        return self.tls_certificate is not None or (self.public_url or "").startswith("https:")

    @property
    def path_prefix(self) -> str:
        """The path under which a proxy serves this service and which the proxy removes; usually
        empty."""
        return urlsplit(self.public_url or "").path.rstrip("/")

    def database(self) -> str:
        """The URL of the database, with its default."""
        if self.database_url is not None:
            return self.database_url.get_secret_value()
        return f"sqlite:///{self.data_dir / f'{self.service}.db'}"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments, then the environment, then files of secrets."""
        return (init_settings, env_settings, SecretFiles(settings_cls))


class ConsoleSettings(ServiceSettings):
    """Settings of a service that has a console."""

    roles: ClassVar[frozenset[str]]
    """What the provider's groups may be in the console of this service."""

    console: bool = Field(
        default=False,
        description="Pages for people under `/console` (needs the extra `console`). `tacit up` "
        "turns them on.",
    )
    console_idle_s: int = Field(
        default=1800,
        ge=60,
        le=43_200,
        description=(
            "How long a session of the console lasts without a request; at most 12 hours in total."
        ),
    )
    oidc_issuer: str | None = Field(
        default=None,
        description="Identity provider at which people sign in to the console: its issuer, exactly "
        "as in its tokens (`https://...`; `http://` on this machine alone). Needs `public_url`; "
        "register `<public_url>/console/sso/callback` there.",
    )
    oidc_client_id: str = Field(default="", description="What this service is called there.")
    oidc_client_secret: SecretStr | None = Field(
        default=None, description="Its secret there; without one it is a public client with PKCE."
    )
    oidc_scope: str = Field(
        default="openid",
        pattern=r"^openid( [!#-\[\]-~]+)*$",
        description=(
            "Scopes to request; some providers report groups only with a scope of their own "
            "(`openid groups`)."
        ),
    )
    oidc_groups_claim: str = Field(
        default="groups",
        min_length=1,
        description="Claim of the ID token that lists the groups of the person.",
    )
    oidc_roles: Mapping[str, Literal["operator", "analyst"]] = Field(
        default_factory=dict,
        description="JSON object of the groups that may sign in, each with its role: "
        '`{"grid-night": "operator", "grid-planning": "analyst"}` (in a curator service operators '
        "alone). Of several the higher holds.",
    )
    oidc_session_s: int = Field(
        default=3600,
        ge=60,
        le=43_200,
        description=(
            "How long after a sign-in the provider is asked again; a person who has left a "
            "group is then signed out."
        ),
    )

    @model_validator(mode="after")
    def _signs_in_safely(self) -> ConsoleSettings:
        """Refuse a provider without TLS, and one with which nobody could sign in."""
        issuer = self.oidc_issuer
        if issuer is None:
            return self
        parts = urlsplit(issuer)
        private = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(issuer))
        if not private or not parts.hostname or parts.query or parts.fragment:
            raise ValueError("oidc_issuer begins with https:// and a host, without ? and #")
        if not self.oidc_client_id or self.public_url is None:
            raise ValueError("oidc_issuer needs oidc_client_id and public_url")
        if not self.https and not is_loopback(self.public_url):
            raise ValueError("oidc_issuer needs a public_url that begins with https://")
        if not self.oidc_roles:
            raise ValueError("oidc_issuer needs oidc_roles: without roles nobody can sign in")
        if not self.roles.issuperset(self.oidc_roles.values()):
            raise ValueError(f"oidc_roles has {' or '.join(sorted(self.roles))} alone here")
        return self


def variables(settings: type[BaseSettings]) -> frozenset[str]:
    """The variables of the environment that these settings read."""
    fields = settings.model_fields
    files = {f"TACIT_{name}_FILE".upper() for name, field in fields.items() if _is_secret(field)}
    return frozenset(f"TACIT_{name}".upper() for name in fields) | files


def _is_secret(field: FieldInfo) -> bool:
    annotation = field.annotation
    return annotation is SecretStr or SecretStr in get_args(annotation)
