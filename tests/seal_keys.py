"""Signed seal keys of aggregators that exist nowhere: only their hashes matter."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tacit.crypto.signing import Identity, Signed
from tacit.protocol.sealing_sessions import SEAL_KEY_LABEL, SealKeyStatement

MADE = datetime(2026, 1, 1, tzinfo=UTC)


def seal_key(
    signer: Identity, party: str, seed: int = 1, **changes: Any
) -> Signed[SealKeyStatement]:
    """What `party` would sign of the key number `seed`."""
    values: dict[str, Any] = {
        "party": party,
        "number": seed,
        "public_key_hash": bytes([seed]) * 32,
        "made": MADE,
        "until": MADE + timedelta(hours=1),
    }
    return signer.sign(SEAL_KEY_LABEL, SealKeyStatement(**{**values, **changes}))
