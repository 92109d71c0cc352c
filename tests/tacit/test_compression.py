"""Compressed content: as it arrives, whatever the cuts, and as a stream."""

from __future__ import annotations

import gzip
import io
import lzma
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.compression import (
    ContentTooLarge,
    Decompressor,
    Limits,
    MalformedContent,
    expanded,
)

MEMORY = 256 << 20
PACKS: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "xz": lzma.compress}
both = pytest.mark.parametrize("pack", PACKS.values(), ids=PACKS)


def decompressed(data: bytes, cut: int, memory: int = MEMORY) -> tuple[bytes, bool]:
    """The plain content of data that arrives in chunks of a size, and whether it is whole."""
    members = Decompressor(data, memory)
    chunks = (data[start : start + cut] for start in range(0, len(data), cut))
    return b"".join(piece for chunk in chunks for piece in members.feed(chunk)), members.whole


@both
@given(parts=st.lists(st.binary(max_size=200), min_size=1, max_size=4), cut=st.integers(1, 90))
def test_members_are_one_content_whatever_the_cuts(
    pack: Callable[[bytes], bytes], parts: list[bytes], cut: int
) -> None:
    data = b"".join(map(pack, parts))
    assert decompressed(data, cut) == (b"".join(parts), True)
    padded = b"".join(pack(part) + bytes(4) for part in parts)
    assert decompressed(padded, cut) == (b"".join(parts), True)


@both
@pytest.mark.parametrize("cut", [1, 7, 1 << 20])
def test_what_is_cut_off_is_not_whole(pack: Callable[[bytes], bytes], cut: int) -> None:
    data = pack(b"one") + pack(b"two")
    for missing in (1, 5, len(pack(b"two")) - 1):
        assert decompressed(data[:-missing], cut)[1] is False
    assert decompressed(data[: -len(pack(b"two"))], cut) == (b"one", True)


@both
def test_what_is_damaged_is_refused(pack: Callable[[bytes], bytes]) -> None:
    data = pack(bytes(range(256)) * 50)
    for broken in (data + b"junk" * 4, data[:30] + b"\xff\x00\xff\x00" + data[34:]):
        with pytest.raises(MalformedContent, match="broken"):
            decompressed(broken, len(broken))


@both
def test_pieces_have_at_most_a_megabyte(pack: Callable[[bytes], bytes]) -> None:
    data = pack(bytes(5_000_000))
    sizes = [len(piece) for piece in Decompressor(data, MEMORY).feed(data)]
    assert sum(sizes) == 5_000_000
    assert max(sizes) <= 1 << 20


def test_an_xz_file_gets_so_much_memory_and_no_more() -> None:
    data = lzma.compress(b"words", preset=9)
    with pytest.raises(MalformedContent):
        decompressed(data, 10, memory=1 << 20)
    assert decompressed(data, 10) == (b"words", True)


@both
@pytest.mark.parametrize("size", [0, 1, 100, 3_000_000])
def test_a_stream_is_read_in_any_sizes(pack: Callable[[bytes], bytes], size: int) -> None:
    content = bytes(range(256)) * (size // 256) + bytes(size % 256)
    for step in (7_777, 1 << 22):
        stream = expanded(io.BufferedReader(io.BytesIO(pack(content))), Limits(expanded=size))
        assert b"".join(iter(lambda s=stream, n=step: s.read(n), b"")) == content
        stream.close()


@both
def test_a_stream_has_its_limits(pack: Callable[[bytes], bytes]) -> None:
    data = pack(bytes(20 << 20))
    few, dense = Limits(expanded=(20 << 20) - 1, ratio=10**6), Limits()
    for limits, name in ((few, "max_bytes"), (dense, "max_ratio")):
        with pytest.raises(ContentTooLarge) as refused:
            expanded(io.BufferedReader(io.BytesIO(data)), limits).read()
        assert list(refused.value.extra) == [name]
    with pytest.raises(MalformedContent, match="too early"):
        expanded(io.BufferedReader(io.BytesIO(data[:-3])), Limits(ratio=10**6)).read()


def test_what_is_not_compressed_is_read_as_it_is() -> None:
    plain = io.BufferedReader(io.BytesIO(b"PK words"))
    assert expanded(plain, Limits()) is plain
