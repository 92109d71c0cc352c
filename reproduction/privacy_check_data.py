"""The small tables of the sources' background chapters. Spec: trajectory-kcl, section 10.2."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

from algorithms.datasets.tables import Table, Texts
from algorithms.privacy_check.parameters import Distance, MatrixDistance, TreeDistance


def table_of(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Table:
    """A table of texts."""
    return Table(columns, tuple(Texts.of(cells) for cells in zip(*rows, strict=True)))


_COLUMNS: Final = ("Job", "Sex", "Age", "Disease")
_PEOPLE: Final = (
    ("Engineer", "Male", "35", "Hepatitis"),
    ("Engineer", "Male", "38", "Hepatitis"),
    ("Lawyer", "Male", "38", "HIV"),
    ("Writer", "Female", "30", "Flu"),
    ("Writer", "Female", "30", "HIV"),
    ("Dancer", "Female", "30", "HIV"),
    ("Dancer", "Female", "30", "HIV"),
)
TABLE_21: Final = table_of(_COLUMNS, _PEOPLE)
TABLE_22: Final = table_of(
    _COLUMNS,
    [
        ("Professional", sex, "[35-40)", disease)
        if sex == "Male"
        else ("Artist", sex, "[30-35)", disease)
        for _, sex, _, disease in _PEOPLE
    ],
)
TABLE_23: Final = table_of(
    _COLUMNS,
    [
        ("*", sex, "*", disease) if sex == "Male" else (job, sex, age, disease)
        for job, sex, age, disease in _PEOPLE
    ],
)
TABLE_24: Final = table_of(
    ("BID", "Disease"), [("1" if sex == "Male" else "2", disease) for _, sex, _, disease in _PEOPLE]
)
"""Chen's Tables 2.1 to 2.4; of the bucketised one what can be joined: bucket and disease."""


def four_anonymous() -> Table:
    """Lu's Table 2.2b, blocks of four."""
    first = ["Heart", "Flu", "Flu", "Heart"]
    rows = [("12**", disease) for disease in first] + [("13**", "HIV")] * 4
    return table_of(("block", "Disease"), rows)


def three_diverse() -> Table:
    """Lu's Table 2.3b."""
    each = ["Heart", "Flu", "HIV", "HIV"]
    return table_of(("block", "Disease"), [(block, d) for block in "12" for d in each])


_STOMACH: Final = ("gastric ulcer", "gastritis", "stomach cancer")
_BREATH: Final = ("flu", "bronchitis", "pneumonia")
_DISEASES: Final = (
    "gastric ulcer",
    "gastritis",
    "stomach cancer",
    "gastritis",
    "flu",
    "bronchitis",
    "bronchitis",
    "pneumonia",
    "stomach cancer",
)
_BLOCKS: Final = {
    "a": ((1, 2, 3), (4, 5, 6), (7, 8, 9)),
    "b": ((1, 8, 3), (4, 5, 6), (7, 2, 9)),
}


def similar(form: Literal["a", "b"] | str) -> Table:
    """Lu's Table 2.4, (a) 3-diverse or (b) "0.278-close", by block."""
    rows = [
        (str(place), _DISEASES[row - 1])
        for place, block in enumerate(_BLOCKS[form])
        for row in block
    ]
    return table_of(("block", "Disease"), rows)


def _tree(within: float) -> Distance:
    leaves = [(d, "stomach", within / 2) for d in _STOMACH]
    leaves += [(d, "breath", within / 2) for d in _BREATH]
    above = [(family, "disease", (1 - within) / 2) for family in ("stomach", "breath")]
    return TreeDistance(edges=tuple(leaves + above))


def _matrix(within: float) -> Distance:
    values = _STOMACH + _BREATH
    rows = tuple(
        tuple(
            0.0 if one == other else within if (one in _STOMACH) == (other in _STOMACH) else 1.0
            for other in values
        )
        for one in values
    )
    return MatrixDistance(values=values, distances=rows)


FAMILIES: Final[dict[str, Callable[[float], Distance]]] = {"tree": _tree, "matrix": _matrix}
"""Ground distances of two families of diseases: 1 across, so much within."""
