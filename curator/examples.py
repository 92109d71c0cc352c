"""Examples of request bodies; the API document shows them and a test sends them."""

from __future__ import annotations

from typing import Any

from common.web.openapi import OCTETS, body

READING: dict[str, Any] = {
    "curator": "house-17",
    "device": "meter-1",
    "register": "energy_import",
    "time": "2026-11-02T18:00:00Z",
    "value": "0.317",
    "unit": "kWh",
    "kind": "delta",
}
ENROLMENT: dict[str, Any] = {"token": "tctjoin_...", "curators": ["house-17", "house-18"]}
JOIN_TOKEN: dict[str, Any] = {"token": "tctjoin_..."}
IDENTITIES: dict[str, Any] = {"parties": ["house-17"], "overlap_s": 604800}
TOKEN: dict[str, Any] = {"scope": "device", "subject": "house-17", "label": "hall meter"}
POLICY: dict[str, Any] = {
    "period_s": 86400,
    "curator": {"period": {"epsilon": "4", "delta": "0.000001"}, "lifetime": {"epsilon": "400"}},
    "record": {"period": {"epsilon": "2"}},
    "min_participants": 10,
    "mechanisms": ["distributed", "local"],
    "stances": ["sound"],
}
STOP: dict[str, Any] = {"stopped": True}
READING_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["time", "unit"],
    "additionalProperties": False,
    "properties": {
        "curator": {
            "type": "string",
            "description": "May be omitted if the token names it, or only one is hosted.",
        },
        "device": {"type": "string", "description": "Default: the curator's own id."},
        "register": {
            "type": "string",
            "default": "energy_import",
            "description": "A name, or an OBIS code such as 1-0:1.8.0.",
        },
        "time": {
            "oneOf": [{"type": "string", "format": "date-time"}, {"type": "integer"}],
            "description": "RFC 3339 with an offset, or epoch milliseconds.",
        },
        "value": {
            "oneOf": [{"type": "number"}, {"type": "string"}],
            "description": "A decimal, read exactly from its text.",
        },
        "values": {
            "type": "array",
            "items": {"oneOf": [{"type": "number"}, {"type": "string"}]},
            "description": "A vector, instead of value.",
        },
        "unit": {"type": "string", "enum": ["Wh", "kWh", "MWh", "W", "kW", "m3", "l", "1"]},
        "kind": {
            "type": "string",
            "enum": ["delta", "instant", "total_increasing"],
            "default": "delta",
        },
        "rollover": {
            "oneOf": [{"type": "number"}, {"type": "string"}],
            "description": "Size of a counter that starts again at zero.",
        },
        "correction": {"type": "boolean", "default": False},
    },
}


def readings_body() -> dict[str, Any]:
    """The `openapi_extra` of the route that takes readings."""
    return body(
        {
            "application/json": {
                "schema": {"oneOf": [READING_SCHEMA, {"type": "array", "items": READING_SCHEMA}]},
                "example": [READING],
            }
        },
        "Or one reading a line (`application/x-ndjson`), or SenML (`application/senml+json`, "
        "`application/senml+cbor`).",
    )


IMPORT_BODY: dict[str, Any] = body(
    {"text/csv": OCTETS},
    "Or Green Button XML (`application/atom+xml`), either of them packed (`application/gzip`, "
    "`application/x-xz`), or as the field `file` of a form (`multipart/form-data`).",
)
RECORDS: dict[str, Any] = {
    "curator": "meter-0001",
    "columns": ["night_kwh", "day_kwh"],
    "rows": [[1.5, 6.25]],
}
ITEMS_BODY: dict[str, Any] = body(
    {"text/plain": {**OCTETS, "example": "home news sports\nnews home\n"}},
    'Or a list a line (`application/x-ndjson`), or `{"items": [...], "time": ...}` in each.',
)
CONFIRMATION: dict[str, Any] = {"fingerprint": "NHUPmIyhFVMmCRkVYzKAoNtxLMjXrNZ8tbNvU3-2YCY"}
