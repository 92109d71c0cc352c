"""Parties put into stores by SQL, where thousands of enrolments over HTTP would take too long."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from common.principals import Scope
from common.store.tokens import hash_token, new_token
from tests.aggregator.double import Federation, Sender


def enrol_directly(
    folders: Sequence[Path], federation: Federation, count: int, prefix: str = "curator"
) -> list[Sender]:
    """Lone curators at the aggregators whose processes keep their data in these folders, in the
    order of the federation's peers."""
    first = federation.next_number
    senders = [federation.sender(f"{prefix}-{first + number}") for number in range(count)]
    now = int(datetime.now(UTC).timestamp() * 1e6)
    for folder in folders:
        with sqlite3.connect(folder / "aggregator" / "aggregator.db") as database:
            for sender in senders:
                token = new_token(Scope.CURATOR)
                sender.tokens.append(token)
                database.execute(
                    'INSERT INTO party (id, kind, identity_key, "first", curators, enrolled) '
                    "VALUES (?, 'curator', ?, ?, 1, ?)",
                    (sender.id, sender.identity.public_key, sender.first, now),
                )
                database.execute(
                    "INSERT INTO token (id, hash, scopes, subject, label, created) "
                    "VALUES (?, ?, 'curator', ?, '', ?)",
                    (sender.id[:36], hash_token(token), sender.id, now),
                )
    return senders
