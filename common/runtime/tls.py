"""TLS of a service: its certificate, renewed while it runs, and the authorities that it trusts.

A service presents the certificate of `tls_certificate` to its callers and to the services that it
calls. With `tls_authority` it trusts that authority alone, else the system's; with
`tls_client_authority` it answers only callers whose certificate that authority signed (mutual TLS).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from cryptography import x509
from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from common.runtime.logs import describe, get_logger

RENEWAL_S: Final = 30.0
_SET_GROUPS: Final = "set_groups"
"""Of `ssl.SSLContext`, from Python 3.15 on."""
_logger = get_logger("tacit.tls")


class TlsSettings(BaseSettings):
    """Paths of the files; every service and the command line have these."""

    model_config = SettingsConfigDict(
        env_prefix="TACIT_",
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        hide_input_in_errors=True,
    )

    tls_certificate: Path | None = Field(
        default=None,
        description="PEM file with the certificate chain that is shown, to callers and to those "
        "who are called; needs `tls_key`. Read again when it changes.",
    )
    tls_key: Path | None = Field(default=None, description="PEM file with the private key.")
    tls_authority: Path | None = Field(
        default=None,
        description="PEM file of the authorities that are trusted when another service is "
        "called; the system's unless given.",
    )

    tls_groups: str | None = Field(
        default=None,
        description="Groups of the key agreement, the preferred first, with colons "
        "(`X25519MLKEM768:X25519`); the TLS library's own unless given. Needs Python 3.15.",
    )

    @field_validator("tls_groups")
    @classmethod
    def _groups_can_be_set(cls, groups: str | None) -> str | None:
        """No setting that does nothing: an operator would rely on it."""
        if groups is not None and not hasattr(ssl.SSLContext, _SET_GROUPS):
            raise ValueError(
                "this Python cannot choose the groups (3.15 can): leave it out, and let a proxy "
                "require them"
            )
        return groups

    @model_validator(mode="after")
    def _certificate_with_key(self) -> TlsSettings:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key belong together")
        return self

    def trust(self) -> ssl.SSLContext:
        """TLS for outgoing calls. Raises OSError or ssl.SSLError for files that are not valid."""
        if self.tls_groups is None:
            return trust(self.tls_authority, self.tls_certificate, self.tls_key)
        context = _verifying(self.tls_authority)
        if self.tls_certificate is not None:
            context.load_cert_chain(self.tls_certificate, self.tls_key)
        use_groups(context, self.tls_groups)
        return context


def public_trust(authority: Path | None) -> ssl.SSLContext:
    """TLS with services outside the deployment: trusts the system's authorities and the
    deployment's own."""
    context = _verifying(None)
    if authority is not None:
        context.load_verify_locations(authority)
    return context


def use_groups(context: ssl.SSLContext, groups: str) -> None:
    """Agree on keys in these groups only. Raises ssl.SSLError for an unknown name."""
    getattr(context, _SET_GROUPS)(groups)


def post_quantum() -> Literal["offered", "no"]:
    """Whether the TLS library prefers X25519MLKEM768 by default, as OpenSSL does from 3.5 on.

    Python cannot report which group a connection then agreed on. Spec: keys, section 2.8.
    """
    return "offered" if ssl.OPENSSL_VERSION_INFO >= (3, 5) else "no"


def trust(
    authority: Path | None = None, certificate: Path | None = None, key: Path | None = None
) -> ssl.SSLContext:
    """TLS that trusts `authority` only (default: the system's), and presents a certificate."""
    if authority is None and certificate is None:
        return _system_trust()
    context = _verifying(authority)
    if certificate is not None:
        context.load_cert_chain(certificate, key)
    return context


@cache  # the system's authorities take 30 ms to load, and nothing is added to this one
def _system_trust() -> ssl.SSLContext:
    return _verifying(None)


def _verifying(authority: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=None if authority is None else str(authority))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def environment_trust() -> ssl.SSLContext | bool:
    """The same, configured by the environment only, for the command line and the workers of
    jobs."""
    settings = TlsSettings()
    values = (settings.tls_authority, settings.tls_certificate, settings.tls_groups)
    if all(value is None for value in values):
        return True
    return settings.trust()


def server_options(
    certificate: Path | None, key: Path | None, client_authority: Path | None
) -> dict[str, Any]:
    """TLS options for uvicorn: none without a certificate."""
    if certificate is None:
        return {}
    options: dict[str, Any] = {"ssl_certfile": str(certificate), "ssl_keyfile": str(key)}
    if client_authority is not None:
        options |= {"ssl_ca_certs": str(client_authority), "ssl_cert_reqs": ssl.CERT_REQUIRED}
    return options


def certificates(path: Path) -> Sequence[x509.Certificate]:
    """The chain in a PEM file, the service's own first. Raises OSError, ValueError."""
    return x509.load_pem_x509_certificates(path.read_bytes())


def expiry(path: Path) -> datetime:
    """The earliest expiry of the chain's certificates."""
    return min(item.not_valid_after_utc for item in certificates(path))


async def renew(
    context: ssl.SSLContext, certificate: Path, key: Path, every_s: float = RENEWAL_S
) -> None:
    """Reload the files whenever they change, without end; open connections keep the old pair.

    If a pair cannot be read or does not match, the old one stays in use, and loading is tried
    again.
    """
    seen_change = _changed(certificate, key)
    while True:
        await asyncio.sleep(every_s)
        change = _changed(certificate, key)
        if change == seen_change:
            continue
        try:
            context.load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError) as error:
            _logger.error("certificate_not_renewed", **describe(error))
        else:
            seen_change = change
            with suppress(ValueError, OSError):
                _logger.info("certificate_renewed", expires=expiry(certificate).isoformat())


def _changed(*paths: Path) -> tuple[tuple[int, int], ...]:
    """Inode and time of files; a pair whose second half is missing differs again later."""
    stamps = []
    for path in paths:
        with suppress(OSError):
            status = path.stat()
            stamps.append((status.st_ino, status.st_mtime_ns))
    return tuple(stamps)
