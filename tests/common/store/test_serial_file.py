"""The highest serial of an identity, in a file. Spec: keys, section 5.2."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.store.own_identities import IdentityPutBack, SerialFile


def test_the_number_only_rises(tmp_path: Path) -> None:
    file = SerialFile(tmp_path / "made" / "identity.serial")
    assert file.read() == 0
    file.check(0)
    file.keep(2)
    file.keep(1)
    assert file.read() == 2
    assert file.path.stat().st_mode & 0o777 == 0o600
    file.check(2)
    file.check(3)
    with pytest.raises(IdentityPutBack, match="identity_superseded"):
        file.check(1)
