"""aiomqtt with two functions that its public interface (2.5) lacks: acknowledge later, and read no
more than fits.

Mosquitto 2.0.11 sends what waits in a queue without regard to the receive maximum, as many for each
acknowledgement, so memory is bounded here: a socket that is not read slows its sender. A broker
that keeps to the receive maximum never gets that far.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import aiomqtt


class BrokerClient(aiomqtt.Client):
    """A client that acknowledges by hand, and stops reading beyond `most_waiting` messages."""

    def __init__(self, most_waiting: int, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._client.manual_ack_set(True)
        self._most_waiting = most_waiting
        self._bounded, self._paused = True, False

    def acknowledge(self, message: aiomqtt.Message) -> None:
        """Acknowledge a message: the broker forgets it."""
        self._client.ack(message.mid, message.qos)

    def waiting(self, most: int) -> list[aiomqtt.Message]:
        """What has come in, without waiting."""
        count = min(most, self._queue.qsize())
        found = [self._queue.get_nowait() for _ in range(count)]
        self._resume()
        return found

    @contextmanager
    def answers(self) -> Iterator[None]:
        """While an answer of the broker is awaited, it is read through whatever comes before."""
        self._bounded = False
        self._resume()
        try:
            yield
        finally:
            self._bounded = True

    def _full(self) -> bool:
        return self._bounded and self._queue.qsize() > self._most_waiting

    def _on_socket_open(self, client: Any, userdata: Any, sock: Any) -> None:
        super()._on_socket_open(client, userdata, sock)
        # In place of the reader that was just asked for.
        self._loop.call_soon_threadsafe(self._loop.add_reader, sock.fileno(), self._readable)

    def _readable(self) -> None:
        """Read until there is nothing, or no capacity."""
        try:
            while True:
                self._client.loop_read()
                sock = self._client.socket()
                if sock is None:
                    return
                if self._full():
                    self._paused = True
                    self._loop.remove_reader(sock.fileno())
                    return
                # TLS may hold decoded bytes for which no event comes.
                if not getattr(sock, "pending", int)():
                    return
        except Exception as error:
            if not self._disconnected.done():
                self._disconnected.set_exception(error)

    def _resume(self) -> None:
        sock = self._client.socket()
        if not self._paused or sock is None or self._full():
            return
        self._paused = False
        self._loop.add_reader(sock.fileno(), self._readable)
        self._loop.call_soon(self._readable)
