"""Examples of bodies, which the API document shows. A test sends those of requests and compares the
fields of answers with real ones."""

from __future__ import annotations

import json
from typing import Any

QUERY: dict[str, Any] = {
    "name": "feeder-evening-energy",
    "function": "sum",
    "register": "energy_import",
    "unit": "kWh",
    "bounds": ["0", "5"],
    "max_readings": 4,
    "resolution": "0.001",
    "privacy_unit": "curator",
    "mechanism": "distributed",
    "epsilon": "1",
    "layer": "aggregator",
    "sharing": "additive",
    "aggregators": 3,
    "collusion": {"curators": 0, "aggregators": 2},
    "min_participants": 10,
    "n_max": 100000,
    "deadline_s": 300,
}
ROUND: dict[str, Any] = {
    "query_id": "01928374-5566-7788-99aa-bbccddeeff00",
    "window": {"start": "2026-11-02T18:00:00Z", "end": "2026-11-02T19:00:00Z"},
}
PREVIEW: dict[str, Any] = {**QUERY, "epsilons": ["0.1", "1", "2"]}
GRANT: dict[str, Any] = {
    "party": "gateway-7",
    "kind": "host",
    "max_curators": 400,
    "valid_s": 86400,
}
UPDATE: dict[str, Any] = {
    "kind": "flagged",
    "curators": ["meter-0007"],
    "reason": "declares a largest contribution a hundred times the others'",
}
LIMITS: dict[str, Any] = {
    "limits": [{"unit": "curator", "scenario": "assumed", "epsilon": "12", "delta": "0.000001"}]
}
PLAN: dict[str, Any] = {
    "query_id": "01928374-5566-7788-99aa-bbccddeeff00",
    "window": {"start": "2026-11-02T18:00:00Z", "end": "2026-11-02T19:00:00Z"},
}
FORECAST: dict[str, Any] = {
    "query_id": "01928374-5566-7788-99aa-bbccddeeff00",
    "period_s": 86400,
    "days": 365,
    "delta": "0.000001",
}
OUTLOOK: dict[str, Any] = {
    "queries": [{"query_id": "01928374-5566-7788-99aa-bbccddeeff00", "period_s": 86400}],
    "days": 365,
}
ACKNOWLEDGEMENT: dict[str, Any] = {"members": "_w"}
ACKNOWLEDGEMENTS: dict[str, Any] = {
    "reports": [
        {
            "round": "019a0c2e-8f00-7000-8000-000000000001",
            "token": "tct_curator_0123456789abcdef",
            "members": "AQ",
        }
    ]
}
ROUND_IDS: dict[str, Any] = {"rounds": ["019a0c2e-8f00-7000-8000-000000000001"]}
REFUSAL: dict[str, Any] = {"members": "Bw", "grounds": {"policy": 2, "own": 1}}
GROUP: dict[str, Any] = {
    "name": "feeder-7",
    "parent": None,
    "curators": ["meter-0001", "meter-0002"],
}
TOKEN: dict[str, Any] = {"scope": "analyst", "label": "grid planning"}
CONFIRMATION: dict[str, Any] = {"fingerprint": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}
AGGREGATOR: dict[str, Any] = {
    "url": "https://aggregator-1.example",
    "token": "tct_coordinator_the-token-that-the-aggregator-issued",
    "fingerprint": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
}
DATASET: dict[str, Any] = {
    "name": "two-feeders",
    "kind": "numeric-table",
    "format": "csv",
    "budget": {"epsilon": "2", "delta": "0"},
    "columns": ["energy_kwh", "peak_kw"],
    "rows": [[3.5, 1.25], [4, 0.75]],
}
JOB: dict[str, Any] = {
    "algorithm": "kmeans",
    "dataset": "01928374-5566-7788-99aa-bbccddeeff00",
    "params": {"k": 2, "epsilon": "1", "bounds": [[0, 10], [0, 10]], "n_hint": 150},
}
JOB_DOCUMENT: dict[str, Any] = {
    "id": "01928374-5566-7788-99aa-bbccddeeff11",
    "algorithm": "kmeans",
    "version": "1",
    "dataset": JOB["dataset"],
    "stance": "sound",
    "state": "running",
    "federation": None,
    "params": JOB["params"],
    "seed": None,
    "cancelling": False,
    "progress": 0.4,
    "stage": "aggregating",
    "attempt": 2,
    "created": "2026-01-01T00:00:00Z",
    "started": "2026-01-01T00:00:01Z",
    "finished": None,
    "error": None,
    "budget": {
        "reserved": {"epsilon": "1", "delta": "0"},
        "outside_budget": False,
        "reason": None,
        "charged": {"epsilon": "1", "delta": "0"},
        "noise_drawn": True,
    },
    "remaining_s": 40,
}
"""`attempt`: 0 before the first one has begun, and for jobs over curators."""
JOB_EVENT = f"event: job\ndata: {json.dumps(JOB_DOCUMENT)}\n\n"
JOB_SCHEDULE: dict[str, Any] = {
    "algorithm": "crowd-tasking",
    "params": {
        "sensor": {
            "name": "energy",
            "unit": "kWh",
            "coordinates": [{"name": "day", "lower": 0, "upper": 30}],
        },
        "n": 1000,
        "epsilon": "1",
    },
    "federation": {
        "collect": "reports",
        "columns": [{"register": "energy_import", "statistic": "sum"}],
        "schedule": {"period_s": 86400, "first_start": "2026-01-01T00:00:00Z"},
        "min_participants": 20,
        "n_max": 1000,
    },
}
REPORTS: dict[str, Any] = {
    "descriptor": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    "reports": [{"curator": "meter-0001", "record": "1", "round": 1, "values": [40123]}],
}
STORAGE_KEY: dict[str, Any] = {"key": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"}
