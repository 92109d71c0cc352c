"""Readings of an import in blocks, in addition to rows; what is stored stays as it is."""

import numpy as np
import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table of blocks."""
    op.create_table(
        "reading_block",
        sa.Column("id", sa.Integer(), primary_key=True, autoincrement=True),
        sa.Column("register", sa.Integer(), nullable=False),
        sa.Column("time", sa.BigInteger(), nullable=False),
        sa.Column("first_device", sa.Integer(), nullable=False),
        sa.Column("last_device", sa.Integer(), nullable=False),
        sa.Column("first_curator", sa.Integer(), nullable=False),
        sa.Column("last_curator", sa.Integer(), nullable=False),
        sa.Column("readings", sa.Integer(), nullable=False),
        sa.Column("curators", sa.LargeBinary(), nullable=False),
        sa.Column("quantities", sa.LargeBinary(), nullable=False),
        sa.Column("devices", sa.LargeBinary(), nullable=False),
        sa.Column("randoms", sa.LargeBinary(), nullable=False),
    )
    op.create_index(
        "ix_reading_block_place",
        "reading_block",
        ["register", "time", "first_device", "last_device"],
    )


def downgrade() -> None:
    """Their readings become rows."""
    connection = op.get_bind()
    last = -1
    while True:
        block = connection.execute(
            sa.text("SELECT * FROM reading_block WHERE id > :last ORDER BY id LIMIT 1"),
            {"last": last},
        ).one_or_none()
        if block is None:
            break
        last = block.id
        devices, curators = (np.frombuffer(c, "<i4") for c in (block.devices, block.curators))
        values, randoms = (np.frombuffer(c, "<i8") for c in (block.quantities, block.randoms))
        names = ("device", "curator", "quantity", "random")
        columns = (each.tolist() for each in (devices, curators, values, randoms))
        connection.execute(
            sa.text(
                "INSERT INTO reading (register, time, device, curator, quantity, random) "
                "VALUES (:register, :time, :device, :curator, :quantity, :random)"
            ),
            [
                {
                    "register": block.register,
                    "time": block.time,
                    **dict(zip(names, row, strict=True)),
                }
                for row in zip(*columns, strict=True)
            ],
        )
    op.drop_index("ix_reading_block_place", "reading_block")
    op.drop_table("reading_block")
