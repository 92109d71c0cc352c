"""Backups: one file, sealed, whole or refused; and a restore that leaves all or nothing."""

from __future__ import annotations

import asyncio
import io
import json
import os
import sqlite3
import stat
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from cli.main import app
from cli.services import archive
from cli.services.sealed_files import (
    CHUNK_BYTES,
    MAGIC,
    BackupRefused,
    Holder,
    Opener,
    Passphrase,
    Recipient,
    Sealer,
)
from common.runtime.settings import LAST_BACKUP
from common.store.database import migrate, open_database
from tacit.crypto.sealing import SealKey
from tests.property_examples import examples

ROOT = Path(__file__).parents[2]
SERVICES = ("coordinator", "aggregator", "curator")
PRIVATE = SealKey(bytes(32))
OWNER = Recipient(PRIVATE.public, PRIVATE)


def sealed(content: bytes, holder: Holder = OWNER, step: int = 70_000) -> bytes:
    file = io.BytesIO()
    sealer = Sealer(file, holder)
    for start in range(0, len(content), step):
        sealer.write(content[start : start + step])
    sealer.finish()
    return file.getvalue()


def opened(data: bytes, holder: Holder = OWNER) -> bytes:
    opener, found = Opener(io.BytesIO(data), holder), bytearray()
    while part := opener.read(100_000):
        found += part
    return bytes(found)


# --- the envelope --------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1])
def test_what_is_sealed_opens_again(size: int) -> None:
    content = os.urandom(size)
    assert opened(sealed(content)) == content


def test_a_passphrase_opens_its_own() -> None:
    data = sealed(b"x", Passphrase("correct horse battery"))
    assert opened(data, Passphrase("correct horse battery")) == b"x"
    for other in (Passphrase("correct horse batterY"), OWNER):
        with pytest.raises(BackupRefused):
            opened(data, other)


def test_another_recipient_opens_nothing() -> None:
    data = sealed(b"x" * 100_000)
    assert data.startswith(MAGIC + b"x")
    another = SealKey(bytes(31) + b"1")
    for holder in (Recipient(another.public, another), Recipient(PRIVATE.public)):
        with pytest.raises(BackupRefused, match="the key does not open"):
            opened(data, holder)
    start = len(MAGIC) + 1 + 32
    assert int.from_bytes(data[start : start + 2], "big") == 1168
    for place in (start + 2, start + 2 + 1087, start + 2 + 1088, start + 2 + 1120, start + 1169):
        altered = bytearray(data)  # the ML-KEM part, the X25519 part, the secret, its tag
        altered[place] ^= 1
        with pytest.raises(BackupRefused, match="the key does not open"):
            opened(bytes(altered))


LONG = sealed(bytes(2 * CHUNK_BYTES + 5))


@examples(60)
@given(place=st.integers(0, 400) | st.integers(0, len(LONG) - 1), bit=st.integers(0, 7))
def test_every_flipped_bit_shows(place: int, bit: int) -> None:
    data = bytearray(LONG)
    data[place] ^= 1 << bit
    with pytest.raises(BackupRefused):
        opened(bytes(data))


def test_a_file_that_was_cut_off_shows() -> None:
    for left in (0, 10, 300, len(LONG) - CHUNK_BYTES, len(LONG) - 21):
        with pytest.raises(BackupRefused):
            opened(LONG[:left])


def test_chunks_cannot_change_places() -> None:
    size = CHUNK_BYTES + 16
    start = len(LONG) - (5 + 16) - 2 * size
    first, second = LONG[start : start + size], LONG[start + size : start + 2 * size]
    with pytest.raises(BackupRefused, match="altered"):
        opened(LONG[:start] + second + first + LONG[start + 2 * size :])


# --- the commands --------------------------------------------------------------------------------


class Desk:
    """The two commands with a service's environment, in this process."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.key = directory / "key"
        made = self.run("recipient-key", self.key)
        self.recipient = made.stdout.strip()

    def run(self, *arguments: object, **environment: str) -> Result:
        return CliRunner().invoke(app, [str(each) for each in arguments], env=environment)

    def refused(self, *arguments: object, **environment: str) -> str:
        """The one line of a command that ends with exit code 2."""
        done = self.run(*arguments, **environment)
        assert done.exit_code == 2, done.output
        (line,) = done.stderr.strip().splitlines()
        return line

    def state(self, service: str, name: str = "live") -> dict[str, str]:
        """A data directory as a start makes it, and the environment for it."""
        home = self.directory / name
        home.mkdir(mode=0o700)
        url = f"sqlite:///{home / f'{service}.db'}"

        async def make() -> None:
            database = open_database(url)
            await migrate(database, ROOT / service / "migrations")
            await database.dispose()

        asyncio.run(make())
        (home / "operator.token").write_text("tct_token")
        return {"TACIT_DATA_DIR": str(home)}

    def back_up(self, service: str, environment: dict[str, str]) -> Path:
        out = self.directory / "backup"
        done = self.run(
            "backup", service, "--out", out, "--recipient", self.recipient, **environment
        )
        assert done.exit_code == 0, done.output
        return out


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    for name in [name for name in os.environ if name.startswith("TACIT_")]:
        monkeypatch.delenv(name)
    return Desk(tmp_path)


def files_of(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def rows(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


@pytest.mark.parametrize("service", SERVICES)
def test_a_state_comes_back_elsewhere(desk: Desk, service: str) -> None:
    live = desk.state(service)
    home = Path(live["TACIT_DATA_DIR"])
    (home / "service.log").write_text("not state")
    if service == "coordinator":
        (home / "storage.key").write_text("k")
        for name in ("datasets/1/file.sealed", "jobs/2/result.json", "jobs/draft-3/x"):
            (home / name).parent.mkdir(parents=True)
            (home / name).write_bytes(os.urandom(100))
    out = desk.back_up(service, live)
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert not list(home.glob(".backup-*"))
    check = desk.run("restore", service, out, "--key", desk.key, "--check", **live)
    assert "is valid" in check.stdout, check.output

    elsewhere = {"TACIT_DATA_DIR": str(desk.directory / "deep" / "elsewhere")}
    done = desk.run("restore", service, out, "--key", desk.key, "--json", **elsewhere)
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert (said["service"], said["set_aside"]) == (service, [])
    found = files_of(Path(elsewhere["TACIT_DATA_DIR"]))
    expected = files_of(home)
    assert expected.pop(LAST_BACKUP) == b""
    for name in ("service.log", "jobs/draft-3/x", f"{service}.db"):
        expected.pop(name, None)
    assert found.pop(f"{service}.db").startswith(b"SQLite format 3")
    assert found == {**expected, "restored": b""}
    restored = Path(elsewhere["TACIT_DATA_DIR"])
    assert rows(restored / f"{service}.db") == rows(home / f"{service}.db")
    assert all(stat.S_IMODE(path.stat().st_mode) in (0o600, 0o700) for path in restored.rglob("*"))


def test_what_the_settings_give_does_not_travel(desk: Desk) -> None:
    live = desk.state("coordinator")
    (Path(live["TACIT_DATA_DIR"]) / "storage.key").write_text("of before")
    given = {"TACIT_STORAGE_KEY": "A" * 43, "TACIT_OPERATOR_TOKEN": "t" * 32}
    out = desk.back_up("coordinator", live | given)
    again = {"TACIT_DATA_DIR": str(desk.directory / "again")} | given
    assert desk.run("restore", "coordinator", out, "--key", desk.key, **again).exit_code == 0
    assert sorted(files_of(desk.directory / "again")) == ["coordinator.db", "restored"]


def test_refusals_are_one_line_and_change_nothing(desk: Desk) -> None:
    live = desk.state("curator")
    out = desk.back_up("curator", live)
    target = desk.directory / "target"
    there = {"TACIT_DATA_DIR": str(target)}
    restore = ("restore", "curator", out, "--key", desk.key)

    altered = bytearray(out.read_bytes())
    altered[len(altered) // 2] ^= 1
    bad = desk.directory / "bad"
    bad.write_bytes(altered)
    assert "altered" in desk.refused("restore", "curator", bad, "--key", desk.key, **there)
    assert "altered" in desk.refused(*restore[:2], bad, *restore[3:], "--check", **there)
    other = desk.directory / "other"
    desk.run("recipient-key", other)
    assert "does not open" in desk.refused(*restore[:3], "--key", other, **there)
    assert "of kind curator" in desk.refused("restore", "aggregator", *restore[2:], **there)
    words = desk.directory / "words"
    words.write_text("short")
    assert "12 characters" in desk.refused(*restore[:3], "--passphrase-file", words, **there)
    words.write_text("long enough to be one")
    assert "private key" in desk.refused(*restore[:3], "--passphrase-file", words, **there)
    assert "either" in desk.refused(*restore, "--passphrase-file", words, **there)
    assert "either" in desk.refused(*restore[:3], **there)
    assert "unknown service" in desk.refused("backup", "meter", "--out", bad, **there)
    assert "exists already" in desk.refused(
        "backup", "curator", "--out", out, "--recipient", desk.recipient, **live
    )
    assert "public key" in desk.refused("backup", "curator", "--out", "x", "--recipient", "y")
    new_key = Path(live["TACIT_DATA_DIR"]) / "storage.key.2"
    new_key.touch()
    during = ("backup", "curator", "--out", desk.directory / "during", "--recipient")
    assert "being rotated" in desk.refused(*during, desk.recipient, **live)
    new_key.unlink()
    assert "no database" in desk.refused(
        "backup", "aggregator", "--out", target, "--recipient", desk.recipient, **live
    )
    assert not target.exists() or files_of(target) == {}


def test_another_name_and_a_newer_schema_are_refused(desk: Desk) -> None:
    live = desk.state("aggregator")
    database = Path(live["TACIT_DATA_DIR"]) / "aggregator.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
    out = desk.back_up("aggregator", live)
    there = {"TACIT_DATA_DIR": str(desk.directory / "target")}
    restore = ("restore", "aggregator", out, "--key", desk.key)
    assert "newer version" in desk.refused(*restore, **there)
    other = there | {"TACIT_AGGREGATOR_ID": "aggregator-2"}
    assert "is of aggregator-1" in desk.refused(*restore, **other)
    assert not (desk.directory / "target").exists()


def test_a_state_is_set_aside_only_when_told(desk: Desk) -> None:
    live = desk.state("curator")
    home = Path(live["TACIT_DATA_DIR"])
    out = desk.back_up("curator", live)
    (home / "operator.token").write_text("of later")
    restore = ("restore", "curator", out, "--key", desk.key)
    before = files_of(home)
    assert "--replace" in desk.refused(*restore, **live)
    assert files_of(home) == before

    with closing(sqlite3.connect(home / "curator.db")) as running:
        running.execute("SELECT count(*) FROM sqlite_master").fetchone()
        running.execute("PRAGMA journal_mode=WAL").fetchone()
        running.execute("SELECT count(*) FROM party").fetchone()
        assert "stop all its processes" in desk.refused(*restore, "--replace", **live)

    done = desk.run(*restore, "--replace", "--json", **live)
    assert done.exit_code == 0, done.output
    aside = json.loads(done.stdout)["set_aside"]
    assert (home / "operator.token").read_text() == "tct_token"
    kept = {Path(path).name.partition(".replaced-")[0] for path in aside}
    assert {"operator.token", "curator.db"} <= kept
    assert (home / "restored").exists()


def test_a_restore_that_fails_in_the_middle_leaves_everything_as_it_was(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = desk.state("curator")
    home = Path(live["TACIT_DATA_DIR"])
    out = desk.back_up("curator", live)
    before = files_of(home)
    real = Path.rename
    for moment in range(6):
        calls = iter(range(100))

        def rename(path: Path, target: Path, moment: int = moment, calls: object = calls) -> Path:
            if next(calls) == moment:  # type: ignore[call-overload]
                raise OSError("the disk is gone")
            return real(path, target)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "rename", rename)
            done = desk.run("restore", "curator", out, "--key", desk.key, "--replace", **live)
        if done.exit_code == 0:
            assert moment == 5  # marker; token away and back; database away and back
            return
        assert "the disk is gone" in done.stderr
        assert files_of(home) == before
    raise AssertionError("more moves than were counted")


def test_a_member_that_is_gone_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"1")
    manifest = archive.Manifest(
        service="curator",
        name="",
        version="0",
        schema_revision="0",
        database="sqlite",
        created=datetime.now(UTC),
    )
    members = [("files/one", tmp_path / "one"), ("files/two", tmp_path / "two")]
    with (tmp_path / "out").open("wb") as file:
        assert archive.write(file, OWNER, manifest, members) == 1
    with (
        (tmp_path / "out").open("rb") as file,
        archive.opened(file, OWNER) as (found, rest),
    ):
        assert found == manifest
        assert rest(lambda name: tmp_path / "put" / name) == 1
    assert (tmp_path / "put" / "files" / "one").read_bytes() == b"1"
