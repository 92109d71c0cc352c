"""Key pairs of recipients: whoever opens a backup, or a sealed path. `tacit recipient-key`.

Spec: keys, section 2.7. A private key is a seed of 32 bytes, written `tctkey_...`; its
public key has 1,216 bytes.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Final

import typer

from cli.context import plain_errors
from tacit.crypto.seal_keys import SealKey
from tacit.wire import encode_binary, parse_binary

PREFIX: Final = "tctkey_"
_MOST_KEY_BYTES: Final = 4096


def recipient_key(
    file: Annotated[Path, typer.Argument(help="Where the private key is written; not replaced.")],
) -> None:
    """Make a key pair for backups and sealed paths.

    The private key is written to a file, the public key to the screen.
    """
    seed = SealKey.new_seed()
    private, shown = f"{PREFIX}{encode_binary(seed)}", SealKey(seed).public.raw
    with plain_errors():
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(opened, "w") as target:
            target.write(private + "\n")
    typer.echo(encode_binary(shown))


def private_key(file: Path) -> SealKey:
    """The private key of a file. Raises OSError, ValueError."""
    with file.open("rb") as stream:
        content = stream.read(_MOST_KEY_BYTES)
    try:
        text = content.decode("ascii").strip()
        if not text.startswith(PREFIX):
            raise ValueError
        return SealKey(parse_binary(text.removeprefix(PREFIX)))
    except ValueError:
        raise ValueError(
            f"the file holds no private key: {PREFIX}... as `tacit recipient-key` wrote it"
        ) from None
