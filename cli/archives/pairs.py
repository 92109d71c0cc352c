"""The pair that will follow a service's identity, in a sealed file. Spec: keys, section 5.1."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from cli.archives.envelope import BackupRefused, Holder, Opener
from tacit.crypto.hybrid_signing import SECRET_BYTES

CONTENT: Final = b"tacit next identity\n"


def opened_pair(file: Path, holder: Holder) -> bytes:
    """The secret bytes of a sealed pair. Raises BackupRefused, ValueError."""
    with file.open("rb") as stream:
        try:
            content = Opener(stream, holder).read()
        except BackupRefused as error:
            said = str(error).replace("the backup", "it").replace("a backup", "a sealed key")
            raise ValueError(f"{file}: {said}") from None
    if not content.startswith(CONTENT) or len(content) != len(CONTENT) + SECRET_BYTES:
        raise ValueError(f"{file}: holds no next identity")
    return content.removeprefix(CONTENT)
