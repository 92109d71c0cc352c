"""What an identity provider says of a person: OpenID Connect, code flow with PKCE (RFC 7636).

Addresses and keys of the provider are read at each sign-in, so that a change there needs none here.
The ID token comes from the provider itself over TLS, and its signature is checked nevertheless.
Neither it, nor an access token, nor a claim is stored or logged.

Spec: console, section 3.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final
from urllib.parse import quote_plus, urlencode, urlsplit

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from common.principals import Scope
from common.runtime.clock import Clock
from common.runtime.settings import ConsoleSettings
from common.runtime.tls import public_trust
from common.web.client import NoAnswer, ServiceRequest, TcpTransport, Transport, distrusted
from tacit.errors import Forbidden, Unauthenticated, Unavailable
from tacit.report.statements import is_loopback

CALLBACK: Final = "/console/sso/callback"
ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
)
"""Signatures with a public key: neither `none` nor a shared secret."""
LEEWAY_S: Final = 60
"""How far the clocks of the two may be apart."""
LONGEST_SUBJECT: Final = 160
_TIMEOUT_S: Final = 5.0


class ProviderAway(Unavailable):
    """The provider cannot be asked; the detail says why, for the log."""

    name = "provider_away"
    title = "The identity provider does not answer: try again, or sign in with an API token"


class ProviderRefused(Unauthenticated):
    """The person cancelled, or the provider refused to sign them in."""

    name = "provider_refused"
    title = "The identity provider did not sign you in"


class StatementRefused(Unauthenticated):
    """The provider's statement is not signed by it, or not for this service and sign-in."""

    name = "statement_refused"
    title = "The identity provider's answer cannot be accepted; the log has the reason"


class NoRole(Forbidden):
    """None of the person's groups has a role here."""

    name = "no_role"
    title = (
        "You are signed in at the identity provider, but none of your groups has a role in "
        "this service"
    )


SIGN_IN_FAILED: Final = (ProviderAway, ProviderRefused, StatementRefused, NoRole)


@dataclass(frozen=True)
class Attempt:
    """One attempt to sign in, identified by a secret that only its browser has. Everything in
    addresses is derived from it, so that nothing is stored until the browser returns."""

    secret: str

    @staticmethod
    def new() -> Attempt:
        return Attempt(secrets.token_urlsafe(32))

    @cached_property
    def state(self) -> str:
        return self._derived("state")

    @cached_property
    def nonce(self) -> str:
        return self._derived("nonce")

    @cached_property
    def verifier(self) -> str:
        return self._derived("verifier")

    @property
    def challenge(self) -> str:
        """S256 of the verifier."""
        return _base64url(hashlib.sha256(self.verifier.encode()).digest())

    def _derived(self, purpose: str) -> str:
        return _base64url(hashlib.sha256(f"{purpose}:{self.secret}".encode()).digest())


@dataclass(frozen=True)
class Person:
    """A person as the provider knows them; `subject`: its permanent name of the person."""

    subject: str
    role: Scope | None


@dataclass(frozen=True)
class _Endpoints:
    authorization: str
    token: str
    keys: str
    end_session: str | None
    posts_secret: bool


class IdentityProvider:
    """The provider of the settings; close it with `aclose`."""

    def __init__(
        self, settings: ConsoleSettings, clock: Clock, transport: Transport | None = None
    ) -> None:
        assert settings.oidc_issuer is not None
        assert settings.public_url is not None
        self._settings, self._clock = settings, clock
        self._issuer = settings.oidc_issuer
        self._home = settings.public_url.rstrip("/")
        self._callback = self._home + CALLBACK
        self._given = transport

    async def sign_in_address(self, attempt: Attempt) -> str:
        """Where a browser is sent to sign in. Raises ProviderAway."""
        endpoints = await self._endpoints()
        return _with_query(
            endpoints.authorization,
            {
                "response_type": "code",
                "client_id": self._settings.oidc_client_id,
                "redirect_uri": self._callback,
                "scope": self._settings.oidc_scope,
                "state": attempt.state,
                "nonce": attempt.nonce,
                "code_challenge": attempt.challenge,
                "code_challenge_method": "S256",
            },
        )

    async def sign_out_address(self) -> str | None:
        """The provider's sign-out page for the browser, if it has one. Raises ProviderAway."""
        endpoints = await self._endpoints()
        if endpoints.end_session is None:
            return None
        query = {
            "client_id": self._settings.oidc_client_id,
            "post_logout_redirect_uri": f"{self._home}/console/login",
        }
        return _with_query(endpoints.end_session, query)

    async def person(self, code: str, attempt: Attempt) -> Person:
        """The person who signed in, by the code that the browser brought. Raises ProviderAway,
        ProviderRefused, StatementRefused."""
        endpoints = await self._endpoints()
        token = await self._redeem(endpoints, code, attempt)
        keys = await self._object(endpoints.keys)
        claims = self._verified(token, keys, attempt)
        subject = claims["sub"]
        if len(subject) > LONGEST_SUBJECT or not subject.isprintable():
            raise StatementRefused("sub is longer than 160 characters, or not printable")
        return Person(subject, self._role(claims.get(self._settings.oidc_groups_claim)))

    def _role(self, groups: object) -> Scope | None:
        """The highest role of any of the groups; one group may be a text alone."""
        listed: Sequence[object] = groups if isinstance(groups, list) else [groups]
        known = self._settings.oidc_roles
        roles = {known[group] for group in listed if isinstance(group, str) and group in known}
        return next((Scope(role) for role in ("operator", "analyst") if role in roles), None)

    def _verified(self, token: str, keys: Mapping[str, Any], attempt: Attempt) -> dict[str, Any]:
        client = self._settings.oidc_client_id
        registry = jwt.JWTClaimsRegistry(
            int(self._clock.now().timestamp()),
            LEEWAY_S,
            iss={"essential": True, "value": self._issuer},
            aud={"essential": True, "value": client},
            exp={"essential": True},
            iat={"essential": True},
            sub={"essential": True},
            nonce={"essential": True, "value": attempt.nonce},
        )
        try:
            decoded = jwt.decode(token, _public_keys(keys), algorithms=ALGORITHMS)
            registry.validate(decoded.claims)
        except JoseError as error:
            claim = getattr(error, "claim", None)
            named = f" ({claim})" if isinstance(claim, str) else ""
            raise StatementRefused(f"{type(error).__name__}{named}") from None
        except (ValueError, TypeError, KeyError) as error:
            raise StatementRefused(type(error).__name__) from None
        audience = decoded.claims["aud"]
        alone = audience == client or audience == [client]
        if decoded.claims.get("azp", client if alone else None) != client:
            raise StatementRefused("azp")
        return decoded.claims

    async def _redeem(self, endpoints: _Endpoints, code: str, attempt: Attempt) -> str:
        """The ID token for a code."""
        client, secret = self._settings.oidc_client_id, self._settings.oidc_client_secret
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._callback,
            "code_verifier": attempt.verifier,
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        if secret is None or endpoints.posts_secret:
            fields["client_id"] = client
        if secret is not None and endpoints.posts_secret:
            fields["client_secret"] = secret.get_secret_value()
        elif secret is not None:
            both = f"{quote_plus(client)}:{quote_plus(secret.get_secret_value())}"
            headers["Authorization"] = "Basic " + base64.b64encode(both.encode()).decode()
        answer = await self._object(endpoints.token, urlencode(fields).encode(), headers)
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise StatementRefused("no id_token")
        return token

    async def _endpoints(self) -> _Endpoints:
        well_known = self._issuer.rstrip("/") + "/.well-known/openid-configuration"
        configuration = await self._object(well_known)
        if configuration.get("issuer") != self._issuer:
            raise ProviderAway("it calls itself by another issuer than oidc_issuer")
        methods = configuration.get(
            "token_endpoint_auth_methods_supported", ["client_secret_basic"]
        )
        posts = isinstance(methods, list) and "client_secret_basic" not in methods
        end = configuration.get("end_session_endpoint")
        return _Endpoints(
            self._address(configuration, "authorization_endpoint"),
            self._address(configuration, "token_endpoint"),
            self._address(configuration, "jwks_uri"),
            None if end is None else self._address(configuration, "end_session_endpoint"),
            posts,
        )

    def _address(self, document: Mapping[str, Any], name: str) -> str:
        address = document.get(name)
        if isinstance(address, str) and address.isprintable() and " " not in address:
            scheme = urlsplit(address).scheme
            loopback = is_loopback(self._issuer) and is_loopback(address)
            if scheme == "https" or (scheme == "http" and loopback):
                return address
        raise ProviderAway(f"its {name} does not begin with https://")

    async def _object(
        self, address: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """The JSON object at an address. Raises ProviderAway; ProviderRefused if a request with
        a body is answered with 400 to 499."""
        sent = {
            "User-Agent": "tacit",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            **(headers or {}),
        }
        method = "POST" if body else "GET"
        transport = self._given or TcpTransport(public_trust(self._settings.tls_authority))
        try:
            answer = await transport.send(ServiceRequest(method, address, sent, body, _TIMEOUT_S))
        except NoAnswer as error:
            raise ProviderAway(distrusted(error) or str(error)) from None
        finally:
            if self._given is None:
                await transport.aclose()
        if body and 400 <= answer.status < 500:
            raise ProviderRefused(f"its token endpoint answered {answer.status}")
        try:
            document = answer.json() if answer.status == 200 else None
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise ProviderAway(f"it answered {answer.status}, without what it should")
        return document


def _public_keys(document: Mapping[str, Any]) -> KeySet:
    """The keys that the provider can sign with. Raises JoseError, ValueError, TypeError,
    KeyError."""
    listed = document["keys"]
    usable = [
        key for key in listed if key.get("kty") in ("RSA", "EC", "OKP") and key.get("use") != "enc"
    ]
    return KeySet.import_key_set({"keys": usable})


def _with_query(address: str, query: Mapping[str, str]) -> str:
    return f"{address}{'&' if urlsplit(address).query else '?'}{urlencode(query)}"


def _base64url(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
