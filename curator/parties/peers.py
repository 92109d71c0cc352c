"""How a curator calls coordinator and aggregators: one client per address, a token per call.

It always calls the addresses that came with the join token, never one that a coordinator names: a
party's API token would go there. Thousands of parties share the few connections.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import cbor2
from pydantic import BaseModel, TypeAdapter, ValidationError

from common.bodies import CBOR, JSON, encode
from common.web.auth import TokenExpired
from common.web.client import (
    NoAnswer,
    ServiceClient,
    ServiceResponse,
    Transport,
    service_client,
    with_retries,
)
from common.web.problems import ProblemReceived, raise_for_problem
from curator.errors import PeerUnavailable
from curator.store.parties import Anchor
from tacit.crypto.signing import Signed
from tacit.protocol.enrolment import (
    GRANT_HEADER,
    Enrolment,
    EnrolmentAnswer,
    TokenRenewal,
    grant_hash,
)
from tacit.protocol.identities import IdentityChain
from tacit.protocol.party_identities import PartyChain
from tacit.protocol.round.descriptor import Refusal
from tacit.protocol.round.messages import ProofReason
from tacit.protocol.round.pieces import ItemAnswer
from tacit.protocol.sealing_sessions import SealKeyStatement
from tacit.wire import WireModel, encode_binary, parse_binary

PAGE: Final = 1000


class Refused(BaseModel):
    """A roster number whose proof did not hold."""

    number: int
    reasons: list[ProofReason]


class Standing(BaseModel):
    """What a coordinator answers a party about a proved round."""

    refused: list[Refused]


_STANDING: Final = TypeAdapter(Standing)
_JSON: Final = {"Content-Type": JSON}
_NO_HEADERS: Final[Mapping[str, str]] = {}
_ANSWERS: Final = TypeAdapter(list[ItemAnswer])


@dataclass(frozen=True)
class Listing:
    """An answer of the coordinator: signed descriptors as JSON values, and its ETag."""

    items: list[Any]
    etag: str | None


PIECES: Final = "pieces"
BATCHES: Final = "batches"


@dataclass(frozen=True)
class Carried:
    """Sealed bytes among others in one request: to whom, and of which round."""

    anchor: Anchor
    round: str
    body: bytes


@dataclass(frozen=True)
class Said:
    """What a party reports about a round: with its token at the coordinator, which of its
    curators it debited."""

    round: str
    token: str
    members: bytes

    def size(self) -> int:
        """Bytes of the bitmap."""
        return len(self.members)


class Peers:
    """Clients of all services that the hosted parties call."""

    def __init__(
        self,
        timeout_s: float,
        transports: Mapping[str, Transport] | None = None,
        verify: ssl.SSLContext | bool = True,
    ) -> None:
        self._timeout_s, self._verify = timeout_s, verify
        self._transports = {k.rstrip("/"): v for k, v in (transports or {}).items()}
        self._clients: dict[str, ServiceClient] = {}
        self.expired: set[str] = set()
        """Addresses that refused a token because it was ended."""

    def client(self, url: str) -> ServiceClient:
        """The client of one address."""
        address = url.rstrip("/")
        if address not in self._clients:
            self._clients[address] = service_client(
                address,
                timeout_s=self._timeout_s,
                verify=self._verify,
                transport=self._transports.get(address),
            )
        return self._clients[address]

    async def aclose(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            await client.aclose()
        self._clients.clear()

    async def identity(self, url: str, document: str) -> bytes:
        """The identity key at a service's well-known address."""
        response = await self._patiently(url, "GET", f"/.well-known/{document}")
        try:
            return parse_binary(response.json()["identity_key"])
        except (ValueError, KeyError, TypeError):
            raise PeerUnavailable(f"no identity at /.well-known/{document}") from None

    async def identities(self, url: str, document: str) -> IdentityChain | None:
        """The chain of a service's identities; None if it has none. Raises PeerUnavailable,
        ProblemReceived."""
        path = f"/.well-known/{document}/identity"
        try:
            response = await self._call(url, "GET", path)
            return IdentityChain.model_validate_json(response.body)
        except ProblemReceived as error:
            if error.status == 404:
                return None
            raise
        except ValidationError:
            raise PeerUnavailable("the chain of identities is not understood") from None

    async def shown_identities(self, url: str, document: str) -> IdentityChain:
        """The same where a person waits for it. Raises PeerUnavailable."""
        try:
            shown = await self.identities(url, document)
        except ProblemReceived as error:
            raise PeerUnavailable(f"{url} refuses to show its identity: {error.name}") from None
        if shown is None:
            raise PeerUnavailable(f"{url} shows no identity document")
        return shown

    async def enrol(self, url: str, signed: Signed[Enrolment]) -> EnrolmentAnswer:
        """Ask a service to enrol a party. Raises ProblemReceived if it refuses."""
        body = _encoded(signed)
        headers = {**_JSON, GRANT_HEADER: grant_hash(signed.statement.secret)}
        response = await self._patiently(url, "POST", "/v1/enrolments", body, headers)
        try:
            return EnrolmentAnswer.model_validate_json(response.body)
        except ValidationError:
            raise PeerUnavailable("the answer to the enrolment is not understood") from None

    async def seal_key(self, url: str, key_hash: bytes) -> bytes:
        """What a service stores as the seal key with this hash: not yet compared with it."""
        path = f"/v1/seal-keys/{encode_binary(key_hash)}"
        return (await self._call(url, "GET", path)).body

    async def seal_signature(self, url: str, key_hash: bytes) -> Signed[SealKeyStatement]:
        """A seal key's statement signed by an aggregator with both keys: not yet verified."""
        path = f"/v1/seal-keys/{encode_binary(key_hash)}/signature"
        response = await self._call(url, "GET", path)
        try:
            return Signed[SealKeyStatement].model_validate_json(response.body)
        except ValidationError:
            raise PeerUnavailable("the signature of a seal key is not understood") from None

    async def announce_session(
        self, anchor: Anchor, party: str, session: bytes, announce: bytes
    ) -> None:
        """Send an aggregator a host's session before its batches; harmless to repeat."""
        path = f"/v1/parties/{party}/sessions/{encode_binary(session)}"
        headers = {"Content-Type": CBOR, **_bearer(anchor.token)}
        await self._call(anchor.url, "PUT", path, announce, headers)

    async def show_party(self, url: str, token: str, party: str, chain: PartyChain) -> None:
        """Show a service the links of a party's identities."""
        path, body = f"/v1/parties/{party}/identity", _encoded(chain)
        headers = {**_JSON, **_bearer(token)}
        await self._call(url, "PUT", path, body, headers)

    async def renew_token(self, url: str, signed: Signed[TokenRenewal]) -> None:
        """Put another token in the place of a party's ended one."""
        path, body = f"/v1/parties/{signed.statement.party}/token", _encoded(signed)
        await self._call(url, "POST", path, body, _JSON)

    async def open_rounds(
        self, url: str, token: str, etag: str | None, wait_s: float
    ) -> Listing | None:
        """The coordinator's open rounds; nothing if they are those of `etag`."""
        path = f"/v1/rounds?state=open&limit={PAGE}&wait_s={wait_s:g}"
        return await self._listed(url, path, "rounds", _asking(token, etag), wait_s)

    async def collecting(
        self, url: str, token: str, etag: str | None, wait_s: float
    ) -> Listing | None:
        """The jobs that collect reports, each with its signed descriptor; None if they are those
        of `etag`."""
        path = f"/v1/jobs?collecting=true&wait_s={wait_s:g}"
        return await self._listed(url, path, "jobs", _asking(token, etag), wait_s)

    async def _listed(
        self, url: str, first: str, name: str, headers: dict[str, str], wait_s: float
    ) -> Listing | None:
        """All pages of a list, under the ETag of the first; None if that has not changed."""
        documents: list[Any] = []
        path: str | None = first
        etag = None
        while path is not None:
            response = await self._call(url, "GET", path, headers=headers, wait_s=wait_s)
            if response.status == 304:
                return None
            etag = etag or response.headers.get("ETag")
            documents += response.json()[name]
            path = response.next_page(url)
            headers.pop("If-None-Match", None)
        return Listing(documents, etag)

    async def round_state(self, url: str, token: str, round_id: str) -> dict[str, Any]:
        """The coordinator's view of one round."""
        path = f"/v1/rounds/{round_id}"
        response = await self._call(url, "GET", path, headers=_bearer(token))
        document: dict[str, Any] = response.json()
        return document

    async def round_states(
        self, url: str, token: str, ids: Sequence[str]
    ) -> dict[str, dict[str, Any]]:
        """The states of several rounds, by id, without those that the coordinator does not know."""
        body, headers = json.dumps({"rounds": list(ids)}).encode(), {**_JSON, **_bearer(token)}
        response = await self._call(url, "POST", "/v1/rounds/states", body, headers)
        try:
            return {str(document["id"]): dict(document) for document in response.json()["rounds"]}
        except (ValueError, KeyError, TypeError):
            raise PeerUnavailable("the states of rounds are not understood") from None

    async def transcript(self, url: str, token: str | None, round_id: str) -> bytes:
        """The transcript of a released round, as received."""
        path = f"/v1/rounds/{round_id}/transcript"
        response = await self._call(url, "GET", path, headers=_bearer(token))
        return response.body

    async def standing(self, url: str, token: str, round_id: str) -> list[Refused]:
        """Which of a party's curators had invalid proofs in a round, and why."""
        path = f"/v1/rounds/{round_id}/standing"
        response = await self._call(url, "GET", path, headers=_bearer(token))
        try:
            return _STANDING.validate_json(response.body).refused
        except ValidationError:
            raise PeerUnavailable("the standing is not understood") from None

    async def step(self, url: str, token: str, job: str, number: int) -> bytes:
        """The question of one round of a federated job."""
        path = f"/v1/jobs/{job}/steps/{number}"
        response = await self._call(url, "GET", path, headers=_bearer(token))
        return response.body

    async def report(self, url: str, token: str, job: str, body: bytes) -> list[dict[str, Any]]:
        """Send noisy reports; an answer for each."""
        path, headers = f"/v1/jobs/{job}/reports", {**_JSON, **_bearer(token)}
        response = await self._call(url, "POST", path, body, headers)
        answers: list[dict[str, Any]] = response.json()["reports"]
        return answers

    async def acknowledge(self, url: str, token: str, round_id: str, members: bytes) -> None:
        """Report to the coordinator which of a party's curators were debited for a round."""
        body = json.dumps({"members": encode_binary(members)}).encode()
        path, headers = f"/v1/rounds/{round_id}/acknowledgement", {**_JSON, **_bearer(token)}
        await self._call(url, "PUT", path, body, headers)

    async def acknowledge_together(self, url: str, reports: Sequence[Said]) -> list[ItemAnswer]:
        """The same of several rounds and parties; an answer for each."""
        items = [
            {"round": report.round, "token": report.token, "members": encode_binary(report.members)}
            for report in reports
        ]
        body = json.dumps({"reports": items}).encode()
        headers = {**_JSON, **_bearer(reports[0].token)}
        response = await self._call(url, "PUT", "/v1/acknowledgements", body, headers)
        return _answers(response, len(reports))

    async def refuse(self, url: str, token: str, round_id: str, refusal: Refusal) -> None:
        """Report to the coordinator which of a party's curators refuse an open round."""
        body = _encoded(refusal)
        headers = {**_JSON, **_bearer(token)}
        path = f"/v1/rounds/{round_id}/refusal"
        await self._call(url, "PUT", path, body, headers)

    async def upload(self, anchor: Anchor, path: str, media_type: str, body: bytes) -> int:
        """Send sealed bytes once; the status. Raises ProblemReceived or PeerUnavailable."""
        headers = {"Content-Type": media_type, **_bearer(anchor.token)}
        response = await self._call(anchor.url, "POST", path, body, headers)
        return response.status

    async def upload_together(self, carried: Sequence[Carried], kind: str) -> list[ItemAnswer]:
        """Send lone pieces, or batches, to one aggregator; an answer for each.

        Each has its own party's token, and its round if they are of several. Sealed bytes are
        never changed. Raises as `upload` does.
        """
        anchor, rounds = carried[0].anchor, {piece.round for piece in carried}
        one = len(rounds) == 1
        path = f"/v1/rounds/{carried[0].round}/{kind}" if one else f"/v1/{kind}"
        items = [
            {
                **({"body": piece.body} if kind == BATCHES else cbor2.loads(piece.body)),
                **({} if one else {"round": piece.round}),
                "token": piece.anchor.token,
            }
            for piece in carried
        ]
        body = encode(items, CBOR)
        headers = {"Content-Type": CBOR, **_bearer(anchor.token)}
        response = await self._call(anchor.url, "POST", path, body, headers)
        return _answers(response, len(carried))

    async def _call(
        self,
        url: str,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] = _NO_HEADERS,
        *,
        wait_s: float = 0.0,
    ) -> ServiceResponse:
        send = partial(self.client(url).call, method, path, body, headers, wait_s=wait_s)
        return await self._answered(url, send())

    async def _patiently(
        self,
        url: str,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> ServiceResponse:
        send = partial(self.client(url).call, method, path, body, headers)
        return await self._answered(url, with_retries(send, attempts=4, deadline_s=self._timeout_s))

    async def _answered(self, url: str, answer: Awaitable[ServiceResponse]) -> ServiceResponse:
        """Raises PeerUnavailable, ProblemReceived."""
        try:
            response = await answer
        except NoAnswer as error:
            raise PeerUnavailable(str(error)) from None
        try:
            raise_for_problem(response)
        except ProblemReceived as error:
            if error.name == TokenExpired.name:
                self.expired.add(url)
            raise
        return response


def _answers(response: ServiceResponse, count: int) -> list[ItemAnswer]:
    """The answers to `count` items, in their order. Raises PeerUnavailable for anything else."""
    try:
        answers = _ANSWERS.validate_json(response.body)
    except ValidationError:
        raise PeerUnavailable("the answer is not understood") from None
    if [answer.index for answer in answers] != list(range(count)):
        raise PeerUnavailable("the answer is not to what was sent")
    return answers


def _bearer(token: str | None) -> dict[str, str]:
    return {} if token is None else {"Authorization": f"Bearer {token}"}


def _asking(token: str, etag: str | None) -> dict[str, str]:
    return _bearer(token) | ({"If-None-Match": etag} if etag else {})


def _encoded(model: WireModel) -> bytes:
    return model.model_dump_json(exclude_none=True).encode()


__all__ = ["Listing", "Peers", "ProblemReceived"]
