"""A lone curator for a constrained device: one POST to each aggregator a round, no library of ours.

    python constrained_curator.py state.json enrol tctjoin_...
    python constrained_curator.py state.json contribute 2025-11-03T18:00:00Z 1.234

The second gives a reading of energy_import in kWh and its time, and takes part in every open round;
run it again until all is delivered, it sends the same bytes. It needs Python 3.11 and
`cryptography`. It takes part in rounds of `sum` with additive sharing whose noise the aggregators
add (`distributed`, layer `aggregator`), within a lifetime budget of its own (EPSILON), and refuses
all others, proved ones (`validity: proved`) too: it makes no proofs. The wire is described in
docs/reference/protocol.md.
"""

import base64
import hashlib
import json
import os
import sys
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

EPSILON = Fraction(100)  # the most that this device will ever spend
SKEW = timedelta(seconds=300)  # how far clocks may lie apart
TAKEN = {  # what a query must say; a layer left out is the aggregators'
    "function": "sum",
    "register": "energy_import",
    "unit": "kWh",
    "stance": "sound",
    "mechanism": "distributed",
    "layer": "aggregator",
    "sharing": "additive",
    "delta": "0",
    "completeness": None,
    "validity": "declared",  # it makes no proofs
}


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unb64(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def demand(condition, text):
    if not condition:
        raise SystemExit("constrained_curator: " + text)


def canonical(value):
    """What hashes and signatures cover: sorted keys, no blanks, no nulls."""

    def bare(item):
        if isinstance(item, dict):
            return {key: bare(inner) for key, inner in item.items() if inner is not None}
        return [bare(inner) for inner in item] if isinstance(item, list) else item

    return json.dumps(bare(value), sort_keys=True, separators=(",", ":")).encode()


def check(label, signed, public_key):
    """The statement, if this key signed it for this purpose."""
    message = label.encode() + b"\0" + canonical(signed["statement"])
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(unb64(signed["signature"]), message)
    except (InvalidSignature, ValueError):
        demand(False, f"a bad signature of a {label}")
    return signed["statement"]


def prefixed(*fields):
    return b"".join(len(field).to_bytes(4, "big") + field for field in fields)


def anchored(public_key, grant):
    """Whether a key is the one whose fingerprint came with the join token."""
    return hashlib.sha256(unb64(public_key)).digest() == unb64(grant["fingerprint"])


def ask(url, body=None, token=None):
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = "Bearer " + token
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=30) as answer:
        return json.load(answer)


def save(path, state):
    with open(path + ".new", "w", opener=lambda p, f: os.open(p, f, 0o600)) as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)


def load(path):
    with open(path) as file:
        return json.load(file)


def new_state(token):
    return {
        "party": token["party"],
        "identity": b64(Ed25519PrivateKey.generate().private_bytes_raw()),
        "key": b64(X25519PrivateKey.generate().private_bytes_raw()),
        "coordinator": token["coordinator"],
        "aggregators": {grant["party"]: grant for grant in token["aggregators"]},
        "first": None,
        "spent": "0",
        "rounds": {},
    }


def enrol(path, text):
    state = load(path) if os.path.exists(path) else new_state(json.loads(unb64(text[8:])))
    save(path, state)  # keys are durable before anybody hears of them
    identity = Ed25519PrivateKey.from_private_bytes(unb64(state["identity"]))
    key, me = X25519PrivateKey.from_private_bytes(unb64(state["key"])), state["party"]
    epoch_key = {"party": me, "epoch": 0, "public_key": b64(key.public_key().public_bytes_raw())}
    for grant in [state["coordinator"], *state["aggregators"].values()]:
        if "token" in grant:
            continue  # done when this ran before
        kind = "coordinator" if grant is state["coordinator"] else "aggregator"
        shown = ask(f"{grant['url']}/.well-known/tacit-{kind}")["identity_key"]
        demand(anchored(shown, grant), f"{grant['party']} has another key than the join token says")
        statement = {
            "service": grant["party"],
            "secret": grant["secret"],
            "party": me,
            "kind": "curator",
            "identity_key": b64(identity.public_key().public_bytes_raw()),
            "epoch_key": epoch_key,
            "epoch_key_signature": b64(
                identity.sign(b"tacit epoch key v1\0" + canonical(epoch_key))
            ),
            "curators": [me],
            "first": state["first"],
        }
        signature = identity.sign(b"tacit enrolment v1\0" + canonical(statement))
        body = {"statement": statement, "signature": b64(signature)}
        answer = ask(grant["url"] + "/v1/enrolments", body)
        grant["identity_key"], grant["token"] = shown, answer["token"]
        state["first"] = answer["first"]
        save(path, state)


def seal(state, descriptor, index, word):
    """One word for aggregator number `index`, readable by it alone, in this round alone."""
    entry, digest = descriptor["aggregators"][index], hashlib.sha256(canonical(descriptor)).digest()
    grant = state["aggregators"].get(entry["id"])
    demand(grant and anchored(entry["identity_key"], grant), "an aggregator's key was substituted")
    theirs = check("tacit epoch key v1", entry["epoch_key"], unb64(entry["identity_key"]))
    demand(theirs["party"] == entry["id"], "an epoch key of another party")
    own = X25519PrivateKey.from_private_bytes(unb64(state["key"]))
    peer = unb64(theirs["public_key"])
    me, them, epoch = state["party"].encode(), entry["id"].encode(), str(theirs["epoch"]).encode()
    ends = (b"1", me, them, own.public_key().public_bytes_raw(), peer, epoch)
    info = prefixed(*ends, b"curator>aggregator")
    secret = own.exchange(X25519PublicKey.from_public_bytes(peer))
    key = HKDF(SHA256(), 32, salt=b"tacit sealed piece v1", info=info).derive(secret)
    place = prefixed(b"tacit sealed piece v1", digest, me, them, str(index).encode(), b"1")
    nonce = os.urandom(12)
    sealed = AESGCM(key).encrypt(nonce, word.to_bytes(8, "little"), place)
    return {"sender": state["party"], "key_epoch": 0, "nonce": b64(nonce), "sealed": b64(sealed)}


def prepare(state, signed, moment, value):
    """Check everything, make this round's pieces, debit; None for a round that we refuse."""
    key = unb64(state["coordinator"]["identity_key"])
    descriptor = check("tacit round descriptor v1", signed, key)
    query, entries = descriptor["query"], descriptor["aggregators"]
    for name in ("id", "operator"):
        demand(len({entry[name] for entry in entries}) == len(entries), "aggregators are not many")
    demand(len(entries) == query["aggregators"] > 1, "aggregators are not many")
    spent = Fraction(state["spent"]) + Fraction(query.get("epsilon") or 0)
    fits = all((query.get(name) or wanted) == wanted for name, wanted in TAKEN.items())
    opened, deadline = (datetime.fromisoformat(descriptor[at]) for at in ("opened", "deadline"))
    timely = opened <= datetime.now(UTC) + SKEW and datetime.now(UTC) < deadline
    # The coordinator chooses who sums: with fewer, it may have corrupted all of them.
    everyone = len(entries) == len(state["aggregators"])
    if not (fits and timely and everyone) or spent > EPSILON:
        return None
    unit, window = Fraction(query["resolution"]), descriptor["window"]
    start, end = (datetime.fromisoformat(window[name]) for name in ("start", "end"))
    low, high = (round(Fraction(bound) / unit) for bound in query["bounds"])
    number = min(max(round(Fraction(value) / unit), low), high)
    if not start <= datetime.fromisoformat(moment) < end:
        number = 0  # no reading in this window; that we take part says nothing
    words = [int.from_bytes(os.urandom(8), "little") for _ in entries[1:]]
    words.append((number - sum(words)) % 2**64)
    pieces = [seal(state, descriptor, index, word) for index, word in enumerate(words)]
    state["spent"] = str(spent)
    return [
        [entry["id"], entry["url"], piece] for entry, piece in zip(entries, pieces, strict=True)
    ]


def deliver(name, aggregator, url, piece):
    """Whether a piece is stored; the same bytes again are answered as known."""
    try:
        ask(f"{url}/v1/rounds/{name}/pieces", piece, aggregator["token"])
    except urllib.error.HTTPError as error:
        print(f"{aggregator['party']}: {json.load(error)['type']}", file=sys.stderr)
    except OSError as error:
        print(f"{aggregator['party']}: {error}", file=sys.stderr)
    else:
        return True
    return False


def contribute(path, moment, value):
    state = load(path)
    coordinator = state["coordinator"]
    listed = ask(coordinator["url"] + "/v1/rounds?state=open", token=coordinator["token"])
    for signed in listed["rounds"]:
        name = signed["statement"]["round"]
        if name not in state["rounds"]:
            state["rounds"][name] = prepare(state, signed, moment, value)
            save(path, state)  # debit and pieces are durable before the first is sent
        pieces = state["rounds"][name]
        stored = [deliver(name, state["aggregators"][to], *rest) for to, *rest in pieces or ()]
        words = "contributed" if all(stored) else "not delivered to all"
        print(name, "refused" if pieces is None else words)


if __name__ == "__main__":
    {"enrol": enrol, "contribute": contribute}[sys.argv[2]](sys.argv[1], *sys.argv[3:])
