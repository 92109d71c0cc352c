"""Settings that limit what a service accepts at the same time, and how slow a client may be.

The defaults fit one process with a gigabyte of memory. Where several processes serve one address,
the limits apply to each process separately.
"""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


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
        description="Most bytes of request bodies held at once; more are answered 503. A body "
        "alone is always read. One that is read as a stream counts for 64 MiB at most.",
    )
    max_requests: int = Field(
        default=1024,
        ge=1,
        description="Most requests worked on at once; more are answered 503. Long polls "
        "(`wait_s`), `/healthz`, `/readyz` and `/metrics` do not count.",
    )
    max_connections: int = Field(
        default=8192,
        ge=1,
        description="Most open connections. One more closes the one that has waited longest for "
        "a request; where all have one in progress, it is answered 503. The number of open files "
        "that the system allows, less 256, holds where it is smaller.",
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
        description="How long a request body may keep the service waiting, and how long an "
        "answer may lie unread, beyond the time that `transfer_least_bytes_per_s` allows it.",
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
