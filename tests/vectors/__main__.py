"""Write what follows from the inputs in the files: `python -m tests.vectors`.

To add an example, put its inputs there first. A signature or body that is drawn stays as it is.
"""

import json

from tacit.wire import encode_binary, parse_binary
from tests.vectors.examples import FILES, HERE, SIGNED, signed, statement, value, verified
from tests.vectors.sealed import SEALED

for name, entry in FILES["signed"].items():
    label = entry["label"] = SIGNED[name][0]
    if not verified(name, label, statement(name), parse_binary(entry.get("signature", ""))):
        entry["signature"] = encode_binary(signed(name).signature)
for file in ("hashed", "derived"):
    for name, entry in FILES[file].items():
        entry["value"] = value(name, entry)
for name, entry in FILES["sealed"].items():
    if "body" not in entry:
        entry["body"] = SEALED[name][0](bytes.fromhex(entry["plaintext"])).hex()
for file, entries in FILES.items():
    text = json.dumps(dict(sorted(entries.items())), indent=1)
    (HERE / f"{file}.json").write_text(text + "\n", "utf-8")
