"""The largest body a service reads: more is answered 413 as a problem, before memory suffers."""

from collections.abc import Mapping

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from common.errors import TooLarge
from common.service.problems import problem_response


class BodyTooLarge(TooLarge):
    """The body is larger than the service reads at this path."""

    name = "body_too_large"
    title = "The request body is too large"


class BodyLimit:
    """Counts the bytes of a body, declared and received.

    `exceptions` gives other limits to paths that start with a prefix; the longest prefix holds.
    """

    def __init__(self, app: ASGIApp, max_bytes: int, exceptions: Mapping[str, int]) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._exceptions = sorted(exceptions.items(), key=lambda item: -len(item[0]))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, watched."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._limit(scope["path"])
        error = BodyTooLarge(extra={"max_body_bytes": limit})
        declared = Headers(scope=scope).get("content-length", "0")
        if declared.isdecimal() and int(declared) > limit:
            response = problem_response(error)
            response.headers["Connection"] = "close"
            await response(scope, receive, send)
            return
        await self._watch(scope, receive, send, limit, error)

    async def _watch(
        self, scope: Scope, receive: Receive, send: Send, limit: int, error: BodyTooLarge
    ) -> None:
        received, exceeded, started = 0, False, False

        async def counted() -> Message:
            nonlocal received, exceeded
            message = await receive()
            if message["type"] == "http.request":
                received += len(message.get("body", b""))
                if received > limit:
                    exceeded = True
                    raise error
            return message

        async def guarded(message: Message) -> None:
            # whatever a route made of the interrupted body, the answer is 413
            nonlocal started
            if exceeded and not started:
                return
            started = True
            await send(message)

        try:
            await self._app(scope, counted, guarded)
        except BodyTooLarge:
            if started:
                raise
        if exceeded and not started:
            response = problem_response(error)
            response.headers["Connection"] = "close"
            await response(scope, receive, send)

    def _limit(self, path: str) -> int:
        for prefix, limit in self._exceptions:
            if path.startswith(prefix):
                return limit
        return self._max_bytes
