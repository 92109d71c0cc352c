"""The directory of wrapping keys: files of their owner alone, and a number that only rises."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from aggregator.seal_keys import KeyDirectory, KeyDirectoryTaken


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_wrapping_key_is_made_read_and_destroyed(tmp_path: Path) -> None:
    directory = KeyDirectory(tmp_path / "keys")
    assert directory.read(1) is None
    assert directory.numbers() == ()
    one, other = directory.make(1), directory.make(12)
    assert len(one) == len(other) == 32 and one != other
    assert (directory.read(1), directory.read(12)) == (one, other)
    assert directory.numbers() == (1, 12)
    assert mode(tmp_path / "keys") == 0o700
    assert mode(tmp_path / "keys" / "1.kek") == 0o600
    directory.destroy(1)
    directory.destroy(1)
    assert directory.read(1) is None
    assert directory.numbers() == (12,)


def test_a_file_is_overwritten_before_it_is_removed(tmp_path: Path) -> None:
    """Whoever holds the file open sees zeros."""
    directory = KeyDirectory(tmp_path)
    content = directory.make(3)
    with (tmp_path / "3.kek").open("rb") as held:
        assert held.read() == content
        directory.destroy(3)
        held.seek(0)
        assert held.read() == bytes(32)


def test_a_file_that_its_maker_did_not_use_is_made_anew(tmp_path: Path) -> None:
    directory = KeyDirectory(tmp_path)
    first = directory.make(3)
    assert directory.make(3) != first
    assert directory.numbers() == (3,)


def test_the_generation_only_rises(tmp_path: Path) -> None:
    directory = KeyDirectory(tmp_path / "keys")
    assert directory.generation() == 0
    for number, expected in ((3, 3), (2, 3), (3, 3), (11, 11)):
        directory.published(number)
        assert directory.generation() == KeyDirectory(tmp_path / "keys").generation() == expected
    assert directory.numbers() == ()


def test_a_directory_has_one_owner(tmp_path: Path) -> None:
    KeyDirectory(tmp_path).claim("one")
    KeyDirectory(tmp_path).claim("one")
    with pytest.raises(KeyDirectoryTaken):
        KeyDirectory(tmp_path).claim("another")
