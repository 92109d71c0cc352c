"""A condition is sent once when it begins and once when it ends, through real receivers; restarts,
outlets that fail and conditions that come and go change nothing of that."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from pydantic import SecretStr, ValidationError

from common.runtime.clock import ManualClock
from common.web.dependencies import part_of
from coordinator.alerts.notifier import GONE, Notifier
from coordinator.registry.aggregators import Attendance
from coordinator.settings import CoordinatorSettings
from tests.coordinator.alerts.receivers import Post, Web, receivers
from tests.coordinator.conftest import Houses
from tests.coordinator.double import House, problem, query

KEY = "webhook-key-0123456789-abcdefghij"
AWAY = "aggregator-1"


class Deployment:
    """A coordinator whose notifications go to the two receivers."""

    def __init__(self, it: House, clock: ManualClock, web: Web, post: Post) -> None:
        self.it, self.clock, self.web, self.post = it, clock, web, post

    async def look(self, seconds: float = 15) -> None:
        """One pass of the services' loops, after this time."""
        self.clock.advance(timedelta(seconds=seconds))
        await part_of(self.it.app, Attendance).look()
        await part_of(self.it.app, Notifier).look()

    async def looks(self, times: int) -> None:
        for _ in range(times):
            await self.look()

    def sent(self) -> list[dict[str, Any]]:
        """The bodies that the web server took."""
        return [json.loads(body) for _, body in self.web.requests]

    async def listed(self) -> list[dict[str, Any]]:
        answer = await self.it.ask("GET", "/v1/notifications")
        found: list[dict[str, Any]] = answer.json()["notifications"]
        return found


@asynccontextmanager
async def notified(house: Houses, **changes: Any) -> AsyncIterator[Deployment]:
    clock = ManualClock()
    async with receivers() as (web, post):
        settings = {
            "notify_webhook_url": SecretStr(web.url),
            "notify_webhook_key": SecretStr(KEY),
            "notify_smtp_url": SecretStr(post.url),
            "notify_from": "tacit@example.org",
            "notify_to": ("night@example.org", "day@example.org"),
        }
        async with house(2, clock=clock, **{**settings, **changes}) as it:
            yield Deployment(it, clock, web, post)


async def test_an_aggregator_that_is_away_is_sent_when_it_begins_and_when_it_ends(
    house: Houses,
) -> None:
    async with notified(house) as there:
        await there.looks(4)
        assert there.sent() == []
        there.it.wires[1].down = True
        await there.looks(8)
        [began] = there.sent()
        assert (began["event"], began["condition"], began["subject"], began["ended"]) == (
            "began",
            "aggregator_away",
            AWAY,
            None,
        )
        assert began["sentence"].startswith(f"{AWAY} has not answered for 15 s: nothing answers")
        assert began["runbook"] == "docs/how-to/troubleshoot.md#an-aggregator-does-not-answer"
        there.it.wires[1].down = False
        await there.look()
        back = there.clock.now()
        await there.looks(int(GONE.total_seconds() / 15) + 3)
        first, ended = there.sent()
        assert first == began
        assert (ended["event"], ended["id"], ended["began"]) == (
            "ended",
            began["id"],
            began["began"],
        )
        assert ended["ended"] == back.strftime("%Y-%m-%dT%H:%M:%SZ")

        mails = there.post.mails
        assert [mail["Subject"] for mail in mails] == [
            f"[tacit] aggregator_away began: {AWAY}",
            f"[tacit] aggregator_away ended: {AWAY}",
        ]
        assert mails[0]["To"] == "night@example.org, day@example.org"
        assert began["sentence"] in mails[0].get_payload(decode=True).decode()
        user = base64.b64decode(there.post.logins[0]).split(b"\0")[1:]
        assert user == [b"tacit", b"p@ss"]
        [listed] = await there.listed()
        assert [
            (each["event"], each["outlet"], each["attempts"]) for each in listed["deliveries"]
        ] == [
            ("began", "email", 1),
            ("began", "webhook", 1),
            ("ended", "email", 1),
            ("ended", "webhook", 1),
        ]
        assert all(each["delivered"] for each in listed["deliveries"])


async def test_a_receiver_can_verify_a_request_and_notices_another_body_key_or_time(
    house: Houses,
) -> None:
    async with notified(house) as there:
        assert (await there.it.ask("POST", "/v1/notifications/test")).status_code == 200
        [(headers, body)] = there.web.requests
        assert headers["request"] == "POST /hook?to=operators HTTP/1.1"
        stamp, signed = headers["tacit-timestamp"], headers["tacit-signature"]
        assert float(stamp) == there.clock.now().timestamp()

        def expected(key: str, stamp: str, body: bytes) -> str:
            text = stamp.encode() + b"." + body
            return "sha256=" + hmac.new(key.encode(), text, hashlib.sha256).hexdigest()

        assert signed == expected(KEY, stamp, body)
        assert signed != expected(KEY, stamp, body + b" ")
        assert signed != expected(KEY + "x", stamp, body)
        assert signed != expected(KEY, str(int(stamp) + 1), body)
        assert json.loads(body)["event"] == "test"


async def test_a_message_is_tried_again_with_longer_pauses_until_it_is_taken(
    house: Houses,
) -> None:
    async with notified(house) as there:
        there.web.status, there.post.refuses = 503, b"451 later"
        there.it.wires[1].down = True
        await there.looks(21)  # five minutes
        tried = len(there.web.requests)
        assert 4 <= tried <= 6  # after 15, 30, 60, 120 s
        assert len({body for _, body in there.web.requests}) == 1
        assert len({headers["tacit-timestamp"] for headers, _ in there.web.requests}) == tried
        [listed] = await there.listed()
        problems = {each["outlet"]: each["problem"] for each in listed["deliveries"]}
        assert problems == {"webhook": "status 503", "email": "SMTPSenderRefused 451"}
        assert there.post.mails == []

        await there.it.restart()  # what waits is stored
        there.web.status, there.post.refuses = 204, None
        await there.looks(40)
        assert len(there.web.requests) == tried + 1
        assert len(there.post.mails) == 1
        await there.looks(40)
        assert len(there.web.requests) == tried + 1


async def test_a_message_is_given_up_after_a_day_and_the_next_one_goes_out(house: Houses) -> None:
    async with notified(house, notify_smtp_url=None) as there:
        there.web.status = 500
        there.it.wires[1].down = True
        for _ in range(110):
            await there.look(15 * 60)
        tried = len(there.web.requests)
        [listed] = await there.listed()
        [delivery] = listed["deliveries"]
        assert (delivery["due"], delivery["delivered"], delivery["problem"]) == (
            None,
            None,
            "status 500",
        )
        there.web.status, there.it.wires[1].down = 204, False
        await there.looks(12)
        assert [each["event"] for each in there.sent()[tried:]] == ["ended"]


async def test_what_comes_and_goes_and_a_restart_are_one_condition(house: Houses) -> None:
    async with notified(house) as there:
        there.it.wires[1].down = True
        await there.looks(4)
        for _ in range(4):  # back for a minute, away for a minute
            there.it.wires[1].down = False
            await there.looks(4)
            there.it.wires[1].down = True
            await there.looks(4)
        await there.it.restart()  # the new process has not missed it yet
        await there.looks(6)
        assert [each["event"] for each in there.sent()] == ["began"]


async def test_a_test_without_outlets_or_with_one_that_fails_is_told(house: Houses) -> None:
    async with notified(house) as there:
        there.web.status = 302
        answer = await there.it.ask("POST", "/v1/notifications/test")
        found = {each["outlet"]: each for each in answer.json()["deliveries"]}
        assert (found["webhook"]["problem"], found["webhook"]["due"]) == ("status 302", None)
        assert found["email"]["delivered"] is not None
        await there.looks(4)
        assert len(there.web.requests) == 1  # a test is not repeated
    async with house(0) as it:
        assert problem(await it.ask("POST", "/v1/notifications/test")) == (409, "no_outlet")


async def test_a_round_without_a_sum_is_sent_without_names_and_values(house: Houses) -> None:
    marked = "marked-gateway"
    async with notified(house) as there:
        it = there.it
        host = await it.host(marked, 5)
        opened = await it.open(query(aggregators=2, min_participants=4, name="evening"))
        await opened.contribute(host, np.full((5, 1), 4567))
        await it.finish(opened, by="abort")
        await there.look()
        [sent] = there.sent()
        assert sent["condition"] == "round_aborted"
        assert sent["sentence"].startswith("The last round of evening opened no sum: ")
        told = [body for _, body in there.web.requests]
        told += [bytes(mail) for mail in there.post.mails]
        told.append((await it.ask("GET", "/v1/notifications")).content)
        told.append((await it.ask("GET", "/v1/conditions")).content)
        assert len(told) == 4
        for private in (marked, "4567", "4.567"):
            assert not any(private.encode() in text for text in told), private


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"notify_webhook_url": "http://example.org/hook"}, "begins with https://"),
        ({"notify_webhook_url": "https:///hook"}, "begins with https://"),
        ({"notify_webhook_url": "https://example.org", "notify_webhook_key": "short"}, "32"),
        ({"notify_webhook_url": "https://example.org"}, "notify_webhook_key"),
        ({"notify_smtp_url": "http://example.org"}, "begins with smtps://"),
        ({"notify_smtp_url": "smtps://example.org", "notify_from": "a@example.org"}, "notify_to"),
        ({"notify_smtp_url": "smtps://example.org", "notify_to": ["b@example.org"]}, "notify_from"),
    ],
)
def test_an_outlet_that_is_not_private_or_lacks_a_part_is_refused(
    settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValidationError, match=said) as refused:
        CoordinatorSettings(**settings)
    assert "example.org/hook" not in str(refused.value)
