"""Files of meter readings for the command line: plain, .gz or .xz CSV, wide or long.

Wide: a meter a row, its id first, then one value for each consecutive interval. Long: a reading a
row, with columns time and value, and curator and device where there are any. A column map (TOML or
JSON) says what else there is to say; its keys are the parameters of `POST /v1/readings/import`. A
file that ends in .xml is a Green Button file. The file goes to the curator service as it is, or cut
to its first days; what is wrong in it is counted there, by row.
"""

from __future__ import annotations

import gzip
import json
import lzma
import tomllib
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import numpy as np
from numpy.typing import NDArray

from tacit import Client
from tacit.records import delimited
from tacit.records.reading import MalformedRow, number

DAY_S = 86_400


@dataclass(frozen=True)
class MeterFile:
    """A file, and how its values are to be read. `start` makes it wide."""

    path: Path
    start: str | None
    step_s: int
    unit: str
    register: str
    columns: Mapping[str, Any] = field(default_factory=dict)
    """Further parameters of the import; they go before the fields above."""

    @property
    def green_button(self) -> bool:
        """Whether the file says itself what its readings are."""
        return ".xml" in self.path.suffixes

    def open(self) -> BinaryIO:
        """The plain content."""
        match self.path.suffix:
            case ".xz":
                return cast(BinaryIO, lzma.open(self.path))
            case ".gz":
                return cast(BinaryIO, gzip.open(self.path))
            case _:
                return self.path.open("rb")

    def rows(self, days: int | None = None) -> Iterator[list[str]]:
        """Header and rows, cut to the first days where asked (wide layout). Raises ValueError."""
        last = None if days is None else 1 + days * DAY_S // self.step_s
        delimiter = str(self.columns.get("delimiter", ","))
        try:
            with self.open() as file:
                for _, row in delimited.rows(file, _TABS.get(delimiter, delimiter)):
                    if row != [""]:
                        yield row[:last]
        except MalformedRow as error:
            raise ValueError(f"{self.path.name}, line {error.row}: {error.reason}") from None
        except _DAMAGED:
            reason = "the compressed file is damaged or cut off"
            raise ValueError(f"{self.path.name}: {reason}") from None

    def meters(self) -> list[str]:
        """The ids of the meters, in the order of the rows. Raises ValueError for a file whose first
        line is one of them: a header is expected."""
        rows = self.rows()
        if delimited.first_line(next(rows, [])) != "names":
            raise ValueError(f"{self.path.name}, line 1: a header is missing")
        return [row[0] for row in rows]

    def values(self, days: int) -> NDArray[np.float64]:
        """Wide layout: (meters, intervals) values; NaN where no cell is, or one that is not a
        number."""
        rows = self.rows(days)
        next(rows, None)
        found = [[_number(cell) for cell in row[1:]] for row in rows]
        longest = max(map(len, found), default=0)
        filled = [row + [np.nan] * (longest - len(row)) for row in found]
        return np.array(filled, np.float64).reshape(len(found), longest)

    def upload(self, client: Client, *, days: int | None = None) -> dict[str, Any]:
        """Send the file to a curator service; its answer."""
        parameters = self.parameters()
        if days is None:
            content = self.path.read_bytes()
        else:
            parameters["delimiter"] = ","
            content = delimited.written(self.rows(days)).encode()
        answer: dict[str, Any] = client.request(
            "POST",
            "/v1/readings/import",
            content=content,
            media_type="application/atom+xml" if self.green_button else "text/csv",
            params=parameters,
        ).json()
        return answer

    def parameters(self) -> dict[str, Any]:
        """The parameters of the import."""
        given = {name: _parameter(value) for name, value in self.columns.items()}
        if self.green_button:
            return given
        found: dict[str, Any] = {"unit": self.unit, "register": self.register}
        if self.start is not None:
            found |= {"layout": "wide", "start": self.start, "step_s": self.step_s}
        elif not {"curator", "curator_column", "device_column"} & given.keys():
            named = {"curator", "device"} & set(next(self.rows(), []))
            found |= {f"{name}_column": name for name in named}
        return found | given


_DAMAGED: Final = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)
_TABS: Final = {"tab": "\t", "\\t": "\t"}


def column_map(path: Path) -> dict[str, Any]:
    """The content of a column map. Raises OSError or ValueError."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        found = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except UnicodeDecodeError:
        raise ValueError(f"{path.name}: is not text in UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path.name}: is not TOML or JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path.name}: a column map is a table of names and values")
    return found


def _parameter(value: Any) -> Any:
    """A value as a query parameter: tables as JSON."""
    return json.dumps(value) if isinstance(value, dict) else value


def _number(cell: str) -> float:
    try:
        return number(cell)
    except ValueError:
        return float("nan")
