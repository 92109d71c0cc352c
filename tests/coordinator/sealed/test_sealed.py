"""The storage key, sealed values and sealed files."""

from __future__ import annotations

import base64
import pickle
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from common.sealed_streams import CHUNK_BYTES
from coordinator.errors import StorageKeyWrong
from coordinator.sealed_files import SealedWriter, open_sealed
from coordinator.settings import CoordinatorSettings
from coordinator.storage_keys import KeySource, StorageKey, StorageKeys
from tests.property_examples import examples

KEY = StorageKey(bytes(range(32)))
KEYS = StorageKeys(KeySource((KEY,), Path("nowhere")))
KEYS.place(1, KEY)


def source(**settings: Any) -> KeySource:
    return KeySource.of(CoordinatorSettings(**settings))


@given(plain=st.binary(max_size=200), purpose=st.text(min_size=1, max_size=20))
def test_a_value_opens_for_its_purpose_only(plain: bytes, purpose: str) -> None:
    sealed = KEY.seal(purpose, plain)
    assert KEY.open(purpose, sealed) == plain
    assert KEY.seal(purpose, plain) != sealed
    with pytest.raises(StorageKeyWrong):
        KEY.open(purpose + "x", sealed)
    with pytest.raises(StorageKeyWrong):
        StorageKey(bytes(32)).open(purpose, sealed)
    with pytest.raises(StorageKeyWrong):
        KEY.open(purpose, sealed[:-1])
    with pytest.raises(StorageKeyWrong):
        KEY.open(purpose, b"short")


def test_a_keyed_hash_depends_on_key_purpose_and_content() -> None:
    one = KEY.keyed_hash("content", b"digest")
    others = {
        KEY.keyed_hash("other", b"digest"),
        KEY.keyed_hash("content", b"other"),
        StorageKey(bytes(32)).keyed_hash("content", b"digest"),
    }
    assert one == KEY.keyed_hash("content", b"digest")
    assert one not in others
    assert len(others) == 3


def test_a_key_is_made_once_and_private(tmp_path: Path) -> None:
    found = source(data_dir=tmp_path / "data")
    found.make_first()
    (first,) = found.found()
    path = tmp_path / "data" / "storage.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found.make_first()
    assert found.found() == (first,)
    assert [item.name for item in path.parent.iterdir()] == ["storage.key"]
    with pytest.raises(TypeError):
        pickle.dumps(first)


def test_a_key_may_be_given(tmp_path: Path) -> None:
    text = base64.urlsafe_b64encode(bytes(range(32))).decode()
    found = source(data_dir=tmp_path, storage_key=SecretStr(text))
    found.make_first()
    assert found.found() == (KEY,)
    assert not (tmp_path / "storage.key").exists()
    two = source(data_dir=tmp_path, storage_key=SecretStr(f"{'A' * 43}\n{text}\n"))
    assert two.found() == (StorageKey(bytes(32)), KEY)
    for wrong in ("", "abc", text + "AAAA", "\n".join([text] * 3), f"{text}\nabc"):
        with pytest.raises(StorageKeyWrong):
            source(data_dir=tmp_path, storage_key=SecretStr(wrong))


def test_a_key_of_the_data_directory_is_overwritten_before_it_goes(tmp_path: Path) -> None:
    found = source(data_dir=tmp_path)
    found.make_first()
    (before,) = found.found()
    found.keep(2, KEY)
    assert found.found() == (before, KEY)
    first = tmp_path / "storage.key"
    again = tmp_path / "again"
    again.hardlink_to(first)  # shows what is written into the file
    found.promote(2)
    assert not any(again.read_bytes())
    assert found.found() == (KEY,)
    assert [path.name for path in tmp_path.glob("storage*")] == ["storage.key"]
    assert stat.S_IMODE(first.stat().st_mode) == 0o600
    found.promote(2)
    assert found.found() == (KEY,)
    # Killed after the file was overwritten, and after it was unlinked.
    for left in (bytes(44), None):
        found.keep(3, before)
        first.unlink() if left is None else first.write_bytes(left)
        assert found.found() == (before,)
        found.promote(3)
        assert found.found() == (before,)


def written(path: Path, content: bytes, purpose: str = "p", pieces: int = 3) -> Path:
    writer = SealedWriter(path, KEYS, purpose)
    step = max(1, len(content) // pieces)
    for start in range(0, len(content), step):
        writer.write(content[start : start + step])
    writer.close()
    return path


@examples(15)
@given(
    size=st.sampled_from((0, 1, 1000, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1)),
    pieces=st.integers(1, 5),
)
def test_a_file_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, size: int, pieces: int
) -> None:
    content = bytes(index % 251 for index in range(1000)) * (size // 1000 + 1)
    content = content[:size]
    path = written(tmp_path_factory.mktemp("sealed") / "file", content, pieces=pieces)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with open_sealed(path, KEYS, "p") as stream:
        assert stream.read() == content
        stream.seek(size // 2)
        assert stream.read(10) == content[size // 2 : size // 2 + 10]
        stream.seek(-min(size, 5), 2)
        assert stream.read() == content[size - min(size, 5) :]


def test_a_file_that_was_touched_does_not_open(tmp_path: Path) -> None:
    content = b"a planted value " * (CHUNK_BYTES // 8)
    path = written(tmp_path / "file", content)
    sealed = path.read_bytes()
    assert b"planted" not in sealed
    header, chunk = 51, CHUNK_BYTES + 16
    spoilt = {
        "cut to whole chunks": sealed[: header + chunk],
        "cut anywhere": sealed[:-1],
        "no chunk at all": sealed[:header],
        "chunks exchanged": sealed[:header]
        + sealed[header + chunk : header + 2 * chunk]
        + sealed[header : header + chunk]
        + sealed[header + 2 * chunk :],
        "a bit": sealed[:100] + bytes((sealed[100] ^ 1,)) + sealed[101:],
        "another header": b"x" + sealed[1:],
    }
    for what, data in spoilt.items():
        path.write_bytes(data)
        with pytest.raises(StorageKeyWrong):
            open_sealed(path, KEYS, "p").read()
        assert path.exists(), what
    path.write_bytes(sealed)
    with pytest.raises(StorageKeyWrong):
        open_sealed(path, KEYS, "q")
