"""The attacker takes everything of an aggregator after a seal key died: database, log, directory.

Nothing of it opens a piece: the bytes of the seed, of the wrapping key and of the session's key are
nowhere, even where a reader held the log back. Spec: keys, section 9, check 4.
"""

from __future__ import annotations

import base64
import io
import sqlite3
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from aggregator.context import Aggregator
from aggregator.pieces.intake import Intake
from aggregator.rounds import key_rotation, state_machine
from aggregator.seal_keys import Wrapping
from aggregator.store import seal_keys as store
from common.runtime.clock import ManualClock
from common.runtime.logs import configure_logging
from tacit.wire import encode_binary
from tests.adversary.test_find_pieces_in_the_files import ASKED, found
from tests.aggregator.conftest import Alliance, settings
from tests.aggregator.double import Federation, Round


async def delivered(federation: Federation, folder: Path) -> tuple[Round, dict[str, bytes]]:
    """An open round, and every secret of its key at the first aggregator: the attacker's search."""
    lone = await federation.lone(3)
    opened = await federation.open(ASKED)
    for sender in lone:
        await opened.contribute(sender, np.array([[3]]))
    aggregator = federation.peers[0].part(Aggregator)
    entry = opened.descriptor.aggregators[0]
    wrapping_key = (keys(folder) / f"{entry.seal.number}.kek").read_bytes()
    async with aggregator.database.reading() as transaction:
        row = await store.by_number(transaction, entry.seal.number)
    assert row is not None
    wrapping = Wrapping(wrapping_key, entry.id, row.number, row.key_hash)
    secrets = {
        "wrapping key": wrapping_key,
        "seed": wrapping.unwrap("seed", row.seed or b""),
        "verification secret": wrapping.unwrap(
            "verification secret", row.verification_secret or b""
        ),
        "wrapped seed": row.seed or b"",
    }
    for sender in lone:
        secrets[f"session of {sender.id}"] = federation.session(sender, 0, entry).key
    own = await aggregator.seal_keyring.of(row.number)
    secrets["wrapped session"] = next(iter(own.sessions._held.values())).wrapped
    return opened, secrets


def keys(folder: Path) -> Path:
    return settings(0, folder).data_dir / "keys"


def where(folder: Path, secrets: dict[str, bytes]) -> dict[str, set[str]]:
    """In which files each secret is."""
    data = settings(0, folder).data_dir
    files = [path for path in data.rglob("*") if path.is_file()]
    return {
        name: {path.name for path in files if secret in path.read_bytes()}
        for name, secret in secrets.items()
    }


async def sweep(federation: Federation) -> None:
    peer = federation.peers[0]
    aggregator, intake = peer.part(Aggregator), peer.part(Intake)
    await state_machine.sweep(aggregator, intake)
    await key_rotation.sweep_keys(aggregator, intake)
    await aggregator.erasure.erase()


@pytest.mark.parametrize("round_keys", [False, True])
async def test_nothing_that_can_be_seized_opens_a_round_after_its_key(
    pair: Federation, tmp_path: Path, clock: ManualClock, round_keys: bool
) -> None:
    pair.round_keys = round_keys
    opened, secrets = await delivered(pair, tmp_path)
    before = where(tmp_path, secrets)
    # the control: while the key lives, the search finds what there is to find
    assert before["wrapping key"] and before["wrapped seed"] and before["wrapped session"]
    # no key was ever in the database itself
    for name, files in before.items():
        if not name.startswith("wrapp"):
            assert files == set(), name
    await opened.release()
    clock.advance(timedelta(seconds=3600 + 600))
    await sweep(pair)
    assert set().union(*where(tmp_path, secrets).values()) == set()


async def test_a_reader_delays_the_log_and_gives_no_key(pair: Federation, tmp_path: Path) -> None:
    pair.round_keys = True
    opened, secrets = await delivered(pair, tmp_path)
    (file,) = settings(0, tmp_path).data_dir.glob("*.db")
    reader = sqlite3.connect(file)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM piece").fetchone()
    await opened.release()
    await sweep(pair)
    after = where(tmp_path, secrets)
    assert after["wrapped seed"]  # in the log, which the reader holds back
    assert {name for name, files in after.items() if files} <= {"wrapped seed", "wrapped session"}
    assert after["wrapping key"] == set()  # so what is left opens nothing
    reader.close()
    await sweep(pair)
    assert set().union(*where(tmp_path, secrets).values()) == set()


async def test_sealed_bytes_and_announcements_are_not_kept(
    pair: Federation, tmp_path: Path
) -> None:
    opened, _ = await delivered(pair, tmp_path)
    entry = opened.descriptor.aggregators[0]
    announced = [
        pair.session(sender, 0, entry).announce.statement.sealed for sender in pair.senders.values()
    ]
    assert found(tmp_path, announced) == set()


async def test_no_log_metric_or_problem_holds_a_secret(alliance: Alliance, tmp_path: Path) -> None:
    said = io.StringIO()
    configure_logging("debug", "json", stream=said)
    async with alliance(2) as federation:
        federation.round_keys = True
        opened, secrets = await delivered(federation, tmp_path)
        peer, (sender, *_) = federation.peers[0], federation.senders.values()
        own = federation.session(sender, 0, opened.descriptor.aggregators[0])
        secrets["announced"] = own.announce.statement.sealed
        piece = opened.piece(sender, 0, np.array([9], np.uint64))
        answers = [await opened.send(sender, 0, piece)]
        false = {"announce": own.announce.model_copy(update={"signature": bytes(64)})}
        other = {"session": bytes(range(16))}
        answers.append(await opened.send(sender, 0, piece.model_copy(update=other)))
        federation.peers[0].part(Aggregator).seal_keyring.forget_all_but([])
        answers.append(await opened.send(sender, 0, piece.model_copy(update=false)))
        await opened.release()
        answers.append(await opened.send(sender, 0, piece))
        await sweep(federation)
        answers.append(await peer.ask("GET", "/metrics"))
    text = said.getvalue() + "".join(answer.text for answer in answers)
    assert "/v1/seal-keys" in text  # the control: what happened is in the log
    for name, secret in secrets.items():
        forms = {secret.hex(), encode_binary(secret), base64.b64encode(secret).decode()}
        assert not [form for form in forms if form in text], name
