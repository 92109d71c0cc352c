"""Repeats an additive sum from its transcript, with the standard library alone.

    python examples/check_transcript.py transcript.json result.json

Each aggregator's partial sum must be the one that it committed to, and together they must give the
released sum. It checks no signature: `tacit round verify` does. Spec: keys, section 6.1.
"""

import base64
import hashlib
import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any


def octets(text: str) -> bytes:
    """What base64url without padding stands for."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def prefixed(*fields: bytes) -> bytes:
    """Fields, each after its length in four bytes."""
    return b"".join(len(field).to_bytes(4, "big") + field for field in fields)


def without_nulls(value: Any) -> Any:
    """The canonical form leaves out what is null."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def main(transcript_path: str, result_path: str) -> int:
    """Print what each aggregator did; exit code 1 if anything differs."""
    transcript = json.loads(Path(transcript_path).read_text())
    descriptor = transcript["descriptor"]["statement"]
    canonical = json.dumps(without_nulls(descriptor), sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(canonical.encode()).digest()
    manifest = hashlib.sha256(
        prefixed(
            b"tacit manifest v1",
            descriptor["round"].encode(),
            digest,
            bytes(transcript["quorum"]),
            transcript["participants"].to_bytes(4, "big"),
            bytes(transcript["contributions"]),
            octets(transcript["members_hash"]),
        )
    ).digest()
    total, faults = 0, 0
    for signed, reveal in zip(transcript["commitments"], transcript["reveals"], strict=True):
        partial = octets(reveal["partial"])
        name = reveal["aggregator"]
        fields = (digest, manifest, name.encode(), octets(reveal["nonce"]), partial)
        bound = hashlib.sha256(prefixed(b"tacit partial sum v1", *fields)).digest()
        kept = bound == octets(signed["statement"]["hash"])
        print(name, "kept its commitment" if kept else "BROKE ITS COMMITMENT")
        faults += not kept
        total += int.from_bytes(partial, "little")
    steps = (total + 2**63) % 2**64 - 2**63
    resolution = Decimal(descriptor["query"]["resolution"])
    released = Decimal(json.loads(Path(result_path).read_text())["result"]["sum"])
    print("sum matches:", steps * resolution == released)
    return 1 if faults or steps * resolution != released else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
