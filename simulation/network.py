"""A network between curators and aggregators that delays, loses, repeats and reorders messages.

One description, two uses. `Faults` wraps a real transport and does it to real requests: the
services behind it see what a bad network would show them. `arrivals` models the same for the
in-process driver: when each curator's message has arrived.

A message is lost in transit or its answer is, with equal chances; either way the sender waits
`retry_s` and sends the same bytes again. A repeated message must change nothing; lost answers and
`duplicate` exercise this. A held message is overtaken by those sent within `hold_s` after it.
"""

from __future__ import annotations

import asyncio
from dataclasses import astuple, dataclass, fields
from operator import add, sub

import numpy as np
from numpy.typing import NDArray

from common.web.client import ServiceRequest, ServiceResponse, TimedOut, Transport
from tacit.randomness import SeededRandom

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Network:
    """`delay_s`: mean of an exponential delay. `loss`, `duplicate`, `reorder`: probabilities per
    message. `hold_s`: for how long a reordered message is held back."""

    delay_s: float = 0.0
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    hold_s: float = 0.05
    retry_s: float = 0.3

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value < 0 or (not field.name.endswith("_s") and value > 1):
                raise ValueError(f"{field.name} is out of its range")
        if self.loss == 1:
            raise ValueError("a network that loses everything delivers nothing")


PERFECT = Network()


@dataclass
class Traffic:
    """Counts of messages."""

    messages: int = 0
    lost: int = 0
    lost_answers: int = 0
    duplicates: int = 0
    held: int = 0

    def since(self, before: Traffic) -> Traffic:
        """The increase over an earlier count."""
        return Traffic(*map(sub, astuple(self), astuple(before)))

    def plus(self, more: Traffic) -> Traffic:
        """The sum of both."""
        return Traffic(*map(add, astuple(self), astuple(more)))


def arrivals(network: Network, sent: Floats, source: SeededRandom, traffic: Traffic) -> Floats:
    """When messages sent at `sent` (n,) seconds have arrived, (n,) seconds; counts into `traffic`.

    Counts the lost messages before the first arrival; a lost answer delays no message but makes
    the sender repeat one that has arrived.
    """
    generator, count = source.generator, sent.size
    traffic.messages += count
    if network == PERFECT:
        return sent
    arrived = sent.copy()
    if network.loss:
        lost = generator.geometric(1 - network.loss / 2, count) - 1
        answers = generator.geometric(1 - network.loss / 2, count) - 1
        arrived += lost * network.retry_s
        traffic.lost += int(lost.sum())
        traffic.lost_answers += int(answers.sum())
        traffic.messages += int(lost.sum() + answers.sum())
    if network.delay_s:
        arrived += generator.exponential(network.delay_s, count)
    if network.reorder:
        is_held = generator.random(count) < network.reorder
        arrived += is_held * network.hold_s
        traffic.held += int(is_held.sum())
    if network.duplicate:
        traffic.duplicates += int((generator.random(count) < network.duplicate).sum())
    return arrived


class Faults:
    """A transport that applies these faults to every request that passes through `inner`.
    `network` can be replaced at any time and then applies to later requests."""

    def __init__(
        self, inner: Transport, network: Network, source: SeededRandom, traffic: Traffic
    ) -> None:
        self._inner, self.network, self._source = inner, network, source
        self._traffic = traffic

    async def send(self, request: ServiceRequest) -> ServiceResponse:
        """Send it, or not, or twice; raises TimedOut for what is lost."""
        network, generator, traffic = self.network, self._source.generator, self._traffic
        # All chances are drawn together: the fate of a message does not depend on the others.
        is_held, lost, repeated, answer_lost = generator.random(4) < (
            network.reorder,
            network.loss / 2,
            network.duplicate,
            network.loss / 2,
        )
        delay = generator.exponential(network.delay_s) if network.delay_s else 0.0
        traffic.messages += 1
        traffic.held += int(is_held)
        await asyncio.sleep(delay + (network.hold_s if is_held else 0.0))
        if lost:
            traffic.lost += 1
            raise TimedOut("the network lost the request")
        if repeated:
            traffic.duplicates += 1
            await self._inner.send(request)
        answer = await self._inner.send(request)
        if answer_lost:
            traffic.lost_answers += 1
            raise TimedOut("the network lost the answer")
        return answer

    async def aclose(self) -> None:
        """Close what is behind."""
        await self._inner.aclose()
