"""Green Button files: what they say is what is stored, and nothing that they hide gets far."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curator.files.market.green_button import MAX_DEPTH, FeedReader, series
from tests.curator.conftest import OPEN, PLAIN, OpenSite, Site, query
from tests.curator.double import FakeWorld
from tests.curator.files.market.green_button_files import FeedFile, Meter
from tests.curator.stored import rows

START = datetime(2025, 12, 31, 12, tzinfo=UTC)
QUARTER = timedelta(minutes=15)


async def upload(s: Site, body: str | bytes, status: int = 200, **parameters: str) -> Any:
    answer = await s.client.post(
        "/v1/readings/import",
        params=parameters,
        content=body.encode() if isinstance(body, str) else body,
        headers={"Content-Type": "application/atom+xml"},
    )
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.mark.parametrize(("pack", "types_last"), [(bytes, False), (gzip.compress, True)])
async def test_a_feed_is_stored_and_summed(
    s: Site, world: FakeWorld, pack: Callable[[bytes], bytes], types_last: bool
) -> None:
    feed = FeedFile([Meter("p-1", [100, 200, 300, -50], START)], types_last=types_last)
    await s.policy(**OPEN)
    await s.enrol("house")
    found = await upload(s, pack(feed.text().encode()), import_id="one")
    assert found["state"] == "done"
    assert (found["accepted"], found["rejected"], found["errors"]) == (4, 0, [])
    assert found["lines"] == feed.text().count("\n")
    assert await s.get("/v1/readings/imports/one") == found
    assert await rows(s) == [
        ("p-1", START + n * QUARTER, value * 10**9) for n, value in enumerate([100, 200, 300, -50])
    ]
    again = await upload(s, feed.text())
    assert (again["accepted"], again["duplicates"]) == (0, 4)
    other = await upload(s, feed.text().replace("<value>200<", "<value>201<"))
    assert (other["duplicates"], other["conflicts"]) == (3, 1)
    descriptor = s.open(query(PLAIN, bounds=["-5", "5"]))
    await s.take_part()
    assert world.result(descriptor) == {"sum": "0.55"}


CODES: list[tuple[dict[str, str], str, int]] = [
    ({"power": "3"}, "energy_import", 7 * 10**12),
    ({"power": "-3"}, "energy_import", 7 * 10**6),
    ({"power": "-12"}, "energy_import", 0),
    ({"power": ""}, "energy_import", 7 * 10**9),
    ({"flow": "19"}, "energy_export", 7 * 10**9),
    ({"flow": "4"}, "energy_net", 7 * 10**9),
    ({"flow": ""}, "energy_import", 7 * 10**9),
    ({"uom": "38", "behaviour": "12"}, "power_import", 7 * 10**9),
    ({"uom": "38", "behaviour": "0", "flow": "19"}, "power_export", 7 * 10**9),
    ({"uom": "42", "commodity": "7"}, "gas", 7 * 10**9),
    ({"uom": "134", "commodity": "9"}, "water", 7 * 10**6),
    ({"uom": "119", "power": "2", "commodity": "7"}, "gas", 19_821_792_614),  # 7 ccf
    ({"uom": "169", "commodity": "7"}, "energy:gas", 205_149_749_120_556),
    ({"uom": "169", "power": "-3", "commodity": "7"}, "energy:gas", 205_149_749_121),
    ({"commodity": "7"}, "energy:gas", 7 * 10**9),
    ({"uom": "134", "commodity": "9", "power": "-7"}, "water", 1),
]


async def test_codes_become_registers_and_units(s: Site) -> None:
    meters = [Meter(f"p-{n}", [7], START, **changes) for n, (changes, _, _) in enumerate(CODES)]
    await s.enrol("house")
    found = await upload(s, FeedFile(meters).text())
    assert (found["accepted"], found["rejected"]) == (len(CODES), 0)
    for n, (changes, register, nano) in enumerate(CODES):
        assert (f"p-{n}", START, nano) in await rows(s, register), changes


async def test_the_service_says_what_flows_where_the_type_does_not(s: Site) -> None:
    feed = FeedFile([Meter("p", [7], START, uom="42", commodity="")], services={"p": "2"})
    await s.enrol("house")
    assert (await upload(s, feed.text()))["accepted"] == 1
    assert len(await rows(s, "water")) == 1


async def test_bulk_quantities_are_counters(s: Site) -> None:
    feed = FeedFile([Meter("p", [1000, 1250, -1, 1300], START, behaviour="1")])
    await s.enrol("house")
    found = await upload(s, feed.text())
    assert (found["accepted"], found["rejected"]) == (3, 1)
    assert found["errors"][0]["element"] == "IntervalReading/value"
    assert [quantity for _, _, quantity in await rows(s)] == [250 * 10**9, 50 * 10**9]


FEED = FeedFile(
    [Meter("p-1", [1], START), Meter("p-2", [2], START), Meter("p-3", [3], START, flow="19")],
    titles={"p-2": "b", "p-3": "Somewhere else"},
)


async def test_whose_a_usage_point_is(s: Site) -> None:
    """By the table, by its own name; one that nobody has is reported and spoils no other."""
    await s.enrol("gw", ["a", "b"])
    table = json.dumps({"p-1": "a"})
    found = await upload(s, FEED.text(), usage_points=table)
    assert (found["accepted"], found["rejected"]) == (2, 1)
    assert found["unknown_curators"] == ["urn:uuid:p-3"]
    (error,) = found["errors"]
    assert error["element"] == "UsagePoint"
    assert "name one" in error["detail"]
    for name, count in (("a", 1), ("b", 1)):
        assert (await s.get(f"/v1/curators/{name}/readings"))["accepted"] == count
    table = json.dumps({"p-1": "a", "urn:uuid:p-2": "b", "Somewhere else": "a"})
    assert (await upload(s, FEED.text(), usage_points=table))["accepted"] == 1
    gone = await upload(s, FEED.text(), usage_points=json.dumps({"p-1": "nobody"}))
    assert gone["rejected"] == 2
    for bad in ("{", "[]", '{"p-1": "a b"}'):
        await upload(s, FEED.text(), 422, usage_points=bad)


async def test_one_curator_for_all_and_a_token_of_its_own(s: Site) -> None:
    await s.enrol("gw", ["a", "b"])
    assert (await upload(s, FEED.text(), curator="a"))["accepted"] == 3
    made = await s.request("POST", "/v1/tokens", {"scope": "device", "subject": "b"}, 201)
    answer = await s.client.post(
        "/v1/readings/import?curator=a&form=green-button",
        content=FEED.text(),
        headers={"Authorization": f"Bearer {made['token']}"},
    )
    assert answer.json()["accepted"] == 0
    assert answer.json()["rejected"] == 3
    answer = await s.client.post(
        "/v1/readings/import?form=green-button",
        files={"file": ("feed.xml", FEED.text().encode())},
        headers={"Authorization": f"Bearer {made['token']}"},
    )
    assert answer.status_code == 200, answer.text
    assert answer.json()["accepted"] == 3
    assert (await s.get("/v1/curators/b/readings"))["accepted"] == 3


def faulty(value: object) -> str:
    return FeedFile([Meter("p", [1, value, 3], START)]).text()


FAULTY: list[tuple[str, str, str]] = [
    (faulty("1.5"), "IntervalReading/value", "whole number"),
    (faulty(""), "IntervalReading/value", "missing"),
    (faulty("abc"), "IntervalReading/value", "whole number"),
    (faulty("9" * 30), "IntervalReading/value", "whole number"),
    (faulty("2000000000000000"), "IntervalReading/value", "too large"),
    (
        faulty(7).replace(f"<start>{int((START + QUARTER).timestamp())}<", "<start>noon<"),
        "IntervalReading/timePeriod/start",
        "seconds",
    ),
    (
        faulty(7).replace(f"<start>{int((START + QUARTER).timestamp())}<", "<start>1767182400.5<"),
        "IntervalReading/timePeriod/start",
        "seconds",
    ),
    (
        faulty(7).replace(f"<start>{int((START + QUARTER).timestamp())}<", "<start>9999999999<"),
        "IntervalReading/timePeriod/start",
        "future",
    ),
]


async def test_a_bad_reading_is_reported_and_spoils_no_other(s: Site) -> None:
    await s.enrol("house")
    for number, (text, element, words) in enumerate(FAULTY):
        found = await upload(s, text.replace("urn:uuid:p<", f"urn:uuid:p-{number}<"))
        assert (found["accepted"], found["rejected"]) == (2, 1), words
        (error,) = found["errors"]
        assert error["element"] == element
        assert words in error["detail"]
        assert text.splitlines()[error["line"] - 1].startswith("<IntervalReading>")
        own = [moment for name, moment, _ in await rows(s) if name == f"p-{number}"]
        assert own == [START, START + 2 * QUARTER]
    counts = await s.get("/v1/curators/house/readings")
    assert counts["accepted"] == 2 * len(FAULTY)


UNSUITED: list[tuple[dict[str, str], str]] = [
    ({"uom": "128"}, "ReadingType/uom"),
    ({"uom": "169"}, "ReadingType/commodity"),
    ({"uom": ""}, "ReadingType/uom"),
    ({"behaviour": "3"}, "ReadingType/accumulationBehaviour"),
    ({"behaviour": ""}, "ReadingType/accumulationBehaviour"),
    ({"flow": "99"}, "ReadingType/flowDirection"),
    ({"power": "13"}, "ReadingType/powerOfTenMultiplier"),
    ({"power": "x"}, "ReadingType/powerOfTenMultiplier"),
    ({"uom": "42"}, "ReadingType/commodity"),
]


async def test_a_type_that_cannot_be_summed_costs_its_blocks_only(s: Site) -> None:
    odd = [Meter(f"p-{n}", [1, 2], START, **changes) for n, (changes, _) in enumerate(UNSUITED)]
    await s.enrol("house")
    found = await upload(s, FeedFile([*odd, Meter("p", [4], START)]).text())
    assert (found["accepted"], found["rejected"]) == (1, 2 * len(UNSUITED))
    for error, (_, element) in zip(found["errors"], UNSUITED, strict=True):
        assert error["element"] == element
        assert error["detail"].startswith(element)


def test_links_that_lead_nowhere() -> None:
    feed = FeedFile([Meter("p", [1], START), Meter("q", [1], START)]).text()
    for cut, element in (
        ('<link rel="related" href="ReadingType/1"/>', "MeterReading"),
        (
            '<link rel="up" href="RetailCustomer/7/UsagePoint/q/MeterReading/1/IntervalBlock"/>',
            "IntervalBlock",
        ),
    ):
        reader = FeedReader()
        assert cut in feed
        reader.feed(feed.replace(cut, "").encode())
        found, faults = series(reader.close())
        assert len(found) == 1
        ((fault, count),) = faults
        assert (fault.element, count) == (element, 1)


BOMB = (
    '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">'
    + "".join(
        f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    + ']><feed xmlns="http://www.w3.org/2005/Atom">&i;</feed>'
)
OPEN_FEED = '<feed xmlns="http://www.w3.org/2005/Atom">'


NO_FEED: list[tuple[str, str]] = [
    (BOMB, "document type"),
    ('<!DOCTYPE feed SYSTEM "file:///etc/passwd">' + OPEN_FEED + "</feed>", "document type"),
    (OPEN_FEED + "&undefined;</feed>", "damaged"),
    (OPEN_FEED + "<a>" * (MAX_DEPTH + 1), "nested"),
    (OPEN_FEED + "<entry><title>" + "x" * 5000, "too long"),
    (OPEN_FEED + "<entry><entry>", "entry inside"),
    (OPEN_FEED + "<entry>", "cut off"),
    (FEED.text()[:-20], "cut off"),
    (FEED.text().replace("</content>", "", 1), "damaged"),
    ("<html></html>", "Atom"),
    ("meter,0,1\n", "damaged"),
    ("", "Atom"),
    ("\x00\x01\x02\x03\x04\x05\x06", "damaged"),
]


async def test_what_is_no_feed_stores_nothing(s: Site) -> None:
    await s.enrol("house")
    for text, words in NO_FEED:
        found = await upload(s, text, 422)
        assert found["type"] == "urn:tacit:problem:bad_import"
        assert words in found["detail"]
    assert await rows(s) == []
    assert (await s.get("/v1/curators/house/readings"))["accepted"] == 0


async def test_a_feed_has_a_largest_size(site: OpenSite) -> None:
    async with site(import_max_feed_bytes=1000) as s:
        await s.enrol("house")
        found = await upload(s, FEED.text(), 422)
        assert "grows too much" in found["detail"]


@given(size=st.integers(1, 4000), count=st.integers(1, 40))
def test_pieces_of_any_size_give_the_same_feed(size: int, count: int) -> None:
    body = FeedFile([Meter("p", range(count), START, per_block=7)]).text().encode()
    whole, pieces = FeedReader(), FeedReader()
    whole.feed(body)
    for begin in range(0, len(body), size):
        pieces.feed(body[begin : begin + size])
    one, other = whole.close(), pieces.close()
    assert one == other
    values = [value for entry in one.entries for value in entry.readings.values]
    assert values == list(range(count))
