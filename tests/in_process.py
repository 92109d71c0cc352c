"""Services that call each other in one process: requests reach ASGI doubles of httpx."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import httpx

from common.web.client import NoAnswer, ServiceRequest, ServiceResponse


@dataclass(frozen=True)
class InProcess:
    """The transport of services over one of httpx."""

    transport: httpx.AsyncBaseTransport

    async def send(self, request: ServiceRequest) -> ServiceResponse:
        """Send a request. Raises NoAnswer."""
        sent = httpx.Request(
            request.method, request.url, headers=request.headers, content=request.body or None
        )
        try:
            answer = await self.transport.handle_async_request(sent)
            body = await answer.aread()
        except httpx.TransportError as error:
            raise NoAnswer(str(error)) from error
        return ServiceResponse(answer.status_code, answer.headers, body)

    async def aclose(self) -> None:
        """Close what is behind."""
        await self.transport.aclose()


def in_process(transports: Mapping[str, httpx.AsyncBaseTransport]) -> dict[str, InProcess]:
    """Transports of services by address."""
    return {address: InProcess(transport) for address, transport in transports.items()}
