"""Join tokens: one word, complete, and silent about their secrets when they are wrong."""

import base64
from datetime import UTC, datetime

import pytest

from tacit.protocol.enrolment import Grant, JoinToken, PartyKind

SECRET = "s" * 32
GRANT = Grant(party="meter-1", url="https://example.org", fingerprint=bytes(32), secret=SECRET)
TOKEN = JoinToken(
    party="meter-1",
    kind=PartyKind.CURATOR,
    max_curators=1,
    coordinator=GRANT,
    aggregators=(GRANT, GRANT),
    expires=datetime(2026, 1, 2, tzinfo=UTC),
)


def test_a_token_is_one_word():
    text = TOKEN.to_text()
    assert text.startswith("tctjoin_") and text.isascii() and len(text.split()) == 1
    assert JoinToken.from_text(f"  {text}\n") == TOKEN


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tctjoin_",
        "tctjoin_%%%",
        "tctjoin_é",
        TOKEN.to_text()[:-5],
        TOKEN.to_text().removeprefix("tctjoin_"),
        "x" + TOKEN.to_text(),
        "tctjoin_" + base64.urlsafe_b64encode(b"\xff\xfe").decode(),
        "tctjoin_" + base64.urlsafe_b64encode(b'{"secret": "%s"}' % SECRET.encode()).decode(),
    ],
)
def test_anything_else_is_refused_without_telling_its_content(text):
    with pytest.raises(ValueError) as error:
        JoinToken.from_text(text)
    assert str(error.value) == "not a join token"
    assert error.value.__suppress_context__
