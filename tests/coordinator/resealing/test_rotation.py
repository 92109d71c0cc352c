"""The storage key is replaced while the coordinator runs: everything is sealed anew."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from sqlalchemy import update

from common.store.transactions import Database
from common.web.app import StartFailed
from common.web.dependencies import part_of
from coordinator import storage_keys
from coordinator.datasets.datasets import Datasets
from coordinator.errors import StorageKeyUnavailable, StorageKeyWrong
from coordinator.jobs.results import Results
from coordinator.key_rotation import Resealing
from coordinator.sealed_files import SUFFIX, file_generation, open_sealed, reseal_file
from coordinator.storage_keys import KeySource, StorageKey, StorageKeys, seed_purpose
from coordinator.store import datasets as dataset_store
from coordinator.store import jobs as job_store
from coordinator.store import registry as key_store
from coordinator.store.tables import dataset_contents, job_attempts
from tacit.wire import encode_binary
from tests.coordinator.conftest import Houses
from tests.coordinator.datasets.forms import CSV, hand_in
from tests.coordinator.datasets.test_routes import values
from tests.coordinator.double import House, pointers, problem
from tests.coordinator.jobs.office import job_row
from tests.coordinator.sealed.test_sealed import KEY, KEYS, written

NEW = bytes(range(100, 132))
BUDGET: dict[str, Any] = {"epsilon": "2"}


async def rotate(it: House, key: bytes = NEW) -> Any:
    """Ask for a new key; the answer."""
    return await it.ask("PUT", "/v1/storage-key", {"key": encode_binary(key)})


async def ended(it: House) -> dict[str, Any]:
    """The state once no rotation runs."""
    async with asyncio.timeout(120):
        while (found := (await it.ask("GET", "/v1/storage-key")).json())["state"] != "idle":
            part_of(it.app, Resealing).wake()
            await asyncio.sleep(0.02)
    state: dict[str, Any] = found
    return state


async def kept(it: House, content: bytes = CSV, **fields: Any) -> dict[str, Any]:
    answer = await hand_in(it, content, budget=BUDGET, **fields)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def ledger(it: House, dataset_id: str) -> str:
    found: str = (await it.ask("GET", f"/v1/datasets/{dataset_id}/ledger")).json()["ledger"]
    return found


async def seeded(it: House, dataset_id: str) -> str:
    """A queued job that no worker takes, with a sealed seed."""
    async with part_of(it.app, Database).begin() as transaction:
        keys = part_of(it.app, StorageKeys)
        job_id = f"job-of-{dataset_id[-12:]}"
        secret = keys.seal(seed_purpose(job_id), b"s" * 32)
        await job_store.add(transaction, job_row(id=job_id, dataset_id=dataset_id, secret=secret))
    return job_id


def evaluated(it: House, job_id: str, text: bytes = b"the true values") -> Path:
    """An evaluation, sealed as a job's outcome is."""
    results = part_of(it.app, Results)
    path = results.directory / job_id / "private" / "evaluation.sealed"
    path.parent.mkdir(parents=True)
    path.write_bytes(results.keys.seal(f"job evaluation {job_id}", text))
    return path


async def test_everything_is_sealed_anew_and_the_old_key_is_destroyed(
    house: Houses, tmp_path: Path
) -> None:
    home = tmp_path / "coordinator"
    async with house(0) as it:
        made = await kept(it)
        gone = await kept(it, b"x,y\n8,9\n")
        account = await ledger(it, made["id"]), await ledger(it, gone["id"])
        assert (await it.ask("DELETE", f"/v1/datasets/{gone['id']}")).status_code == 204
        job = await seeded(it, made["id"])
        evaluation = evaluated(it, job)
        first = (await it.ask("GET", "/v1/storage-key")).json()
        assert first == {"generation": 1, "state": "idle", "left": 0, "kept_in": "storage.key"}
        before = StorageKeys(KeySource(KeySource.of(it.settings).found(), home))
        before.place(1, before.source.given[0])

        answer = await rotate(it)
        assert answer.status_code == 202, answer.text
        assert answer.json()["generation"] == 2
        assert "state" in (await rotate(it)).json()  # the same again changes nothing
        assert await ended(it) == {**first, "generation": 2}

        (sealed,) = (home / "datasets").glob("*/*.sealed")
        assert file_generation(sealed) == 2
        assert [path.name for path in home.glob("storage.key*")] == ["storage.key"]
        with pytest.raises((StorageKeyWrong, StorageKeyUnavailable)):
            reseal_file(sealed, before, f"dataset {made['id']} file")
        with pytest.raises((StorageKeyWrong, StorageKeyUnavailable)):
            before.open(f"job evaluation {job}", evaluation.read_bytes())

        await it.restart()
        keys = part_of(it.app, StorageKeys)
        assert (await values(it, made["id"])).rows == 2
        assert part_of(it.app, Results).evaluation(job) == b"the true values"
        async with part_of(it.app, Database).reading() as transaction:
            found = await job_store.find(transaction, job)
            hashes = (await transaction.execute(dataset_contents.select())).all()
        assert found is not None
        assert found.secret is not None
        assert keys.open(seed_purpose(job), found.secret) == b"s" * 32
        assert len(hashes) == 2
        # Both contents are known again: the one that is kept, and the one that was deleted.
        assert await ledger(it, (await kept(it))["id"]) == account[0]
        assert await ledger(it, (await kept(it, b"x,y\n8,9\n"))["id"]) == account[1]

        # A second rotation carries both on.
        await rotate(it, NEW[::-1])
        assert (await ended(it))["generation"] == 3
        assert await ledger(it, (await kept(it))["id"]) == account[0]
        assert await ledger(it, (await kept(it, b"x,y\n8,9\n"))["id"]) == account[1]
        assert await ledger(it, (await kept(it, b"x,y\n8,8\n"))["id"]) not in account


async def test_only_hashes_of_deleted_contents_stay_under_an_old_key(house: Houses) -> None:
    async with house(0) as it:
        await kept(it)
        old = part_of(it.app, StorageKeys).of(1)
        datasets = part_of(it.app, Datasets)
        async with datasets.database.reading() as transaction:
            (row,) = await dataset_store.page(transaction, None, 2)
        _, digest = datasets.vault.measure(row.id, row.parts)
        async with part_of(it.app, Database).reading() as transaction:
            (before,) = (await transaction.execute(dataset_contents.select())).all()
        assert before.keyed_hash == old.keyed_hash("dataset content", digest).hex()
        await rotate(it)
        await ended(it)
        async with part_of(it.app, Database).reading() as transaction:
            (after,) = (await transaction.execute(dataset_contents.select())).all()
        new = StorageKey(NEW).keyed_hash("dataset content", digest).hex()
        assert (after.keyed_hash, after.ledger_id) == (new, before.ledger_id)


async def test_a_replica_without_the_new_key_says_so(
    house: Houses, database_url: str, tmp_path: Path
) -> None:
    """Keys that settings give: all replicas are started with two lines first."""
    one, two = encode_binary(bytes(32)), encode_binary(NEW)
    async with house(0, database_url, storage_key=SecretStr(one)) as it:
        await kept(it)
        refused = await rotate(it)
        assert problem(refused) == (503, "storage_key_unavailable")
        assert "two lines" in refused.json()["detail"]
        both = it.settings.model_copy(update={"storage_key": SecretStr(f"{two}\n{one}\n")})
        async with it.replica(both) as (app, client):
            late, it.client = it.client, client
            assert (await rotate(it)).status_code == 202
            for _ in range(100):
                await part_of(app, Resealing).look()
                part_of(it.app, Resealing).wake()
            it.client = late
            # The process of before reads and seals nothing that it could not.
            assert problem(await hand_in(it)) == (503, "storage_key_unavailable")
            assert (await it.ask("GET", "/v1/datasets")).status_code == 200
        await it.restart(storage_key=both.storage_key)
        assert (await ended(it))["kept_in"] == "settings"
        assert list((tmp_path / "coordinator").glob("storage.key*")) == []
        await kept(it)
        await it.restart(storage_key=SecretStr(two))
        await kept(it)
        await it.stop()
        with pytest.raises(StartFailed, match="storage_key_wrong"):
            await it.start(storage_key=SecretStr(one))
        await it.start(storage_key=SecretStr(two))


async def test_one_rotation_at_a_time_and_only_by_an_operator(house: Houses) -> None:
    async with house(0) as it:
        made = await kept(it)
        path = it.settings.data_dir / "datasets" / made["id"] / "file.sealed"
        path.write_bytes(path.read_bytes()[:-1])  # nothing opens it: the rotation cannot end
        assert (await rotate(it)).status_code == 202
        await part_of(it.app, Resealing).look()
        found = (await it.ask("GET", "/v1/storage-key")).json()
        assert (found["state"], found["left"]) == ("sealing", 1)
        assert problem(await rotate(it, NEW[::-1])) == (409, "storage_key_rotating")
        assert {item.name for item in it.settings.data_dir.glob("storage.key*")} == {
            "storage.key",
            "storage.key.2",
        }
        token = (await it.ask("POST", "/v1/tokens", {"scope": "analyst"})).json()["token"]
        for method, body in (("GET", None), ("PUT", {"key": encode_binary(NEW)})):
            answer = await it.ask(method, "/v1/storage-key", body, token=token)
            assert problem(answer) == (403, "scope_missing")
        for wrong in (encode_binary(NEW[1:]), "no key", 7, None):
            answer = await it.ask("PUT", "/v1/storage-key", {"key": wrong})
            assert answer.status_code == 422
            assert pointers(answer) == ["/key"]
            assert encode_binary(NEW[1:]) not in answer.text


async def test_what_waits_for_an_attempt_keeps_the_old_key(house: Houses) -> None:
    """An attempt that began before derived its blocks' key from the old one."""
    async with house(0) as it:
        made = await kept(it)
        job = await seeded(it, made["id"])
        values: dict[str, Any] = {"id": "a", "job_id": job, "number": 1, "state": job_store.HELD}
        values |= {"ticket_hash": "t", "session_hash": None, "holder": "h", "generation": 1}
        now = part_of(it.app, Datasets).clock.now()
        async with part_of(it.app, Database).begin() as transaction:
            await transaction.execute(job_attempts.insert().values(**values, until=now))
        await rotate(it)
        for _ in range(3):
            await part_of(it.app, Resealing).look()
        found = (await it.ask("GET", "/v1/storage-key")).json()
        assert (found["state"], found["left"]) == ("sealing", 1)
        assert part_of(it.app, StorageKeys).of(1)
        async with part_of(it.app, Database).begin() as transaction:
            await transaction.execute(update(job_attempts).values(state=job_store.OVER))
        assert (await ended(it))["generation"] == 2


async def test_a_content_that_arrives_across_a_whole_rotation_is_refused(house: Houses) -> None:
    async with house(0) as it:
        datasets, keys = part_of(it.app, Datasets), part_of(it.app, StorageKeys)
        await part_of(it.app, Resealing).stop()  # a pass would end the rotation before it is seen
        await rotate(it)
        async with datasets.database.begin() as transaction:
            await keys.admit(transaction, 1)  # it would be sealed anew
        await storage_keys.clean_rotation(datasets.database, 2)
        async with datasets.database.begin() as transaction:
            with pytest.raises(StorageKeyUnavailable, match="send it again"):
                await keys.admit(transaction, 1)
            await keys.admit(transaction, 2)
        await storage_keys.finish_rotation(datasets.database, keys, 2)
        assert (await ended(it))["generation"] == 2


async def test_a_look_at_the_store_of_before_takes_no_generation_back(house: Houses) -> None:
    """Else what is of the old key would count as done, and the old key be destroyed."""
    async with house(0) as it:
        keys, database = part_of(it.app, StorageKeys), part_of(it.app, Database)
        async with database.reading() as before:
            assert (await key_store.state(before)).generation == 1
            await storage_keys.begin_rotation(database, keys, StorageKey(NEW))
            assert (await keys.refresh(before)).generation == 1
            assert keys.generation == 2
        assert (await ended(it))["generation"] == 2


def two_generations() -> StorageKeys:
    keys = StorageKeys(KeySource((), Path("nowhere")))
    keys.place(1, KEY)
    keys.place(2, StorageKey(NEW))
    keys.generation = 2
    return keys


def test_a_file_is_replaced_whole_and_its_reader_goes_on(tmp_path: Path) -> None:
    content = os.urandom(3 << 20)
    path, keys = written(tmp_path / "file", content), two_generations()
    stale = tmp_path / f"file.0123{SUFFIX}"
    stale.write_bytes(b"half")
    with open_sealed(path, keys, "p") as stream:
        assert stream.read(10) == content[:10]
        assert reseal_file(path, keys, "p")
        assert stream.read() == content[10:]
    assert not reseal_file(path, keys, "p")
    assert file_generation(path) == 2
    assert list(tmp_path.iterdir()) == [path]
    with open_sealed(path, keys, "p") as stream:
        assert stream.read() == content
    with pytest.raises((StorageKeyWrong, StorageKeyUnavailable)):
        open_sealed(path, KEYS, "p")


def test_a_broken_file_stays_as_it_is(tmp_path: Path) -> None:
    path, keys = written(tmp_path / "file", os.urandom(3 << 20)), two_generations()
    data = bytearray(path.read_bytes())
    data[1 << 20] ^= 1
    path.write_bytes(data)
    with pytest.raises(StorageKeyWrong):
        reseal_file(path, keys, "p")
    assert path.read_bytes() == data
    assert list(tmp_path.iterdir()) == [path]
