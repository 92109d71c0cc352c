"""A bad network: the model's figures, and what it does to real requests.

Statistical statements are made at a fixed seed; each would fail by chance for less than one seed
in a million (five standard deviations).
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import httpx
import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from common.web.client import TimedOut, service_client, with_retries
from simulation import network as network_model
from simulation.network import PERFECT, Faults, Network, Traffic, arrivals
from tacit.randomness import SeededRandom
from tests.in_process import InProcess

MANY = 200_000
DEVIATIONS = 5


def arrive(network: Network) -> tuple[np.ndarray, Traffic]:
    traffic = Traffic()
    return arrivals(network, np.zeros(MANY), SeededRandom(3), traffic), traffic


def test_delays_are_exponential() -> None:
    arrived, _ = arrive(Network(delay_s=2.0))
    assert abs(arrived.mean() - 2) <= DEVIATIONS * 2 / np.sqrt(MANY)
    late = (arrived > 2 * np.log(10)).mean()  # exceeded with probability 1/10
    assert abs(late - 0.1) <= DEVIATIONS * np.sqrt(0.09 / MANY)


def test_a_lost_message_is_sent_again_after_the_pause() -> None:
    loss = 0.2
    arrived, traffic = arrive(Network(loss=loss, retry_s=3.0))
    assert set(np.unique(arrived) % 3) == {0}
    gone = loss / 2  # half of the losses are answers, which delay nobody
    expected, spread = gone / (1 - gone), np.sqrt(gone) / (1 - gone)
    assert abs(traffic.lost / MANY - expected) <= DEVIATIONS * spread / np.sqrt(MANY)
    assert abs(traffic.lost_answers / MANY - expected) <= DEVIATIONS * spread / np.sqrt(MANY)
    assert arrived.sum() == pytest.approx(3 * traffic.lost)
    assert traffic.messages == MANY + traffic.lost + traffic.lost_answers


def test_a_held_message_is_overtaken() -> None:
    arrived, traffic = arrive(Network(reorder=0.25, hold_s=5.0))
    assert set(np.unique(arrived)) == {0.0, 5.0}
    assert traffic.held == int((arrived == 5).sum())
    assert abs(traffic.held / MANY - 0.25) <= DEVIATIONS * np.sqrt(0.25 * 0.75 / MANY)


@pytest.mark.parametrize("wrong", [{"loss": 1.0}, {"loss": -0.1}, {"delay_s": -1}, {"reorder": 2}])
def test_a_figure_out_of_its_range_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError):
        Network(**wrong)


class Register:
    """A service that notes what reaches it, in order, and answers with the body."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.app = Starlette(routes=[Route("/", self._take, methods=["POST"])])

    async def _take(self, request: Request) -> Response:
        body = (await request.body()).decode()
        self.seen.append(body)
        return JSONResponse({"got": body})


async def send(network: Network, count: int, *, together: bool = False) -> tuple[Register, Traffic]:
    """Send the numbers below `count` through a network, each until it is answered."""
    service, traffic = Register(), Traffic()
    inner = InProcess(httpx.ASGITransport(app=service.app))
    faults = Faults(inner, network, SeededRandom(5), traffic)

    async def nothing(_: float) -> None:
        await asyncio.sleep(0)

    async with service_client("http://it.test", transport=faults) as client:

        async def one(number: int) -> None:
            answer = await with_retries(
                lambda: client.call("POST", "/", str(number).encode()), attempts=50, sleep=nothing
            )
            assert answer.json() == {"got": str(number)}

        if together:
            await asyncio.gather(*(one(number) for number in range(count)))
        else:
            for number in range(count):
                await one(number)
    return service, traffic


async def test_requests_are_lost_and_answered_in_the_end() -> None:
    service, traffic = await send(Network(loss=0.5), 200)
    assert traffic.lost > 0
    assert traffic.lost_answers > 0
    assert traffic.messages == 200 + traffic.lost + traffic.lost_answers
    # A lost request never arrives; one whose answer is lost arrives again.
    assert len(service.seen) == 200 + traffic.lost_answers
    assert set(service.seen) == {str(number) for number in range(200)}


async def test_requests_arrive_twice() -> None:
    service, traffic = await send(Network(duplicate=0.5), 100)
    assert traffic.duplicates > 0
    assert len(service.seen) == 100 + traffic.duplicates


async def test_requests_overtake_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async def turns(seconds: float) -> None:
        """Time in turns of the loop, so that no slow machine matters."""
        for _ in range(int(1000 * seconds)):
            await asyncio.sleep(0)

    monkeypatch.setattr(network_model, "asyncio", SimpleNamespace(sleep=turns))
    service, traffic = await send(Network(reorder=0.5, hold_s=1.0), 20, together=True)
    assert 0 < traffic.held < 20
    assert service.seen != sorted(service.seen, key=int)
    assert sorted(service.seen, key=int) == [str(number) for number in range(20)]


async def test_another_network_from_now_on() -> None:
    service, traffic = Register(), Traffic()
    inner = InProcess(httpx.ASGITransport(app=service.app))
    faults = Faults(inner, Network(loss=0.999), SeededRandom(5), traffic)
    async with service_client("http://it.test", transport=faults) as client:
        with pytest.raises(TimedOut):
            await asyncio.gather(*(client.call("POST", "/", b"0") for _ in range(50)))
        faults.network = PERFECT
        assert (await client.call("POST", "/", b"1")).json() == {"got": "1"}
