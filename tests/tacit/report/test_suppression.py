"""Suppression: what is published leaves every small count possible as 0 and as large enough."""

from __future__ import annotations

import logging
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tacit.query.tables import TableColumn, table_figures
from tacit.report.suppression import (
    MOST_FIGURES,
    TooManyFigures,
    suppressed,
    suppressed_figures,
    table_relations,
)

LEAST = 3


def columns(*sizes: int) -> list[TableColumn]:
    """Columns with so many codes each."""
    return [
        TableColumn(name=f"c{place}", codes=tuple(map(str, range(size))))
        for place, size in enumerate(sizes)
    ]


def figures(shape: tuple[int, ...], cells: list[int]) -> list[int]:
    """All cells and margins."""
    found = table_figures(columns(*shape), [Fraction(cell) for cell in cells])
    return [int(figure.value) for figure in found]


def all_tables(shape: tuple[int, ...], largest: int) -> np.ndarray:
    """Every table with cells of at most this, as its figures: what an adversary tries out."""
    count = int(np.prod(shape))
    cells = np.indices((largest + 1,) * count, np.uint8).reshape(count, -1).T
    full = cells.reshape(-1, *shape)
    for axis in range(1, full.ndim):
        full = np.concatenate([full, full.sum(axis=axis, keepdims=True, dtype=np.uint8)], axis=axis)
    return full.reshape(len(cells), -1)


@pytest.mark.parametrize("shape", [(3,), (2, 2), (2, 3), (2, 2, 2)])
def test_nobody_can_compute_that_a_small_count_is_above_0_or_too_small(
    shape: tuple[int, ...],
) -> None:
    """Brute force: of all tables that agree with what is published, one has 0 in the place of every
    suppressed small count, and one has the least or more. All tables of cells up to 5 are tried."""
    known = all_tables(shape, 5)
    source = np.random.default_rng(len(shape) * 10 + shape[-1])
    count, secondary = int(np.prod(shape)), 0
    for _ in range(12):
        values = np.array(figures(shape, source.integers(0, 4, count).tolist()))
        hidden = suppressed_figures(columns(*shape), values.tolist(), LEAST)
        small = (values > 0) & (values < LEAST)
        assert (hidden >= small).all()
        secondary += int((hidden & ~small).sum())
        agreeing = known[(known == values)[:, ~hidden].all(axis=1)]
        assert (agreeing[:, small].min(axis=0, initial=LEAST) == 0).all()
        assert (agreeing[:, small].max(axis=0, initial=0) >= LEAST).all()
    assert secondary > 0, "margins alone would have given the small counts away"


def test_primary_suppression_alone_would_be_undone_by_a_subtraction() -> None:
    values = figures((3, 3), [20, 2, 12, 15, 30, 31, 19, 40, 11])
    hidden = suppressed_figures(columns(3, 3), values, 10).reshape(4, 4)
    assert hidden[0, 1]
    assert hidden[:3, 1].sum() + hidden[3, 1] > 1, "its column has another unknown"
    assert hidden[0].sum() > 1, "and so has its row"
    assert hidden.sum() == 4, "a rectangle is enough"
    assert not hidden[3].any() and not hidden[:, 3].any(), "margins stay published"


def test_a_table_of_large_counts_and_zeros_is_published_whole() -> None:
    values = figures((2, 3), [20, 0, 12, 15, 30, 0])
    assert not suppressed_figures(columns(2, 3), values, 10).any()


def test_feeders_of_a_substation() -> None:
    """A hierarchy: the relations are others, the method is the same. Feeders 1 to 3 are of the
    first substation, 4 and 5 of the second; the last three figures are both and all."""
    values = np.array([40, 2, 15, 30, 12, 57, 42, 99])
    relations = np.array(
        [[1, 1, 1, 0, 0, -1, 0, 0], [0, 0, 0, 1, 1, 0, -1, 0], [0, 0, 0, 0, 0, 1, 1, -1]]
    )
    assert not (relations @ values).any()
    hidden = suppressed(values, relations, 10)
    assert hidden.tolist() == [False, True, True, False, False, False, False, False]


def test_relations_are_those_of_the_figures() -> None:
    for shape in ((4,), (2, 3), (2, 3, 2), (2, 2, 2, 2)):
        cells = np.random.default_rng(1).integers(0, 99, int(np.prod(shape))).tolist()
        relations = table_relations(shape)
        assert not (relations @ np.array(figures(shape, cells))).any()
        rank = np.linalg.matrix_rank(relations.toarray())
        assert relations.shape[1] - rank == np.prod(shape), "they leave the cells free"


def test_too_large_a_table() -> None:
    with pytest.raises(TooManyFigures):
        suppressed_figures(columns(MOST_FIGURES), [1] * (MOST_FIGURES + 1), 10)


@pytest.mark.filterwarnings("ignore")  # of pandas, in acro
def test_the_cells_that_acro_suppresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`pip install acro`: its threshold and its zeros. It suppresses no further cells, and these
    agree with ours but for zeros, which it takes for disclosive by default."""
    acro, pandas = pytest.importorskip("acro"), pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    logging.getLogger("acro").setLevel(logging.ERROR)
    session = acro.ACRO(suppress=True)
    source = np.random.default_rng(3)
    for _ in range(5):
        cells = source.integers(0, 25, (4, 3))
        rows = [place for place in np.ndindex(4, 3) for _ in range(cells[place])]
        data = pandas.DataFrame(rows, columns=["a", "b"])
        theirs = session.crosstab(data.a, data.b).isna().to_numpy()
        ours = suppressed_figures(columns(4, 3), figures((4, 3), cells.ravel().tolist()), 10)
        small = (cells > 0) & (cells < 10)
        assert (theirs == (small | (cells == 0))).all()
        assert (ours.reshape(5, 4)[:4, :3] >= small).all()
