"""Routes of seal keys: this aggregator's own, and those that it needs of others.

A signed key is short and stands in descriptors. The key itself is fetched once, by its hash.
Spec: keys, section 2.1.
"""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Depends, FastAPI, Request, Response

from aggregator import examples
from aggregator.context import Aggregator
from aggregator.errors import UnknownSealKey
from aggregator.pieces import peer_seals
from aggregator.store import seal_keys as store
from aggregator.web import Coordinator
from common.web.bodies import gives, gives_octets, takes, takes_octets
from common.web.parts import part
from common.web.wire import content_type, etag_response, json_response, read_body
from tacit.answers.aggregators import KeptSealKey
from tacit.crypto.signing import Signed
from tacit.errors import UnsupportedForm
from tacit.protocol.round.descriptor import RoundId
from tacit.protocol.sessions import SealKeyStatement
from tacit.wire import WireModel, parse_binary

AggregatorPart = Annotated[Aggregator, Depends(part(Aggregator))]
OCTETS: Final = "application/octet-stream"
_FOREVER: Final = {"Cache-Control": "public, max-age=31536000, immutable"}


class RoundKeyRequest(WireModel):
    """A key for one round is asked for before its descriptor is made."""

    round: RoundId


def add_seal_keys(app: FastAPI) -> None:
    """Add them to the app."""

    @app.get(
        "/v1/seal-keys/current",
        **gives(Signed[SealKeyStatement]),
        tags=["identity"],
        summary="The signed seal key of now",
    )
    async def get_current_seal_key(request: Request, aggregator: AggregatorPart) -> Response:
        return etag_response(request, _json(await aggregator.seal_keyring.current()))

    @app.post(
        "/v1/seal-keys",
        **gives(Signed[SealKeyStatement]),
        tags=["identity"],
        summary="A signed seal key for one round",
        openapi_extra=takes(RoundKeyRequest, examples.ROUND_KEY),
    )
    async def create_round_seal_key(
        request: Request, aggregator: AggregatorPart, _: Coordinator
    ) -> Response:
        asked = await read_body(request, RoundKeyRequest)
        return json_response(_json(await aggregator.seal_keyring.for_round(asked.round)))

    @app.get(
        "/v1/seal-keys/{key_hash}",
        tags=["identity"],
        summary="A public seal key, 1,216 bytes, by its hash",
        **gives_octets(),
    )
    async def get_seal_key(key_hash: str, aggregator: AggregatorPart) -> Response:
        async with aggregator.database.reading() as transaction:
            raw = await store.public_key(transaction, _hash(key_hash))
        if raw is None:
            raise UnknownSealKey
        return Response(raw, media_type=OCTETS, headers=_FOREVER)

    @app.get(
        "/v1/seal-keys/{key_hash}/signature",
        tags=["identity"],
        summary="The statement of a seal key, signed with Ed25519 and ML-DSA-65",
        responses={200: {"model": Signed[SealKeyStatement]}},
    )
    async def get_seal_key_signature(key_hash: str, aggregator: AggregatorPart) -> Response:
        signed = await aggregator.seal_keyring.lasting(_hash(key_hash))
        if signed is None:
            raise UnknownSealKey("no such key, or its identity has no ML-DSA key: keys next")
        return json_response(_json(signed))

    @app.put(
        "/v1/seal-keys/{key_hash}",
        **gives(KeptSealKey, 200, 201),
        tags=["identity"],
        summary="Hand over the public seal key of another aggregator of a round",
        openapi_extra=takes_octets(),
    )
    async def put_peer_seal_key(
        request: Request, key_hash: str, aggregator: AggregatorPart, _: Coordinator
    ) -> Response:
        if content_type(request) != OCTETS:
            raise UnsupportedForm(extra={"supported": [OCTETS]})
        body = await request.body()
        new = await peer_seals.add_public_key(aggregator, _hash(key_hash), body)
        return json_response(b"{}", 201 if new else 200)


def _hash(text: str) -> bytes:
    try:
        return parse_binary(text)
    except ValueError:
        raise UnknownSealKey from None


def _json(signed: Signed[SealKeyStatement]) -> bytes:
    return signed.model_dump_json(exclude_none=True).encode()
