"""What is sealed: how the product seals and opens each. Nonces and secrets are drawn; `body` in
`sealed.json` is the bytes as they travel or lie on a disk.

Of a plain AEAD an entry says where in the body nonce, associated data and ciphertext are (numbers),
or what they are (hex); of HPKE, what it is bound to.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np

from aggregator.seal_keys import Wrapping
from cli.services.sealed_files import Opener, Passphrase, Recipient, Sealer
from coordinator.sealed_files import SealedReader, SealedWriter
from coordinator.storage_keys import KeySource, StorageKey, StorageKeys, seed_purpose
from tacit.crypto import sealing
from tacit.crypto.sealing import SealKey, open_octets, seal_octets
from tacit.crypto.signing import Identity
from tacit.paths import published as paths
from tacit.paths.published import SealedPath
from tacit.protocol import proved_rounds as shares
from tacit.protocol import sealing_sessions
from tacit.protocol.round import pieces as proved_pieces
from tests.vectors.examples import statement

Turn = Callable[[bytes], bytes]
Both = tuple[Turn, Turn]
KEY, SECRET, SEAL_KEY = b"\x28" * 32, b"\x11" * 32, SealKey(b"\x09" * 32)
PARTY, AGGREGATOR = "curator-1", "agg-2"
IDENTITY, SESSION = Identity.from_bytes(b"\2" * 32), b"\x10" * 16
DIGEST = statement("round descriptor").digest()
PROVED = statement("proved round descriptor").digest()
STORAGE = StorageKeys(KeySource((StorageKey(SECRET),), Path()))
STORAGE.place(1, StorageKey(SECRET))


def _octets(context: bytes) -> Both:
    """A body is the nonce and what is sealed."""
    return (
        lambda text: b"".join(seal_octets(KEY, text, context)),
        lambda body: open_octets(KEY, body[:12], body[12:], context),
    )


def _batch() -> Both:
    span = sealing.Span(0, 0, 9)
    header = sealing.BatchHeader("host-1", DIGEST, 1, 0, span, 1, SESSION, b"\xff\x01")

    def opened(body: bytes) -> bytes:
        found, offset = sealing.read_batch_header(body)
        assert found == header
        return sealing.open_batch(KEY, body, offset).tobytes()

    return lambda text: sealing.seal_batch(KEY, header, np.frombuffer(text, "<u8")), opened


def _part() -> Both:
    span = sealing.Span(0, 0, 9)
    header = sealing.PartHeader("host-1", PROVED, 1, 0, span, 16, SESSION, b"\xff\x01")

    def opened(body: bytes) -> bytes:
        found, offset = sealing.read_part_header(body, 4096)
        assert found == header
        return sealing.open_part(KEY, body, offset)

    return lambda text: sealing.seal_part(KEY, header, text), opened


def _chunk() -> Both:
    place = shares.ChunkPlace(PROVED, b"\x15" * 32, 1, 0, 1, 5)
    key = shares.chunk_key(SECRET, PROVED, AGGREGATOR)
    return (
        lambda text: shares.seal_chunk(key, place, text),
        lambda body: shares.open_chunk(key, place, body),
    )


def _session() -> Both:
    way = sealing.Direction.CURATOR_TO_AGGREGATOR
    other = statement("round descriptor").aggregators[1].identity_key
    ends = sealing_sessions.SessionEnds("north", PARTY, IDENTITY.public_key, AGGREGATOR, other, way)

    def opened(body: bytes) -> bytes:
        """The secret, if the announcement of this body leads to the key that follows from it."""
        said = statement("session").model_copy(update={"sealed": body})
        key = sealing_sessions.open_session(
            IDENTITY.sign(sealing_sessions.SESSION_LABEL, said), ends, SEAL_KEY
        )
        assert key == sealing_sessions.session_key(SECRET, said)
        return SECRET

    info = ends.info(SEAL_KEY.public.hash, SESSION)
    return lambda text: SEAL_KEY.public.seal(text, info), opened


def _wrapped() -> Both:
    wrapping = Wrapping(KEY, AGGREGATOR, 3, SEAL_KEY.public.hash)
    return lambda text: wrapping.wrap("seed", text), lambda body: wrapping.unwrap("seed", body)


def _value() -> Both:
    purpose = seed_purpose("job-1")
    return lambda text: STORAGE.seal(purpose, text), lambda body: STORAGE.open(purpose, body)


def _file() -> Both:
    purpose = "dataset data-1 content"

    def sealed(text: bytes) -> bytes:
        with tempfile.TemporaryDirectory() as place:
            writer = SealedWriter(Path(place) / "file", STORAGE, purpose)
            writer.write(text)
            writer.close()
            return (Path(place) / "file").read_bytes()

    def opened(body: bytes) -> bytes:
        with tempfile.NamedTemporaryFile() as file:
            file.write(body)
            file.flush()
            with SealedReader(Path(file.name), STORAGE, purpose) as reader:
                return reader.read()

    return sealed, opened


def _backup(holder: Passphrase | Recipient) -> Both:
    def sealed(text: bytes) -> bytes:
        file = io.BytesIO()
        sealer = Sealer(file, holder)
        sealer.write(text)
        sealer.finish()
        return file.getvalue()

    return sealed, lambda body: Opener(io.BytesIO(body), holder).read()


def _path() -> Both:
    """A body is the key for one recipient, the nonce and the ciphertext."""

    def sealed(text: bytes) -> bytes:
        made = paths.sealed(text.decode(), [SEAL_KEY.public.raw], "path-1")
        return made.keys[0] + made.nonce + made.ciphertext

    def opened(body: bytes) -> bytes:
        found = SealedPath("path-1", body[1168:1180], body[1180:], (body[:1168],))
        return "".join(str(each) for each in paths.opened(found, SEAL_KEY)).encode()

    return sealed, opened


SEALED: Final[dict[str, Both]] = {
    "backup for a passphrase": _backup(Passphrase("a passphrase of the examples")),
    "backup for a recipient": _backup(Recipient(SEAL_KEY.public, SEAL_KEY)),
    "batch": _batch(),
    "lone piece": _octets(sealing_sessions.piece_context(DIGEST, PARTY, AGGREGATOR, 1, 2)),
    "lone piece, a seed": _octets(
        sealing_sessions.piece_context(DIGEST, PARTY, AGGREGATOR, 1, 200)
    ),
    "part": _part(),
    "proved piece": _octets(proved_pieces.piece_context(PROVED, PARTY, AGGREGATOR, 1, 48)),
    "sealed path": _path(),
    "session": _session(),
    "stored file": _file(),
    "stored value": _value(),
    "verifier shares": _chunk(),
    "verify key share": _octets(shares.key_share_context(PROVED, "agg-1", AGGREGATOR, 1)),
    "wrapped key": _wrapped(),
}
