"""A ledger that charged each round in one privacy unit is charged in both by its migration."""

from __future__ import annotations

from typing import Any

import numpy as np
from sqlalchemy import text

from common.store.transactions import Database, Transaction
from common.web.parts import part_of
from curator.ledger import run_lengths
from tests.curator.conftest import NOISY, OpenSite, Site, query
from tests.curator.double import FakeWorld

RECORD: dict[str, Any] = {**NOISY, "privacy_unit": "record", "max_readings": 1000}
AMOUNTS = ("epsilon", "delta", "epsilon_all", "delta_all")
UNITS = ("record", "curator")


async def as_before(transaction: Transaction) -> None:
    """The tables of revision 0003, with what they would hold."""
    indices = ("ix_debit_account", "ix_debit_window", "ix_curator_own_policy")
    for name in (*indices, "ix_round_kept_deadline", "ix_curator_stopped"):
        await transaction.execute(text(f"DROP INDEX {name}"))
    for name in ("ix_round_window", "ix_round_unsettled"):
        await transaction.execute(text(f"DROP INDEX {name}"))
    console = ("console_session", "console_code", "console_audit")
    for name in (
        *console,
        "item_table",
        "job_path",
        "job_spend",
        "intake_hour",
        "newest_reading",
        "party_identity",
        "reading_block",
    ):
        await transaction.execute(text(f"DROP TABLE {name}"))
    await transaction.execute(text("ALTER TABLE round DROP COLUMN expired"))
    for column in (
        "outbox.session",
        "outbox.announce",
        "party.minimum_suite",
        "party.software_told",
        "party.coordinator_pin",
        "curator.stopped_by_owner",
        "curator.stopped_by_operator",
        "anchor.pin",
        "token.last_used",
        "curator.owner_policy",
        "federated_job.terms",
        "federated_job.first_round",
        "federated_job.last_round",
    ):
        table, _, name = column.partition(".")
        await transaction.execute(text(f"ALTER TABLE {table} DROP COLUMN {name}"))
    await transaction.execute(text("ALTER TABLE debit DROP COLUMN refused"))
    await transaction.execute(
        text("ALTER TABLE debit ADD COLUMN verified BOOLEAN DEFAULT true NOT NULL")
    )
    for name in AMOUNTS:
        await transaction.execute(
            text(f"ALTER TABLE debit ADD COLUMN {name} BIGINT DEFAULT 0 NOT NULL")
        )
        for unit in UNITS:
            change = f"UPDATE debit SET {name} = {unit}_{name} WHERE unit = '{unit}'"
            await transaction.execute(text(change))
            await transaction.execute(text(f"ALTER TABLE debit DROP COLUMN {unit}_{name}"))
    await transaction.execute(text("CREATE INDEX ix_debit_account ON debit (party, unit, made)"))
    await transaction.execute(text("UPDATE alembic_version SET version_num = '0003'"))


async def add_reports(transaction: Transaction, unit: str) -> None:
    """A debit of a collection: 7 reports at 0.5 each, or together."""
    row = (
        await transaction.execute(text("SELECT * FROM debit WHERE unit = :unit"), {"unit": unit})
    ).mappings()
    values = dict(row.first() or {})
    del values["id"]
    amounts = {"epsilon": 500_000, "delta": 0, "epsilon_all": 500_000, "delta_all": 0}
    values |= {"contribution": None, "used": run_lengths.pack(np.array([7])), **amounts}
    names = ", ".join(f'"{name}"' for name in values)
    places = ", ".join(f":{name}" for name in values)
    await transaction.execute(
        text(f"INSERT INTO debit ({names}) VALUES ({places})"),
        values,
    )


async def units(s: Site) -> dict[str, Any]:
    found: dict[str, Any] = (await s.get("/v1/curators/house/budget"))["units"]
    return found


async def test_old_debits_are_charged_in_both_units(site: OpenSite, world: FakeWorld) -> None:
    async with site() as s:
        await s.policy(allow_unverified=True)
        await s.enrol("house")
        for index, asked in enumerate((NOISY, RECORD, {**NOISY, "mechanism": "exact"})):
            if asked["mechanism"] == "exact":
                asked = {k: v for k, v in asked.items() if k not in ("epsilon", "layer")}
            s.open(query(asked, name=f"q-{index}", collusion={"curators": 0, "aggregators": 1}))
            await s.take_part()
        before = await units(s)
        assert before["record"]["rounds"] == 3
        async with part_of(s.app, Database).begin() as transaction:
            await as_before(transaction)
    async with site() as s:
        assert await units(s) == before
        async with part_of(s.app, Database).begin() as transaction:
            await as_before(transaction)
            for unit in UNITS:
                await add_reports(transaction, unit)
    async with site() as s:
        found = await units(s)
        reports = {unit: [item["epsilon"] for item in found[unit]["debits"][3:]] for unit in UNITS}
        # of the unit `record`: 7 rows at 0.5 make 3.5; of the unit `curator`: one row at most all
        assert reports == {"record": ["0.5", "0.5"], "curator": ["3.5", "0.5"]}
        # the running total is summed anew, and so binds
        await s.policy(curator={"period": {"epsilon": "1005.9"}})
        descriptor = s.open(query(NOISY, name="after", collusion={"curators": 0, "aggregators": 1}))
        await s.take_part()
        assert not world.members(descriptor)
        await s.policy(curator={"period": {"epsilon": "1006"}})
        descriptor = s.open(query(NOISY, name="then", collusion={"curators": 0, "aggregators": 1}))
        await s.take_part()
        assert world.members(descriptor)
