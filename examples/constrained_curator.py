"""A lone curator for a constrained device: one POST to each aggregator a round, no library of ours.

    python constrained_curator.py state.json enrol tctjoin_...
    python constrained_curator.py state.json contribute 1.234      # this window's reading, in kWh

Needs Python 3.11 and `cryptography`. It takes part in rounds of `sum` with additive sharing whose
noise the aggregators add (`distributed`, layer `aggregator`), within a lifetime budget of its own
(EPSILON), and refuses all others. The wire is described in docs/reference/protocol.md.
"""

import base64
import hashlib
import json
import os
import sys
import urllib.error
import urllib.request
from fractions import Fraction

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

EPSILON = Fraction(100)  # the most that this device will ever spend


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
    message = label.encode() + b"\0" + canonical(signed["statement"])
    Ed25519PublicKey.from_public_bytes(public_key).verify(unb64(signed["signature"]), message)
    return signed["statement"]


def prefixed(*fields):
    return b"".join(len(field).to_bytes(4, "big") + field for field in fields)


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


def enrol(path, text):
    token = json.loads(unb64(text.removeprefix("tctjoin_")))
    identity, key = Ed25519PrivateKey.generate(), X25519PrivateKey.generate()
    me = token["party"]
    epoch_key = {"party": me, "epoch": 0, "public_key": b64(key.public_key().public_bytes_raw())}
    state = {
        "party": me,
        "identity": b64(identity.private_bytes_raw()),
        "key": b64(key.private_bytes_raw()),
        "coordinator": token["coordinator"],
        "aggregators": {grant["party"]: grant for grant in token["aggregators"]},
        "spent": "0",
        "rounds": {},
    }
    save(path, state)  # keys are durable before anybody hears of them
    first = None
    for grant in [token["coordinator"], *token["aggregators"]]:
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
            "first": first,
        }
        signature = identity.sign(b"tacit enrolment v1\0" + canonical(statement))
        body = {"statement": statement, "signature": b64(signature)}
        answer = ask(grant["url"] + "/v1/enrolments", body)
        grant["token"], first = answer["token"], answer["first"]
    identity_document = ask(token["coordinator"]["url"] + "/.well-known/tacit-coordinator")
    public_key = unb64(identity_document["identity_key"])
    anchor = unb64(token["coordinator"]["fingerprint"])
    demand(hashlib.sha256(public_key).digest() == anchor, "another coordinator answers")
    state["coordinator"]["identity_key"] = b64(public_key)
    save(path, state)


def seal(state, descriptor, digest, index, word):
    """One word for aggregator number `index`, readable by it alone, in this round alone."""
    entry = descriptor["aggregators"][index]
    anchor = unb64(state["aggregators"][entry["id"]]["fingerprint"])
    identity = hashlib.sha256(unb64(entry["identity_key"])).digest()
    demand(identity == anchor, "an aggregator's key was substituted")
    theirs = check("tacit epoch key v1", entry["epoch_key"], unb64(entry["identity_key"]))
    own, peer = (
        X25519PrivateKey.from_private_bytes(unb64(state["key"])),
        unb64(theirs["public_key"]),
    )
    me, them, epoch = state["party"].encode(), entry["id"].encode(), str(theirs["epoch"]).encode()
    ends = (b"1", me, them, own.public_key().public_bytes_raw(), peer, epoch)
    info = prefixed(*ends, b"curator>aggregator")
    secret = own.exchange(X25519PublicKey.from_public_bytes(peer))
    key = HKDF(SHA256(), 32, salt=b"tacit sealed piece v1", info=info).derive(secret)
    place = prefixed(b"tacit sealed piece v1", digest, me, them, str(index).encode(), b"1")
    nonce = os.urandom(12)
    sealed = AESGCM(key).encrypt(nonce, (word % 2**64).to_bytes(8, "little"), place)
    return {
        "sender": state["party"],
        "key_epoch": 0,
        "nonce": b64(nonce),
        "sealed": b64(sealed),
    }


def prepare(state, signed, value):
    """Check everything, debit, and make this round's pieces; None for a round we refuse."""
    descriptor = check(
        "tacit round descriptor v1", signed, unb64(state["coordinator"]["identity_key"])
    )
    query, digest = descriptor["query"], hashlib.sha256(canonical(descriptor)).digest()
    fit = (query["function"], query["mechanism"], query.get("layer"), query["sharing"])
    if fit != ("sum", "distributed", "aggregator", "additive") or query["stance"] != "sound":
        return None
    spent = Fraction(state["spent"]) + Fraction(query["epsilon"])
    if spent > EPSILON:
        return None
    unit = Fraction(query["resolution"])
    low, high = (round(Fraction(bound) / unit) for bound in query["bounds"])
    number = min(max(round(Fraction(value) / unit), low), high)
    words = [int.from_bytes(os.urandom(8), "little") for _ in descriptor["aggregators"][1:]]
    words.append((number - sum(words)) % 2**64)
    pieces = [seal(state, descriptor, digest, i, word) for i, word in enumerate(words)]
    state["spent"] = str(spent)
    return [
        [entry["id"], entry["url"], piece]
        for entry, piece in zip(descriptor["aggregators"], pieces, strict=True)
    ]


def contribute(path, value):
    with open(path) as file:
        state = json.load(file)
    coordinator = state["coordinator"]
    listed = ask(coordinator["url"] + "/v1/rounds?state=open", token=coordinator["token"])
    for signed in listed["rounds"]:
        name = signed["statement"]["round"]
        if name not in state["rounds"]:
            state["rounds"][name] = prepare(state, signed, value)
            save(path, state)  # debit and pieces are durable before the first is sent
        for aggregator, url, piece in state["rounds"][name] or ():
            token = state["aggregators"][aggregator]["token"]
            try:
                ask(f"{url}/v1/rounds/{name}/pieces", piece, token)
            except urllib.error.HTTPError as error:
                print(f"{aggregator}: {json.load(error)['type']}", file=sys.stderr)
        print(name, "contributed" if state["rounds"][name] else "refused")


if __name__ == "__main__":
    {"enrol": enrol, "contribute": contribute}[sys.argv[2]](sys.argv[1], sys.argv[3])
