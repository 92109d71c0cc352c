"""Key pairs of recipients: whoever opens a backup, or a sealed path. `tacit recipient-key`.

Spec: keys, section 2.7. A private key of suite 2 is a seed of 32 bytes, written `tctkey2_...`; its
public key has 1,216 bytes. One of before is an X25519 key of 32 bytes, in base64url or PEM.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Final

import typer
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from cli.context import plain_errors
from tacit.crypto.seal_keys import SealKey
from tacit.wire import encode_binary, parse_binary

PREFIX: Final = "tctkey2_"
PrivateKey = X25519PrivateKey | SealKey
_MOST_KEY_BYTES: Final = 4096


def recipient_key(
    file: Annotated[Path, typer.Argument(help="Where the private key is written; not replaced.")],
    classical: Annotated[
        bool, typer.Option(help="X25519 alone, for who opens it with an earlier version.")
    ] = False,
) -> None:
    """Make a key pair for backups and sealed paths.

    The private key is written to a file, the public key to the screen.
    """
    if classical:
        made = X25519PrivateKey.generate()
        private, public = encode_binary(made.private_bytes_raw()), made.public_key()
        shown = public.public_bytes_raw()
    else:
        seed = SealKey.new_seed()
        private, shown = f"{PREFIX}{encode_binary(seed)}", SealKey(seed).public.raw
    with plain_errors():
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(opened, "w") as target:
            target.write(private + "\n")
    typer.echo(encode_binary(shown))


def private_key(file: Path) -> PrivateKey:
    """The private key of a file. Raises OSError, ValueError."""
    with file.open("rb") as stream:
        content = stream.read(_MOST_KEY_BYTES)
    try:
        if content.startswith(b"-----"):
            found: object = load_pem_private_key(content, None)
        else:
            found = _of_text(content.decode("ascii").strip())
    except (ValueError, TypeError, UnsupportedAlgorithm):
        found = None
    if not isinstance(found, PrivateKey):
        raise ValueError(
            f"the file holds no private key: {PREFIX}... as `tacit recipient-key` wrote it, or of "
            "X25519 without a password (PEM, or 32 bytes as base64url)"
        )
    return found


def _of_text(text: str) -> PrivateKey:
    if text.startswith(PREFIX):
        return SealKey(parse_binary(text.removeprefix(PREFIX)))
    return X25519PrivateKey.from_private_bytes(parse_binary(text))
