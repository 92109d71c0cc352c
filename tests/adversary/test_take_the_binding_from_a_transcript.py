"""The attacker is the coordinator, and wants another number of participants believed.

What the aggregators committed to gives their number away as false. So it publishes the transcript
in format 1, of an earlier version, which gives the manifest's hash instead of what is under it.
The verifier runs `tacit round verify` in a script, which looks at the exit code.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn
from typer.testing import CliRunner

from cli.main import app
from tacit.crypto.signing import Identity
from tacit.protocol.round.manifests import ManifestRefused
from tacit.protocol.round.opening import check_transcript
from tacit.protocol.round.transcript import Transcript
from tacit.protocol.trust import Pinned, Trust, TrustedAggregator
from tests.adversary.test_invent_a_transcript import INVENTED, ROUND, Impostor, invention

COORDINATOR = Identity.generate()
TRUE = invention(COORDINATOR, participants=400)


def stripped(participants: int) -> Transcript:
    """The same sum in format 1."""
    return TRUE.model_copy(
        update={
            "format": "tacit.transcript/1",
            "manifest_hash": TRUE.commitments[0].statement.manifest_hash,
            "members_hash": None,
            "participants": participants,
        }
    )


@contextmanager
def served(transcript: Transcript) -> Iterator[str]:
    """A coordinator on loopback; its URL."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(
            uvicorn.Config(Impostor(COORDINATOR, transcript).app, log_config=None, lifespan="off")
        )
        running = threading.Thread(target=server.run, args=([listener],))
        running.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            running.join()


def verified(transcript: Transcript, directory: Path) -> tuple[int, str]:
    """Exit code and words of a verification that pins every identity: here those of the round."""
    trust = Trust(
        deployment="test",
        coordinator=(COORDINATOR.fingerprint.hex(),),
        aggregators=tuple(
            TrustedAggregator(
                id=f"aggregator-{index}",
                operator=f"operator-{index}",
                fingerprints=(Pinned(fingerprint=identity.fingerprint.hex()),),
            )
            for index, identity in enumerate(INVENTED)
        ),
    )
    file = directory / "trust.json"
    file.write_text(trust.model_dump_json(by_alias=True, exclude_none=True))
    with served(transcript) as url:
        words = ["round", "verify", ROUND, "--url", url, "--token", "t" * 40]
        found = CliRunner().invoke(app, [*words, "--trust", str(file)])
    return found.exit_code, " ".join(found.output.split())


@pytest.mark.parametrize("participants", [7, 399])
def test_a_stripped_transcript_is_not_wholly_verified(tmp_path: Path, participants: int) -> None:
    code, words = verified(stripped(participants), tmp_path)
    assert code == 3
    assert f"Nothing binds the number of participants ({participants})" in words


def test_the_control_the_whole_transcript_is(tmp_path: Path) -> None:
    code, words = verified(TRUE, tmp_path)
    assert code == 0, words
    assert "committed to 400 participants" in words


def test_nobody_takes_part_beyond_the_roster() -> None:
    """The control is one fewer: in format 1 nothing else is known of the number."""
    assert TRUE.descriptor.statement.roster_size == 400
    check_transcript(stripped(400), COORDINATOR.public_key)
    with pytest.raises(ManifestRefused, match="roster"):
        check_transcript(stripped(401), COORDINATOR.public_key)
