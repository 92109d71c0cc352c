"""Examples of request bodies, and the API document of the hot path's plain routes."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic import RootModel

from common.web.bodies import takes
from common.web.problems import openapi_responses
from tacit.protocol.round import CarriedPiece, ItemAnswer, Piece

COORDINATOR: dict[str, Any] = {
    "deployment": "tacit",
    "identity_key": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
}
PEER: dict[str, Any] = {
    "id": "aggregator-south",
    "fingerprint": "NHUPmIyhFVMmCRkVYzKAoNtxLMjXrNZ8tbNvU3-2YCY",
    "operator": "South Grid",
}
CONFIRMATION: dict[str, Any] = {"fingerprint": "NHUPmIyhFVMmCRkVYzKAoNtxLMjXrNZ8tbNvU3-2YCY"}
GRANT: dict[str, Any] = {"party": "meter-17", "kind": "curator", "valid_s": 86400}
ROUND_KEY: dict[str, Any] = {"round": "019a0c2e-8f00-7000-8000-000000000001"}
ROTATION: dict[str, Any] = {"destroy": False}
AWAITED: dict[str, Any] = {"members": "_w"}
STEPS: dict[str, Any] = {
    "steps": [
        {
            "name": "freeze",
            "round": "019a0c2e-8f00-7000-8000-000000000001",
            "body": '{"accepted": 100}',
        }
    ]
}
FREEZE: dict[str, Any] = {"accepted": 100, "wait_s": 1}
ABORT: dict[str, Any] = {"reason": "fewer participants than the minimum"}
PIECE: dict[str, Any] = {
    "sender": "meter-17",
    "key_epoch": 20779,
    "nonce": "AAECAwQFBgcICQoL",
    "sealed": "3q2-796tvu_erb7v3q2-796tvu_erb7vAAAAAAAAAAA",
}


CARRIED_PIECE: dict[str, Any] = {**PIECE, "round": "019a0c2e-8f00-7000-8000-000000000001"}
_ROUND_ID: dict[str, Any] = {
    "name": "round_id",
    "in": "path",
    "required": True,
    "schema": {"type": "string"},
}


class CarriedPieces(RootModel[tuple[CarriedPiece, ...]]):
    """Pieces of several rounds and parties."""


def _operation(summary: str, body: dict[str, Any], *, of_round: bool = True) -> dict[str, Any]:
    stored = {
        "description": "Stored durably (200: it was known before)",
        "content": {"application/json": {"schema": ItemAnswer.model_json_schema()}},
    }
    responses: dict[str, Any] = {"200": stored, "201": stored}
    for status, problem in openapi_responses().items():
        responses.setdefault(str(status), problem)
    return {
        "tags": ["pieces"],
        "summary": summary,
        "parameters": [_ROUND_ID] if of_round else [],
        "security": [{"HTTPBearer": []}],
        "responses": responses,
        **body,
    }


def document_plain_routes(app: FastAPI) -> None:
    """Add the routes that FastAPI does not handle to the OpenAPI document of `app`."""
    made = app.openapi
    one, several = takes(Piece, PIECE), takes(CarriedPieces, [CARRIED_PIECE])
    octets = {"schema": {"type": "string", "format": "binary"}}
    batch = {"requestBody": {"required": True, "content": {"application/octet-stream": octets}}}
    batch["requestBody"]["content"]["application/cbor"] = octets  # type: ignore[index]

    def openapi() -> dict[str, Any]:
        document = made()
        paths = document["paths"]
        paths["/v1/rounds/{round_id}/pieces"] = {
            "post": _operation(
                "A lone curator's sealed piece, or an array of pieces; each of them may carry the "
                "`token` of another party, whose it then is",
                one,
            )
        }
        paths["/v1/rounds/{round_id}/batches"] = {
            "post": _operation(
                "A host's sealed batch of one segment or part, or an array of them in CBOR; each "
                "of them may carry the `token` of another host, whose it then is",
                batch,
            )
        }
        paths["/v1/pieces"] = {
            "post": _operation(
                "Sealed pieces of several rounds and parties, in an array; each names its `round`, "
                "and may carry the `token` of another party, whose it then is",
                several,
                of_round=False,
            )
        }
        content = {"application/cbor": octets}
        paths["/v1/batches"] = {
            "post": _operation(
                "Sealed batches of several rounds and hosts, in an array of CBOR; each names its "
                "`round`, and may carry the `token` of another host, whose it then is",
                {"requestBody": {"required": True, "content": content}},
                of_round=False,
            )
        }
        return document

    app.openapi = openapi  # type: ignore[method-assign]
