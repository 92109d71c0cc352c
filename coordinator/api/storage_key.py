from __future__ import annotations

from typing import Annotated

from fastapi import Request
from pydantic import Field

from common.web.openapi import api_router, takes
from common.web.wire import read_body
from coordinator import examples, storage_keys
from coordinator.key_rotation import status
from coordinator.services import Services
from coordinator.storage_keys import KEY_BYTES, StorageKey
from coordinator.web import Operator
from tacit.answers.registry import StorageKeyState
from tacit.wire import Binary, WireModel

router = api_router()


class RotationRequest(WireModel):
    """The key that seals from now on. It is in no log and no answer."""

    key: Annotated[Binary, Field(min_length=KEY_BYTES, max_length=KEY_BYTES, repr=False)]


@router.get(
    "/v1/storage-key",
    tags=["service"],
    summary="Which storage key seals, and how far a rotation has come",
)
async def get_storage_key(services: Services, _: Operator) -> StorageKeyState:
    return await status(services.database, services.resealing, services.storage_keys)


@router.put(
    "/v1/storage-key",
    tags=["service"],
    status_code=202,
    summary="Rotate the storage key: everything is sealed anew",
    openapi_extra=takes(RotationRequest, examples.STORAGE_KEY),
)
async def rotate_storage_key(request: Request, services: Services, _: Operator) -> StorageKeyState:
    body = await read_body(request, RotationRequest)
    await storage_keys.begin_rotation(
        services.database, services.storage_keys, StorageKey(body.key)
    )
    services.resealing.wake()
    return await status(services.database, services.resealing, services.storage_keys)
