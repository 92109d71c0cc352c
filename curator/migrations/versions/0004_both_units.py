"""Every debit in both privacy units; running totals of the unit `curator` only, summed again."""

from collections.abc import Iterator
from dataclasses import astuple

import sqlalchemy as sa
from alembic import op

from common.store.columns import Instant
from curator.ledger import run_lengths
from curator.ledger.ledger import INFINITE, charges_of
from tacit.crypto.signing import Signed
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.query.words import PrivacyUnit

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

AMOUNTS = ("epsilon", "delta", "epsilon_all", "delta_all")
ADDED = [f"{unit}_{name}" for unit in PrivacyUnit for name in AMOUNTS]
DEBIT = sa.table("debit", *map(sa.column, ("id", "contribution", "unit", "used", *AMOUNTS, *ADDED)))
CONTRIBUTION = sa.table("contribution", sa.column("id"), sa.column("round"))
ROUND = sa.table("round", sa.column("id"), sa.column("descriptor"))
OTHER = {PrivacyUnit.RECORD: PrivacyUnit.CURATOR, PrivacyUnit.CURATOR: PrivacyUnit.RECORD}


def upgrade() -> None:
    """What a debit charged stays as it is; the other unit's part follows from its round."""
    with op.batch_alter_table("debit") as batch:
        for name in ADDED:
            batch.add_column(
                sa.Column(name, sa.BigInteger(), nullable=False, server_default=str(INFINITE))
            )
    _fill(op.get_bind())
    with op.batch_alter_table("debit") as batch:
        batch.drop_index("ix_debit_account")
        for name in ADDED:
            batch.alter_column(name, existing_type=sa.BigInteger(), server_default=None)
        for name in ("verified", *AMOUNTS):
            batch.drop_column(name)
        batch.create_index("ix_debit_account", ["party", "made"])
        batch.create_index("ix_debit_window", ["party", "window_end"])
    op.drop_table("account")
    op.create_table(
        "account",
        sa.Column("party", sa.String(length=128), nullable=False),
        sa.Column("chunk", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("period_s", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("period_start", Instant(), autoincrement=False, nullable=False),
        sa.Column("period_end", Instant(), nullable=False),
        *(sa.Column(name, sa.LargeBinary(), nullable=False) for name in AMOUNTS),
        sa.PrimaryKeyConstraint(
            "party", "chunk", "period_s", "period_start", name=op.f("pk_account")
        ),
    )


def _fill(connection: sa.Connection) -> None:
    for unit in PrivacyUnit:
        own = {f"{unit}_{name}": DEBIT.c[name] for name in AMOUNTS}
        connection.execute(sa.update(DEBIT).where(DEBIT.c.unit == unit.value).values(own))
    for whose, unit, amounts in (*_rounds(connection), *_reports(connection)):
        names = [f"{OTHER[unit]}_{name}" for name in AMOUNTS]
        filled = dict(zip(names, amounts, strict=True))
        connection.execute(sa.update(DEBIT).where(whose).values(filled))


Filled = tuple[sa.ColumnElement[bool], PrivacyUnit, tuple[int, ...]]


def _rounds(connection: sa.Connection) -> Iterator[Filled]:
    """By round: what its query costs in the unit that it does not name."""
    for row in connection.execute(sa.select(ROUND.c.id, ROUND.c.descriptor)).all():
        descriptor = Signed[RoundDescriptor].model_validate_json(row.descriptor).statement
        unit = descriptor.query.privacy_unit
        charges = charges_of(descriptor.query, descriptor.operators)
        mine = sa.select(CONTRIBUTION.c.id).where(CONTRIBUTION.c.round == row.id)
        yield DEBIT.c.contribution.in_(mine), unit, astuple(charges[OTHER[unit]])


def _reports(connection: sa.Connection) -> Iterator[Filled]:
    """A debit of reports has no round. All rows that were reported of a curator cost at most as
    many times one row; one row costs at most what all do."""
    for row in connection.execute(sa.select(DEBIT).where(DEBIT.c.contribution.is_(None))).all():
        unit = PrivacyUnit(row.unit)
        factor = (
            int(run_lengths.unpack(row.used).max(initial=1)) if unit is PrivacyUnit.RECORD else 1
        )
        amounts = tuple(min(factor * getattr(row, name), INFINITE) for name in AMOUNTS)
        yield DEBIT.c.id == row.id, unit, amounts
