"""Columns over roster numbers, which grow with the roster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Kind = TypeVar("Kind", bound=np.integer[Any])

PAGE: Final = 1 << 12


class Rows(Generic[Kind]):
    """A row of numbers for each roster number, zeros until it is written.

    Rows are stored in pages, and a page takes memory with its first written row: a figure that few
    curators declare costs little memory.
    """

    def __init__(self, width: int, kind: type[Kind]) -> None:
        self._width, self._kind = width, kind
        self._pages: dict[int, NDArray[Kind]] = {}
        self._nothing: NDArray[Kind] = np.zeros(width, kind)

    def __getitem__(self, number: int) -> NDArray[Kind]:
        """The row (width,) of a number; only to be read."""
        page = self._pages.get(number // PAGE)
        return self._nothing if page is None else page[number % PAGE]

    def __setitem__(self, number: int, row: Any) -> None:
        self._page(number // PAGE)[number % PAGE] = row

    def add(self, first: int, count: int, amount: int) -> None:
        """Add an amount to every number of the rows of a run."""
        for place in range(first // PAGE, -(-(first + count) // PAGE)):
            start = place * PAGE
            rows = self._page(place)[max(first - start, 0) : first + count - start]
            np.add(rows, amount, out=rows)

    def written(self, first: int, count: int) -> NDArray[np.intp]:
        """Those numbers of a run, rising, whose rows do not begin with zero."""
        last = first + count - 1
        found = [
            number * PAGE + np.flatnonzero(page[:, 0])
            for number, page in self._sorted()
            if first // PAGE <= number <= last // PAGE
        ]
        if not found:
            return np.zeros(0, np.intp)
        numbers = np.concatenate(found)
        return numbers[(first <= numbers) & (numbers <= last)]

    def of(self, numbers: NDArray[np.intp]) -> NDArray[Kind]:
        """The rows (n, width) of numbers that rise."""
        rows = np.zeros((numbers.size, self._width), self._kind)
        for place, page in self._pages.items():
            start, end = np.searchsorted(numbers, (place * PAGE, (place + 1) * PAGE))
            rows[start:end] = page[numbers[start:end] - place * PAGE]
        return rows

    def parts(self) -> dict[str, NDArray[Any]]:
        """Copies of the pages (k,) in use and of their rows (k, PAGE, width)."""
        pages = [page for _, page in self._sorted()]
        rows = np.array(pages, self._kind).reshape(-1, PAGE, self._width)
        return {"pages": np.array(sorted(self._pages), np.int64), "rows": rows}

    def restore(self, pages: NDArray[np.int64], rows: NDArray[Kind]) -> None:
        """Restore the state returned by `parts()`. Raises ValueError for anything else."""
        if rows.shape != (pages.size, PAGE, self._width) or rows.dtype != self._kind:
            raise ValueError("rows of another form")
        self._pages = {number: rows[place] for place, number in enumerate(pages.tolist())}

    def _sorted(self) -> Iterator[tuple[int, NDArray[Kind]]]:
        return iter(sorted(self._pages.items(), key=lambda item: item[0]))

    def _page(self, place: int) -> NDArray[Kind]:
        if place not in self._pages:
            self._pages[place] = np.zeros((PAGE, self._width), self._kind)
        return self._pages[place]
