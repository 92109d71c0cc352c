"""How the coordinator calls aggregators: one method per step of a round, models in and out."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Final, TypeVar
from uuid import UUID

from pydantic import BaseModel, ValidationError

from common.runtime.telemetry import Tracer, Untraced
from common.web.auth import TokenExpired
from common.web.client import (
    BadAddress,
    NoAnswer,
    ServiceClient,
    ServiceResponse,
    TimedOut,
    Transport,
    distrusted,
    service_client,
)
from common.web.problems import ProblemReceived, raise_for_problem
from coordinator.errors import (
    AggregatorTokenRefused,
    AggregatorUnreachable,
    NotAnAggregator,
    SealKeysMissing,
)
from coordinator.registry.answers import (
    FreezeAnswer,
    FullStatement,
    Missing,
    OfRound,
    Opening,
    Progress,
    RelayedPiece,
    WellKnown,
)
from coordinator.registry.peer_requests import PATH as TOKEN_PATH
from coordinator.registry.peer_requests import Renewals, ShownKeys, StepQueue
from coordinator.store.registry import AggregatorRow
from tacit import sets
from tacit.crypto.signing import SignatureBroken, Signed, verify
from tacit.protocol.identities import IdentityChain
from tacit.protocol.round.descriptor import AbortRequest, AbortStatement, Awaited
from tacit.protocol.round.messages import (
    AcceptedSet,
    Commitment,
    Flow,
    FreezeRequest,
    KeyCheck,
    RelayedKeyShares,
    Reveal,
    Step,
    StepName,
    Transcript,
    Verdict,
    Verified,
)
from tacit.protocol.sealing_sessions import SEAL_KEY_LABEL, SealKeyStatement
from tacit.protocol.trust import ShownSeal
from tacit.sets import Bits
from tacit.wire import encode_binary, format_instant

CONNECTIONS: Final = 8
"""To one aggregator; rounds that wait for its pieces hold one each."""
CHUNKS_AT_ONCE: Final = 4
"""Chunks of verifier shares, of up to 4 MiB, that are passed on at a time."""
JSON: Final = "application/json"
OCTETS: Final = "application/octet-stream"
Model = TypeVar("Model", bound=BaseModel)


class AnotherIdentity(AggregatorUnreachable):
    """An aggregator signs with a key other than the pinned one: ask for its chain."""


class Peer:
    """One aggregator, over HTTP. Answers are validated; an invalid one counts as unreachable."""

    def __init__(
        self,
        row: AggregatorRow,
        client: ServiceClient,
        steps: StepQueue,
        shown: ShownKeys,
        tracer: Tracer,
        renewed: Callable[[Peer], Awaitable[ServiceClient | None]] | None,
    ) -> None:
        self.id = row.id
        self.row = row
        self._client = client
        self._steps = steps
        self._shown = shown
        self._tracer = tracer
        self._renewed = renewed

    async def seal_key(self, now: datetime) -> Signed[SealKeyStatement]:
        """The current seal key, as `epoch_key`. Raises SealKeysMissing for an aggregator that has
        none."""
        return await self._shown.seal.current(now, lambda: self._seal_key("GET", "/current"))

    async def round_seal_key(self, round_id: str) -> Signed[SealKeyStatement]:
        """A seal key for one round alone; the same if it is requested again."""
        return await self._seal_key("POST", "", OfRound(round=round_id))

    async def _seal_key(
        self, method: str, ending: str, body: BaseModel | None = None
    ) -> Signed[SealKeyStatement]:
        path, form = f"/v1/seal-keys{ending}", Signed[SealKeyStatement]
        try:
            key: Signed[SealKeyStatement] = await self._ask(method, path, form, body)
            verify(SEAL_KEY_LABEL, key, self.row.identity_key)
        except ProblemReceived as error:
            if error.status == 404:
                raise SealKeysMissing(self.id) from None
            raise AggregatorUnreachable(f"{self.id}: {error.name}") from None
        except SignatureBroken:
            raise AnotherIdentity(f"{self.id} shows a key of another identity") from None
        return key

    async def identities(self) -> IdentityChain | None:
        """The chain of its identities; None if it has none. Raises AggregatorUnreachable."""
        try:
            path = "/.well-known/tacit-aggregator/identity"
            return await self._ask("GET", path, IdentityChain)
        except ProblemReceived as error:
            if error.status == 404:
                return None
            raise AggregatorUnreachable(f"{self.id}: {error.name}") from None

    async def hand_identities(self, of: str | None, chain: str) -> None:
        """Send it another aggregator's chain, or (None) the coordinator's own; once."""
        name = hashlib.sha256(chain.encode()).digest()
        if name not in self._shown.handed:
            path = "/v1/coordinator/identity" if of is None else f"/v1/peers/{of}/identity"
            raise_for_problem(await self._request("PUT", path, chain))
            self._shown.hand(name)

    async def seal_key_content(self, key_hash: bytes) -> bytes:
        """What it serves as the public key of this hash."""
        return (await self._send("GET", f"/v1/seal-keys/{encode_binary(key_hash)}")).body

    async def hand_seal_key(self, key_hash: bytes, content: bytes) -> None:
        """Give it another aggregator's public key, to which it will seal; once."""
        if key_hash not in self._shown.handed:
            path = f"/v1/seal-keys/{encode_binary(key_hash)}"
            raise_for_problem(await self._request("PUT", path, content, OCTETS))
            self._shown.hand(key_hash)

    async def open(self, round_id: str, descriptor: str) -> Opening:
        """Send it a round by its signed descriptor, JSON; the answer may include the
        aggregator's noise contribution."""
        try:
            return await self._step(StepName.OPEN, round_id, Opening, descriptor)
        except ProblemReceived as error:
            self._shown.forget()  # the reason may be a key that it has no longer
            if error.name == "peer_key_missing":
                raise AggregatorUnreachable(f"{self.id}: {error.name}") from None
            raise

    async def relay(self, round_id: str, pieces: list[RelayedPiece]) -> None:
        """Pass on other aggregators' noise contributions."""
        body = "[" + ",".join(piece.model_dump_json() for piece in pieces) + "]"
        await self._done(StepName.CONTRIBUTE, round_id, body)

    async def fix_key(self, round_id: str, shares: RelayedKeyShares) -> KeyCheck:
        """Pass on other aggregators' shares of a proved round's verify key."""
        return await self._step(StepName.KEYS, round_id, KeyCheck, shares)

    async def progress(self, round_id: str, accepted: int = 0, wait_s: float = 0.0) -> Progress:
        """The aggregator's progress, once it has pieces of this many or the time is over."""
        path = f"/v1/rounds/{round_id}?accepted={accepted}&wait_s={wait_s:.3f}"
        return await self._ask("GET", path, Progress)

    async def flow(self, start: datetime, end: datetime) -> Flow:
        """The outcomes of uploads there, by hour."""
        span = f"from={format_instant(start)}&to={format_instant(end)}"
        return await self._ask("GET", f"/v1/flow?{span}", Flow)

    async def missing(self, round_id: str, members: Bits) -> int:
        """How many of these curators, one boolean per roster number, have no piece there."""
        body = Awaited(members=sets.pack(members))
        return (await self._step(StepName.MISSING, round_id, Missing, body)).missing

    async def check_token(self) -> None:
        """Raise unless the aggregator takes this coordinator's token."""
        try:
            await self._send("GET", f"/v1/rounds/{UUID(int=0)}")
        except ProblemReceived as error:
            if error.status in (401, 403):
                raise AggregatorTokenRefused(pointer="/token") from None
            if error.status != 404:
                raise AggregatorUnreachable(f"{self.id}: {error.name}") from None

    async def freeze(self, round_id: str) -> Signed[AcceptedSet]:
        """Close the round to pieces; the signed set of accepted curators."""
        return await self._step(StepName.FREEZE, round_id, Signed[AcceptedSet])

    async def freeze_once_held(
        self, round_id: str, request: FreezeRequest
    ) -> Signed[Commitment] | Signed[AcceptedSet] | Progress:
        """The accepted set once it has pieces of enough, or the commitment to the expected
        manifest; its progress when the time is over."""
        if request.wait_s:  # nothing may wait behind it
            path = f"/v1/rounds/{round_id}/freeze"
            return (await self._ask("POST", path, FreezeAnswer, request)).root
        return (await self._step(StepName.FREEZE, round_id, FreezeAnswer, request)).root

    async def verification(self, round_id: str, request: str) -> Verified:
        """Have the candidates verified; the JSON of a `VerificationRequest`."""
        return await self._step(StepName.VERIFICATION, round_id, Verified, request)

    async def chunk(self, round_id: str, number: int) -> bytes:
        """A chunk of the aggregator's verifier shares, sealed."""
        path = f"/v1/rounds/{round_id}/verification/{number}"
        return (await self._send("GET", path)).body

    async def put_chunk(self, round_id: str, index: int, number: int, body: bytes) -> None:
        """Pass on a chunk of the aggregator of this index."""
        path = f"/v1/rounds/{round_id}/verification/{index}/{number}"
        raise_for_problem(await self._request("PUT", path, body, OCTETS))

    async def verdict(self, round_id: str, request: str) -> Signed[Verdict]:
        """Have the aggregator decide which contributions count; the JSON of a `VerdictRequest`."""
        return await self._step(StepName.VERDICT, round_id, Signed[Verdict], request)

    async def commit(self, round_id: str, request: str) -> Signed[Commitment]:
        """Have the manifest summed and committed to.

        The JSON of a `ManifestRequest` is made once for all: five bitmaps of ten million
        curators are ten megabytes.
        """
        return await self._step(StepName.COMMIT, round_id, Signed[Commitment], request)

    async def reveal(self, round_id: str, request: str) -> Reveal:
        """The partial sum, after the commitments of all; the JSON of a `RevealRequest`."""
        return await self._step(StepName.REVEAL, round_id, Reveal, request)

    async def seal(self, transcript: Transcript) -> ShownSeal:
        """The transcript of a released round, sealed by the aggregator's pair."""
        path = f"/v1/rounds/{transcript.descriptor.statement.round}/seal"
        return await self._ask("POST", path, ShownSeal, transcript)

    async def abort(self, round_id: str, reason: str) -> Signed[AbortStatement]:
        """The aggregator's signed statement that the round is over without a sum."""
        path, request = f"/v1/rounds/{round_id}/abort", AbortRequest(reason=reason)
        return await self._ask("POST", path, Signed[AbortStatement], request)

    async def _step(
        self,
        name: StepName,
        round_id: str,
        model: type[Model],
        body: BaseModel | str = "",
    ) -> Model:
        text = body.model_dump_json() if isinstance(body, BaseModel) else body
        return self._read(model, await self._done(name, round_id, text))

    async def _done(self, name: StepName, round_id: str, body: str) -> bytes:
        step = Step(name=name, round=round_id, body=body)
        answer = await self._steps.ask(step, partial(self._request, "POST"))
        raise_for_problem(answer)
        return answer.body

    async def _ask(
        self, method: str, path: str, model: type[Model], body: BaseModel | None = None
    ) -> Model:
        content = "" if body is None else body.model_dump_json()
        return self._read(model, (await self._send(method, path, content)).body)

    def _read(self, model: type[Model], content: bytes) -> Model:
        try:
            return model.model_validate_json(content)
        except ValidationError:
            raise AggregatorUnreachable(f"{self.id} gives answers of another form") from None

    async def _send(self, method: str, path: str, content: str = "") -> ServiceResponse:
        answer = await self._request(method, path, content)
        raise_for_problem(answer)
        return answer

    async def _request(
        self, method: str, path: str, content: str | bytes, form: str = JSON
    ) -> ServiceResponse:
        """An answer; if it says that the token was revoked, the answer to the same request with
        another token."""
        send = partial(self._sent, method, path, content, form)
        answer = await send(self._client)
        if self._renewed is not None and _is_expired(answer):
            client = await self._renewed(self)
            if client is not None:
                answer = await send(client)
        return answer

    async def ask_for_token(self, request: str) -> ServiceResponse:
        """Post a request for another token."""
        return await self._sent("POST", TOKEN_PATH, request, JSON, self._client)

    async def _sent(
        self, method: str, path: str, content: str | bytes, form: str, client: ServiceClient
    ) -> ServiceResponse:
        headers = {"Content-Type": form} if content else {}
        self._tracer.carry(headers)
        body = content.encode() if isinstance(content, str) else content
        try:
            return await client.call(method, path, body, headers)
        except NoAnswer as error:
            why = distrusted(error)
            sentence = f"no TLS with {self.id}: {why}" if why else f"{self.id} does not answer"
            raise AggregatorUnreachable(sentence) from None


def _is_expired(answer: ServiceResponse) -> bool:
    if answer.status != 401:
        return False
    try:
        raise_for_problem(answer)
    except ProblemReceived as error:
        return error.name == TokenExpired.name
    return False


class Peers:
    """Clients of the aggregators, one for each address and token."""

    def __init__(
        self,
        timeout_s: float,
        transports: Mapping[str, Transport] | None = None,
        verify: ssl.SSLContext | bool = True,
        tracer: Tracer | None = None,
        renewals: Renewals | None = None,
    ) -> None:
        self._timeout_s, self._verify = timeout_s, verify
        self._renewals = renewals
        self._tracer = tracer or Untraced()
        self.chunk_places = asyncio.Semaphore(CHUNKS_AT_ONCE)
        """Held for each chunk of verifier shares that is in memory."""
        self._transports = dict(transports or {})
        self._clients: dict[tuple[str, str], ServiceClient] = {}
        self.pace_s = 0.0
        """How long the steps that are due at an aggregator are gathered."""
        self._steps: defaultdict[tuple[str, str], StepQueue] = defaultdict(
            lambda: StepQueue(lambda: self.pace_s)
        )
        self._shown: defaultdict[tuple[str, bytes], ShownKeys] = defaultdict(ShownKeys)

    def of(self, row: AggregatorRow) -> Peer:
        """The aggregator of a registry row."""
        key, client = (row.url, row.token), self._client(row)
        shown = self._shown[row.id, row.identity_key]
        renewed = None if self._renewals is None else self._renewed
        return Peer(row, client, self._steps[key], shown, self._tracer, renewed)

    def candidate(self, row: AggregatorRow) -> Peer:
        """The same for an aggregator that is not stored, with the given token."""
        return Peer(row, self._client(row), StepQueue(), ShownKeys(), self._tracer, None)

    async def _renewed(self, peer: Peer) -> ServiceClient | None:
        assert self._renewals is not None
        row = await self._renewals.renewed(peer.row, peer.ask_for_token)
        return None if row is None else self._client(row)

    def _client(self, row: AggregatorRow) -> ServiceClient:
        key = (row.url, row.token)
        if key not in self._clients:
            self._clients[key] = service_client(
                row.url,
                row.token,
                timeout_s=self._timeout_s,
                verify=self._verify,
                max_connections=CONNECTIONS,
                transport=self._transports.get(row.url),
            )
        return self._clients[key]

    async def identity(self, url: str) -> WellKnown:
        """What an aggregator states about itself at its well-known address. Raises
        AggregatorUnreachable, NotAnAggregator."""
        return (await self._stated(url, WellKnown))[0]

    async def statement(self, url: str) -> tuple[FullStatement, str | None]:
        """All that it states there, and the date of its answer. Raises as `identity`."""
        return await self._stated(url, FullStatement)

    async def _stated(self, url: str, form: type[Model]) -> tuple[Model, str | None]:
        try:
            async with service_client(
                url,
                timeout_s=self._timeout_s,
                verify=self._verify,
                transport=self._transports.get(url),
            ) as client:
                answer = await client.call("GET", "/.well-known/tacit-aggregator")
        except BadAddress:
            raise NotAnAggregator("this is no address", pointer="/url") from None
        except TimedOut:
            seconds = f"{self._timeout_s:g} seconds"
            raise AggregatorUnreachable(f"no answer within {seconds} at {url}") from None
        except NoAnswer as error:
            why = distrusted(error)
            sentence = f"no TLS with {url}: {why}" if why else f"nothing answers at {url}"
            raise AggregatorUnreachable(sentence) from None
        if answer.status >= 500:
            raise AggregatorUnreachable(f"status {answer.status} at {url}")
        try:
            return form.model_validate_json(answer.body), answer.headers.get("Date")
        except ValidationError:
            raise NotAnAggregator(pointer="/url") from None

    async def aclose(self) -> None:
        """Close all connections."""
        await asyncio.gather(*(queue.aclose() for queue in self._steps.values()))
        await asyncio.gather(*(client.aclose() for client in self._clients.values()))
