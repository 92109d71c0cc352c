"""An identity provider that keeps the rules of the code flow, and says whatever a test wants."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from typing import Any
from urllib.parse import parse_qs, quote_plus, urlsplit

import httpx
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

from common.runtime.clock import Clock

ISSUER = "https://id.test/realm"
CLIENT, SECRET = "tacit:night", "a secret/with+marks"
MARK = "marked-person"
"""Of the one who signs in: no log may have it."""
KEY = RSAKey.generate_key(2048, {"kid": "first", "use": "sig"})
ENCRYPTION = RSAKey.generate_key(2048, {"kid": "other", "use": "enc"})


class Provider(httpx.AsyncBaseTransport):
    """Reached by the coordinator through this; a browser's part is `authorize`."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.down: set[str] = set()
        self.groups: object = ["grid-night"]
        self.claims: dict[str, Any] = {}
        """Changes of the claims; None leaves one out."""
        self.document: dict[str, Any] = {}
        self.key: Any = KEY
        self.written = self.signed
        """How it writes claims as a token."""
        self.codes: dict[str, dict[str, str]] = {}
        self.asked: list[str] = []

    def authorize(self, address: str) -> dict[str, str]:
        """The person agrees: what the browser is sent back with."""
        parts = urlsplit(address)
        assert f"{parts.scheme}://{parts.netloc}{parts.path}" == f"{ISSUER}/authorize"
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        assert asked["client_id"] == CLIENT
        assert asked["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        return {"code": code, "state": asked["state"]}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/realm")
        self.asked.append(path)
        if path in self.down:
            raise httpx.ConnectError("down")
        if path == "/.well-known/openid-configuration":
            described = {
                "issuer": ISSUER,
                "authorization_endpoint": f"{ISSUER}/authorize",
                "token_endpoint": f"{ISSUER}/token",
                "jwks_uri": f"{ISSUER}/keys",
                "end_session_endpoint": f"{ISSUER}/end?ui=plain",
            }
            return httpx.Response(200, json=described | self.document)
        if path == "/keys":
            keys = KeySet([KEY, ENCRYPTION]).as_dict(private=False)["keys"]
            return httpx.Response(200, json={"keys": [*keys, {"kty": "AKP", "kid": "new"}]})
        assert path == "/token"
        return self._redeemed(request)

    def _redeemed(self, request: httpx.Request) -> httpx.Response:
        fields = {name: values[0] for name, values in parse_qs(request.content.decode()).items()}
        both = base64.b64encode(f"{quote_plus(CLIENT)}:{quote_plus(SECRET)}".encode()).decode()
        asked = self.codes.pop(fields["code"], None)  # a code is good once
        digest = hashlib.sha256(fields["code_verifier"].encode()).digest()
        good = (
            asked is not None
            and request.headers["authorization"] == f"Basic {both}"
            and fields["redirect_uri"] == asked["redirect_uri"]
            and _packed(digest) == asked["code_challenge"]
        )
        if not good:
            return httpx.Response(400, json={"error": "invalid_grant"})
        assert asked is not None
        return httpx.Response(200, json={"id_token": self._token(asked), "access_token": MARK})

    def _token(self, asked: dict[str, str]) -> str:
        now = int(self.clock.now().timestamp())
        claims = {
            "iss": ISSUER,
            "aud": CLIENT,
            "sub": MARK,
            "email": f"{MARK}@example.org",
            "iat": now,
            "exp": now + 300,
            "nonce": asked["nonce"],
            "groups": self.groups,
            **self.claims,
        }
        kept = {name: value for name, value in claims.items() if value is not None}
        return self.written(kept)

    def signed(self, claims: dict[str, Any]) -> str:
        return jwt.encode({"alg": "RS256", "kid": "first"}, claims, self.key)


def unsigned(claims: dict[str, Any]) -> str:
    """A token of `alg: none`."""
    return _content("none", claims) + "."


def signed_by_hmac(claims: dict[str, Any], key: bytes) -> str:
    """A token whose shared secret is a key that everyone knows."""
    content = _content("HS256", claims)
    return f"{content}.{_packed(hmac.digest(key, content.encode(), 'sha256'))}"


def _content(algorithm: str, claims: dict[str, Any]) -> str:
    header = {"alg": algorithm, "typ": "JWT"}
    return ".".join(_packed(json.dumps(each).encode()) for each in (header, claims))


def _packed(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
