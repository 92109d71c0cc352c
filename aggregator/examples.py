"""Examples of request bodies, and what the API document says of the hot path's plain routes."""

from __future__ import annotations

from typing import Any

from pydantic import RootModel

from common.web.openapi import BINARY, OCTETS, body, described, takes
from common.web.problems import openapi_responses
from tacit.protocol.round.pieces import CarriedPiece, ItemAnswer, Piece

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


class ItemAnswers(RootModel[tuple[ItemAnswer, ...]]):
    """An answer to each item of an array, in its order."""


def _operation(
    name: str, summary: str, body: dict[str, Any], *, of_round: bool = True
) -> dict[str, Any]:
    several = described(ItemAnswers)
    stored = {"anyOf": [described(ItemAnswer), several]} if of_round else several
    answers = {
        "200": "An item that was known before; or an answer for each item of an array",
        **({"201": "Stored durably"} if of_round else {}),
    }
    responses: dict[str, Any] = {
        status: {"description": words, "content": {"application/json": {"schema": stored}}}
        for status, words in answers.items()
    }
    for status, problem in openapi_responses().items():
        responses.setdefault(str(status), problem)
    operation = {
        "tags": ["pieces"],
        "operationId": name,
        "summary": summary,
        "parameters": [_ROUND_ID] if of_round else [],
        "security": [{"HTTPBearer": []}],
        "responses": responses,
        **body,
    }
    return {"post": operation}


def plain_paths() -> dict[str, dict[str, Any]]:
    """The routes that FastAPI does not handle, for the API document."""
    cbor = {"application/cbor": OCTETS}
    batch = body({BINARY: OCTETS}, "An array of batches is in CBOR (`application/cbor`).")
    return {
        "/v1/rounds/{round_id}/pieces": _operation(
            "submit_round_pieces",
            (
                "A lone curator's sealed piece, or an array of pieces; a piece with a "
                "`token` belongs to the party of that token"
            ),
            takes(Piece, PIECE),
        ),
        "/v1/rounds/{round_id}/batches": _operation(
            "submit_round_batches",
            (
                "A host's sealed batch of one segment or part, or an array of them in CBOR; "
                "a batch with a `token` belongs to the host of that token"
            ),
            batch,
        ),
        "/v1/pieces": _operation(
            "submit_pieces",
            (
                "Sealed pieces of several rounds and parties, in an array; each names its "
                "`round`, and one with a `token` belongs to the party of that token"
            ),
            takes(CarriedPieces, [CARRIED_PIECE]),
            of_round=False,
        ),
        "/v1/batches": _operation(
            "submit_batches",
            (
                "Sealed batches of several rounds and hosts, in an array of CBOR; each names "
                "its `round`, and one with a `token` belongs to the host of that token"
            ),
            body(cbor),
            of_round=False,
        ),
    }
