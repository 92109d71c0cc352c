"""Files in other encodings than UTF-8, and with byte-order marks."""

from __future__ import annotations

import codecs
import csv
import io
from decimal import Decimal
from pathlib import Path

import pytest

from cli.meter_file import MeterFile
from curator.errors import BadImport
from curator.files.encoding import Decoder, encoding_named
from tests.curator.conftest import Site
from tests.curator.files.tables.test_csv_import import LONG, upload
from tests.curator.stored import rows

TEXT = "house,meter,at,value\n" + "".join(
    f"g-1,Zähler {n % 2},2025-12-31T0{n}:00:00Z,{n}.125\n" for n in range(9)
)
MARKED = {
    "utf-8": codecs.BOM_UTF8 + TEXT.encode(),
    "utf-16-le": codecs.BOM_UTF16_LE + TEXT.encode("utf-16-le"),
    "utf-16-be": codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"),
}


def independent_sum(body: bytes, encoding: str) -> Decimal:
    table = csv.DictReader(io.StringIO(body.decode(encoding)))
    return sum((Decimal(row["value"]) for row in table), Decimal())


@pytest.mark.parametrize(
    ("body", "parameter", "codec"),
    [
        (MARKED["utf-8"], "", "utf-8-sig"),
        (MARKED["utf-16-le"], "", "utf-16"),
        (MARKED["utf-16-be"], "", "utf-16"),
        (MARKED["utf-16-be"], "&encoding=utf-16", "utf-16"),
        (TEXT.encode("latin-1"), "&encoding=latin-1", "latin-1"),
        (TEXT.encode("cp1252"), "&encoding=Windows-1252", "cp1252"),
        (TEXT.encode("utf-16-le"), "&encoding=utf-16-le", "utf-16-le"),
    ],
)
async def test_a_file_of_an_encoding(s: Site, body: bytes, parameter: str, codec: str) -> None:
    await s.enrol("g-1")
    found = await upload(s, LONG + parameter, body)
    assert (found["accepted"], found["rejected"]) == (9, 0)
    stored = await rows(s)
    assert {device for device, *_ in stored} == {"Zähler 0", "Zähler 1"}
    total = sum(quantity for *_, quantity in stored)
    assert Decimal(total) / 10**12 == independent_sum(body, codec)


@pytest.mark.parametrize(
    ("body", "parameter", "pointer", "detail"),
    [
        (MARKED["utf-16-le"], "&encoding=latin-1", "/encoding", "byte-order mark of utf-16-le"),
        (MARKED["utf-8"], "&encoding=latin-1", "/encoding", "byte-order mark of utf-8"),
        (TEXT.encode("utf-16-le"), "&encoding=utf-16", "/encoding", "no byte-order mark"),
        (MARKED["utf-16-le"][:-1], "", "/encoding", "line 10: not text in utf-16-le"),
        (TEXT.encode("latin-1"), "&encoding=rot13", "/encoding", "is no character encoding"),
        (TEXT.encode(), "&encoding=ascii", "/encoding", "line 2: not text in ascii"),
    ],
)
async def test_what_is_not_of_its_encoding_stores_nothing(
    s: Site, body: bytes, parameter: str, pointer: str, detail: str
) -> None:
    await s.enrol("g-1")
    found = await upload(s, LONG + parameter, body, 422)
    assert [each["pointer"] for each in found["errors"]] == [pointer]
    assert detail in str(found)
    assert await rows(s) == []


def test_pieces_of_a_byte() -> None:
    for name, body in MARKED.items():
        decoder = Decoder(None)
        pieces = [decoder.feed(bytes([byte])) for byte in body]
        assert b"".join(pieces) + decoder.feed(b"", last=True) == TEXT.encode(), name
    assert Decoder(None).feed(b"a", last=True) == b"a"
    with pytest.raises(BadImport, match="line 1"):
        Decoder("utf-16-le").feed(b"a", last=True)
    assert encoding_named("UTF-8-SIG") == "utf-8"


def test_the_command_reads_the_header_of_each(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    text = TEXT.replace("house", "curator").replace("meter", "device")
    for encoding, given in (("utf-8-sig", {}), ("utf-16", {}), ("latin-1", {"encoding": "latin1"})):
        path.write_bytes(text.encode(encoding))
        file = MeterFile(path, None, 900, "kWh", "energy_import", given)
        found = file.recognised().parameters
        assert (found["curator_column"], found["device_column"]) == ("curator", "device")
        assert [row[1] for row in file.rows()][1:3] == ["Zähler 0", "Zähler 1"]
