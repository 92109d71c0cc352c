"""Several files as one stream, and apart again: for datasets that come in parts.

The stream begins with one line, a JSON object of names and bytes in the order in which the reader
wants the parts; the parts follow without anything between.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from typing import BinaryIO, Final

_MARK: Final = b"%%tacit-parts "


class _Joined(io.RawIOBase):
    def __init__(self, streams: list[BinaryIO]) -> None:
        super().__init__()
        self._streams = streams

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview | bytearray) -> int:  # type: ignore[override]
        while self._streams:
            data = self._streams[0].read(len(buffer))
            if data:
                buffer[: len(data)] = data
                return len(data)
            self._streams.pop(0).close()
        return 0

    def close(self) -> None:
        for stream in self._streams:
            stream.close()
        super().close()


class _Part(io.RawIOBase):
    def __init__(self, stream: BinaryIO, size: int) -> None:
        super().__init__()
        self._stream, self._left = stream, size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview | bytearray) -> int:  # type: ignore[override]
        data = self._stream.read(min(len(buffer), self._left))
        self._left -= len(data)
        buffer[: len(data)] = data
        return len(data)


def joined(parts: Mapping[str, tuple[int, BinaryIO]]) -> BinaryIO:
    """One stream of parts, each given as (bytes, stream), in this order."""
    head = {name: size for name, (size, _) in parts.items()}
    streams: list[BinaryIO] = [io.BytesIO(_MARK + json.dumps(head).encode() + b"\n")]
    streams += [stream for _, stream in parts.values()]
    return io.BufferedReader(_Joined(streams), 1 << 20)


def split(stream: BinaryIO, default: str) -> Iterator[tuple[str, BinaryIO]]:
    """The parts one after the other, each to be read before the next; a stream that was not
    `joined` is one part, named `default`."""
    source = stream if isinstance(stream, io.BufferedReader) else _buffered(stream)
    if not source.peek(len(_MARK)).startswith(_MARK):
        yield default, source
        return
    head = json.loads(source.readline()[len(_MARK) :])
    for name, size in head.items():
        yield name, io.BufferedReader(_Part(source, size))


def _buffered(stream: BinaryIO) -> io.BufferedReader:
    return io.BufferedReader(_Joined([stream]), 1 << 20)
