"""A file of meter readings on its way to a curator service.

CSV, Green Button (.xml) or other formats, plain, .gz or .xz. Wide: a meter a row, its id first,
then one value for each consecutive interval. Long: a reading a row, with columns time and value,
and optionally curator and device. A column map (TOML or JSON) has further parameters of
`POST /v1/readings/import`. The file is sent unchanged, or cut to its first days; the service counts
errors by row.
"""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import lzma
import tomllib
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import numpy as np
from numpy.typing import NDArray

from curator.files import encoding
from curator.files.dry_run import DryRun, dry_run
from curator.files.options import ImportOptions
from curator.files.recognise import HEAD_BYTES, Recognised, recognise
from tacit import Client
from tacit.compression import GZIP_MAGIC, XZ_MAGIC
from tacit.errors import Invalid
from tacit.records import text_files
from tacit.records.text_files import MalformedRow, number

DAY_S = 86_400


@dataclass(frozen=True)
class MeterFile:
    """A file and how to read its values. With `start` it is wide."""

    path: Path
    start: str | None
    step_s: int
    unit: str
    register: str
    columns: Mapping[str, Any] = field(default_factory=dict)
    """Further parameters of the import; they override the fields above."""

    @property
    def green_button(self) -> bool:
        """Whether the file itself describes its readings."""
        return ".xml" in self.path.suffixes

    def open(self) -> BinaryIO:
        """The plain content; its first bytes show how it is compressed, as at the service."""
        with self.path.open("rb") as file:
            head = file.read(len(XZ_MAGIC))
        if head.startswith(XZ_MAGIC):
            return cast(BinaryIO, lzma.open(self.path))
        if head.startswith(GZIP_MAGIC):
            return cast(BinaryIO, gzip.open(self.path))
        return self.path.open("rb")

    def _as_utf8(self) -> BinaryIO:
        """The plain content in UTF-8. Raises BadImport if it is not in its stated encoding."""
        file = self.open()
        named = self.columns.get("encoding")
        if named is None and not encoding.marked(file.read(3))[0]:
            file.seek(0)
            return file
        with file:
            file.seek(0)
            return io.BytesIO(encoding.Decoder(named).feed(file.read(), last=True))

    def rows(self, days: int | None = None) -> Iterator[list[str]]:
        """Header and rows, cut to the first days if given (wide layout). Raises ValueError."""
        last = None if days is None else 1 + days * DAY_S // self.step_s
        delimiter = str(self.columns.get("delimiter", ","))
        try:
            with self._as_utf8() as file:
                for _, row in text_files.rows(file, _TABS.get(delimiter, delimiter)):
                    if row != [""]:
                        yield row[:last]
        except MalformedRow as error:
            raise ValueError(f"{self.path.name}, line {error.row}: {error.reason}") from None
        except _DAMAGED:
            reason = "the compressed file is damaged or truncated"
            raise ValueError(f"{self.path.name}: {reason}") from None

    def meters(self) -> list[str]:
        """The ids of the meters, in the order of the rows. Raises ValueError if the first line
        is a meter: a header is expected."""
        rows = self.rows()
        if text_files.first_line(next(rows, [])) != "names":
            raise ValueError(f"{self.path.name}, line 1: a header is missing")
        return [row[0] for row in rows]

    def values(self, days: int) -> NDArray[np.float64]:
        """Wide layout: (meters, intervals) values; NaN for a missing or non-numeric cell."""
        rows = self.rows(days)
        next(rows, None)
        values = [[_number(cell) for cell in row[1:]] for row in rows]
        longest = max(map(len, values), default=0)
        filled = [row + [np.nan] * (longest - len(row)) for row in values]
        return np.array(filled, np.float64).reshape(len(values), longest)

    def recognised(self) -> Recognised:
        """The likely format of the file. Raises ValueError, or BadImport for another encoding."""
        try:
            with self.open() as file:
                head = file.read(HEAD_BYTES)
        except _DAMAGED:
            reason = "the compressed file is damaged or truncated"
            raise ValueError(f"{self.path.name}: {reason}") from None
        is_whole = len(head) < HEAD_BYTES
        named = self.columns.get("encoding")
        parameters_given = dict(self.columns) | ({} if self.start is None else {"layout": "wide"})
        text = encoding.Decoder(named).feed(head, last=is_whole)
        recognised_form = recognise(text, parameters_given)
        try:
            text.partition(b"\n")[0].decode()
        except UnicodeDecodeError:
            if recognised_form.form == "csv":
                reason = "not UTF-8: give its encoding"
                raise ValueError(f"{self.path.name}, line 1: {reason}") from None
        return recognised_form

    def content(self, days: int | None = None) -> tuple[bytes, dict[str, Any]]:
        """What is sent: the file, or its first days, and the parameters of the import."""
        parameters = self.parameters()
        if days is None:
            return self.path.read_bytes(), parameters
        parameters |= {"delimiter": ",", "encoding": encoding.UTF_8}
        return text_files.written(self.rows(days)).encode(), parameters

    def upload(self, client: Client, *, days: int | None = None) -> dict[str, Any]:
        """Send the file to a curator service; returns its answer."""
        content, parameters = self.content(days)
        answer: dict[str, Any] = client.request(
            "POST",
            "/v1/readings/import",
            content=content,
            media_type="application/atom+xml" if self.green_button else "text/csv",
            params=parameters,
        ).json()
        return answer

    def dry_run(self, *, days: int | None = None) -> DryRun:
        """What the service would store. Raises ValueError or BadImport."""
        content, parameters = self.content(days)
        options = ImportOptions.model_validate(parameters)

        async def chunks() -> AsyncIterator[bytes]:
            yield content

        try:
            return asyncio.run(dry_run(chunks(), options, xml=self.green_button))
        except Invalid as error:
            if not error.errors:
                raise
            messages = (
                f"{field_error.pointer}: {field_error.message}" for field_error in error.errors
            )
            raise ValueError("; ".join(message.lstrip(": ") for message in messages)) from None

    def parameters(self) -> dict[str, Any]:
        """The parameters of the import: the map's, and of some formats the command's options."""
        given_columns = {name: _as_text(value) for name, value in self.columns.items()}
        if self.green_button:
            return given_columns
        form = self.recognised().form
        defaults: dict[str, Any] = {}
        if form in _UNIT_NEEDED:
            defaults = {"unit": self.unit, "register": self.register}
        if form == "csv" and self.start is not None:
            defaults |= {"layout": "wide", "start": self.start, "step_s": self.step_s}
        return {**defaults, **given_columns}


_UNIT_NEEDED: Final = ("csv", "influx", "home-assistant")
"""Formats whose files do not say what they measure."""


def _as_text(value: Any) -> Any:
    """The value of a map as a parameter: a table as JSON, a list with commas."""
    if isinstance(value, list):
        return ",".join(map(str, value))
    return json.dumps(value) if isinstance(value, dict) else value


_DAMAGED: Final = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)
_TABS: Final = {"tab": "\t", "\\t": "\t"}


def column_map(path: Path) -> dict[str, Any]:
    """The content of a column map. Raises OSError or ValueError."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        result = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except UnicodeDecodeError:
        raise ValueError(f"{path.name}: is not text in UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path.name}: is not TOML or JSON: {error}") from None
    if not isinstance(result, dict):
        raise ValueError(f"{path.name}: a column map is a table of names and values")
    return result


def _number(cell: str) -> float:
    try:
        return number(cell)
    except ValueError:
        return float("nan")
