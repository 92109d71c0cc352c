"""Groups of the key agreement, and whether the library offers one that lasts."""

from __future__ import annotations

import ssl

import pytest
from pydantic import ValidationError

from common.runtime.tls import TlsSettings, environment_trust, post_quantum

CHOOSABLE = hasattr(ssl.SSLContext, "set_groups")


@pytest.mark.parametrize(
    ("version", "said"),
    [((3, 0, 19, 0, 0), "no"), ((3, 4, 9, 0, 0), "no"), ((3, 5, 0, 0, 0), "offered")],
)
def test_the_library_says_whether_it_offers_the_group(
    monkeypatch: pytest.MonkeyPatch, version: tuple[int, ...], said: str
) -> None:
    monkeypatch.setattr(ssl, "OPENSSL_VERSION_INFO", version)
    assert post_quantum() == said


@pytest.mark.skipif(CHOOSABLE, reason="this Python can choose the groups")
def test_groups_are_refused_where_they_would_do_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACIT_TLS_GROUPS", "X25519MLKEM768")
    with pytest.raises(ValidationError, match=r"3\.15"):
        TlsSettings()
    with pytest.raises(ValidationError, match="proxy"):
        environment_trust()
    monkeypatch.setenv("TACIT_TLS_GROUPS", "")
    assert TlsSettings().tls_groups is None


@pytest.mark.skipif(not CHOOSABLE, reason="this Python cannot choose the groups")
def test_groups_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACIT_TLS_GROUPS", "X25519")
    assert isinstance(environment_trust(), ssl.SSLContext)
    with pytest.raises(ssl.SSLError):
        TlsSettings(tls_groups="no group").trust()
