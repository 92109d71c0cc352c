"""Routes of the storage key's rotation, for the operator alone."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request
from pydantic import Field

from common.web.bodies import gives, takes
from common.web.parts import part
from common.web.wire import read_body
from coordinator import examples
from coordinator.resealing.passes import Resealing, status
from coordinator.sealed import rotation
from coordinator.sealed.key import KEY_BYTES, StorageKey
from coordinator.sealed.keys import StorageKeys
from coordinator.web import DatabasePart, Operator
from tacit.answers.registry import StorageKeyState
from tacit.wire import Binary, WireModel

KeysPart = Annotated[StorageKeys, Depends(part(StorageKeys))]
ResealingPart = Annotated[Resealing, Depends(part(Resealing))]


class RotationRequest(WireModel):
    """The key that seals from now on. It is in no log and no answer."""

    key: Annotated[Binary, Field(min_length=KEY_BYTES, max_length=KEY_BYTES, repr=False)]


def add_storage_key(app: FastAPI) -> None:
    """Add them to the app."""

    @app.get(
        "/v1/storage-key",
        **gives(StorageKeyState),
        tags=["service"],
        summary="Which storage key seals, and how far a rotation has come",
    )
    async def get_storage_key(
        database: DatabasePart, keys: KeysPart, resealing: ResealingPart, _: Operator
    ) -> dict[str, Any]:
        return await status(database, resealing, keys)

    @app.put(
        "/v1/storage-key",
        **gives(StorageKeyState, 202),
        tags=["service"],
        status_code=202,
        summary="Rotate the storage key: everything is sealed anew",
        openapi_extra=takes(RotationRequest, examples.STORAGE_KEY),
    )
    async def rotate_storage_key(
        request: Request,
        database: DatabasePart,
        keys: KeysPart,
        resealing: ResealingPart,
        _: Operator,
    ) -> dict[str, Any]:
        body = await read_body(request, RotationRequest)
        await rotation.begin(database, keys, StorageKey(body.key))
        resealing.wake()
        return await status(database, resealing, keys)
