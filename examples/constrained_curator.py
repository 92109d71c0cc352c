"""A lone curator for a constrained device: one POST to each aggregator a round, no library of ours.

    python constrained_curator.py state.json enrol tctjoin_...
    python constrained_curator.py state.json contribute 2025-11-03T18:00:00Z 1.234
    python constrained_curator.py state.json rotate

The second gives a reading of energy_import in kWh and its time, and takes part in every open round;
run it again until all is delivered, it sends the same bytes. The third replaces the device's key;
run it again until all services know the new one. Where the key may be stolen, `enrol` takes a join
token of grants with `replaces`, over the same state: what was spent stays spent.

It needs Python 3.11, `cryptography` 50, and for proofs `pycryptodome` (TurboSHAKE128; all else of a
proof is integers). It seals with X25519 and ML-KEM-768 together and in no other
way. It takes part in rounds of `sum` and `count`, declared or proved, with additive sharing
whose noise the aggregators add (`distributed`, layer `aggregator`), within a lifetime budget of its
own (EPSILON). It refuses all others, and says which member of the query or the descriptor made it
do so. The wire is described in docs/reference/protocol.md.
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
from math import ceil, floor

from Crypto.Hash import TurboSHAKE128
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA65PublicKey
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, MLKEM768X25519PublicKey, Suite
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

EPSILON = Fraction(100)  # the most that this device will ever spend
OVERLAP = timedelta(days=7)  # how long what a replaced key signed is accepted
SKEW = timedelta(seconds=300)  # how far clocks may lie apart
TAKEN = {  # what a query may say; None: nothing
    "function": ("sum", "count"),
    "register": ("energy_import",),
    "unit": ("kWh",),
    "stance": ("sound",),
    "mechanism": ("distributed",),
    "layer": (None, "aggregator"),  # the aggregators' if left out
    "sharing": ("additive",),
    "delta": ("0",),
    "completeness": (None,),
    "validity": (None, "declared", "proved"),
}
PRIME = 2**64 - 2**32 + 1  # of proofs; 7^((PRIME - 1) / n) has order n, for n = 2, 4, .., 2^32
MEASUREMENT_SHARE, PROOF_SHARE, PROVE_RANDOMNESS = 1, 2, 4  # what a seed is expanded for
ONE_PROOF = b"\1"
X_WING = Suite(KEM.MLKEM768_X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)  # it only encapsulates


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


def signer_of(signed, coordinator):
    """The coordinator's key that signed a descriptor; its newest if none did."""
    message = b"tacit round descriptor v1\0" + canonical(signed["statement"])
    for key in keys_of(coordinator)[1:]:
        try:
            Ed25519PublicKey.from_public_bytes(unb64(key)).verify(
                unb64(signed["signature"]), message
            )
        except InvalidSignature:
            continue
        return unb64(key)
    return unb64(coordinator["identity_key"])


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
    """Whether a key is the one whose fingerprint came with the join token, or follows from it."""
    return fingerprint_of(public_key) == grant["fingerprint"] or public_key in keys_of(grant)


def fingerprint_of(public_key):
    return b64(hashlib.sha256(unb64(public_key)).digest())


def keys_of(grant):
    """The keys of a service that are accepted now: of its identity, and those of before until their
    overlap is over."""
    old = grant.get("before", {})
    now = datetime.now(UTC)
    later = [key for key, until in old.items() if now < datetime.fromisoformat(until)]
    return [grant["identity_key"], *later] if "identity_key" in grant else []


def both_signed(label, statement, signature, keys):
    """Whether Ed25519 and ML-DSA-65 keys signed it for this purpose, both."""
    message = label.encode() + b"\0" + canonical(statement)
    try:
        Ed25519PublicKey.from_public_bytes(unb64(keys["ed25519"])).verify(signature[:64], message)
        key = MLDSA65PublicKey.from_public_bytes(unb64(keys["mldsa65"]))
        key.verify(signature[64:], message, context=label.encode())
    except (InvalidSignature, ValueError):
        return False
    return True


def leads_on(link, document, deployment):
    """Whether this succession or revocation is the one to which an identity committed."""
    said = link["statement"]
    new = said.get("document") or said.get("revoked_by")
    if new is None or said["from"] != document_hash(document):
        return False
    own = {"role": document["role"], "name": document["name"]}
    after = {**own, "serial": document["serial"] + 1} if said.get("document") else {}
    signers = [(link["signature"], new)]
    if said["reason"] == "planned":
        signers.append((link.get("old_signature", ""), document))
    committed = prefixed(b"tacit next identity v1", unb64(new["ed25519"]), unb64(new["mldsa65"]))
    return (
        {name: said[name] for name in own} | {"deployment": said["deployment"]}
        == own | {"deployment": deployment}
        and {name: new.get(name) for name in after} == after
        and b64(hashlib.sha256(committed).digest()) == document.get("next")
        and datetime.fromisoformat(said["effective"]) <= datetime.now(UTC) + SKEW
        and all(both_signed("tacit succession v1", said, unb64(s), keys) for s, keys in signers)
    )


def document_hash(document):
    return b64(hashlib.sha256(b"tacit identity v1\0" + canonical(document)).digest())


def follow(state, grant):
    """Go from the anchored identity of a service along the chain that it shows, as far as it leads.
    Who cannot be reached, or has a key alone, stays as known."""
    role = "coordinator" if grant is state["coordinator"] else "aggregator"
    try:
        shown = ask(f"{grant['url']}/.well-known/tacit-{role}/identity")
    except OSError:
        return
    known = grant.get("document")
    for signed in shown["documents"]:
        document = signed["statement"]
        signature = unb64(signed["signature"])
        demand(
            both_signed("tacit identity v1", document, signature, document),
            "a document is unsigned",
        )
        if document["ed25519"] == (known or {"ed25519": grant["identity_key"]})["ed25519"]:
            demand(known in (None, document), f"{grant['party']} has two documents of one key")
            known = document
    own = {"role": role, "name": grant["party"]}
    if known is None or {name: known[name] for name in own} != own:
        return

    def successors(document):
        return {
            b64(hashlib.sha256(canonical(link["statement"])).digest()): link["statement"]
            for link in shown.get("links", [])
            if leads_on(link, document, state["coordinator"]["party"])
        }

    past = grant.setdefault("past", [])  # documents that were replaced, each with the link's hash
    for document, link_hash in past:
        other = {*successors(document)} - {link_hash}
        demand(not other, f"{grant['party']} has two successors: ask its operator")
    while True:
        found = successors(known)
        demand(len(found) < 2, f"{grant['party']} has two successors: ask its operator")
        if not found:
            break
        ((link_hash, said),) = found.items()
        demand("document" in said, f"{grant['party']} has revoked its identity")
        past.append([known, link_hash])
        before = {**grant.get("before", {}), known["ed25519"]: said["overlap_until"]}
        known = said["document"]
        grant["before"], grant["identity_key"] = before, known["ed25519"]
        grant["fingerprint"] = fingerprint_of(known["ed25519"])
    grant["document"] = known


def ask(url, body=None, token=None, method=None):
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = "Bearer " + token
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        content, form = answer.read(), answer.headers.get_content_type()
    return json.loads(content) if content and form.endswith("json") else content


def ask_as_party(path, state, grant, url, body=None, method=None):
    """Ask with our token at that service; where it has ended them all, with another one."""
    try:
        return ask(url, body, grant["token"], method)
    except urllib.error.HTTPError as error:
        if error.code != 401:
            raise
    renew(path, state, grant)
    return ask(url, body, grant["token"], method)


def renew(path, state, grant):
    """Put another token in the place of an ended one: our identity signs the hashes of both."""
    made = "tct_curator_" + b64(os.urandom(32))
    statement = {
        "format": "tacit.token-renewal/1",
        "service": grant["party"],
        "party": state["party"],
        "token_hash": hashlib.sha256(grant["token"].encode()).hexdigest(),
        "new_hash": hashlib.sha256(made.encode()).hexdigest(),
        "made": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
    }
    identity = Ed25519PrivateKey.from_private_bytes(unb64(state["identity"]))
    signature = b64(identity.sign(b"tacit token renewal v1\0" + canonical(statement)))
    place = f"{grant['url']}/v1/parties/{state['party']}/token"
    ask(place, {"statement": statement, "signature": signature})
    grant["token"] = made  # if this is lost, the ended token earns another one
    save(path, state)


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
        "coordinator": token["coordinator"],
        "aggregators": {grant["party"]: grant for grant in token["aggregators"]},
        "first": None,
        "spent": "0",
        "sessions": {},
        "rounds": {},
    }


def enrol(path, text):
    token = json.loads(unb64(text[8:]))
    state = load(path) if os.path.exists(path) else new_state(token)
    if token["coordinator"]["secret"] != state["coordinator"]["secret"]:  # another key, same budget
        demand(token["party"] == state["party"], "the join token is for another party")
        past = dict.fromkeys(state["rounds"], "identity")  # not answered again
        state = {**new_state(token), "spent": state["spent"], "rounds": past}
    save(path, state)  # keys are durable before anybody hears of them
    identity = Ed25519PrivateKey.from_private_bytes(unb64(state["identity"]))
    me = state["party"]
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
            "curators": [me],
            "first": state["first"],
        }
        signature = identity.sign(b"tacit enrolment v1\0" + canonical(statement))
        body = {"statement": statement, "signature": b64(signature)}
        answer = ask(grant["url"] + "/v1/enrolments", body)
        grant["identity_key"], grant["token"] = shown, answer["token"]
        state["first"] = answer["first"]
        save(path, state)


def rotate(path):
    """Another key, signed by the one before. That one signs until all services know the new one."""
    state, old = load(path), "identity"
    if "next" not in state:
        state["next"] = b64(Ed25519PrivateKey.generate().private_bytes_raw())
        keys = [Ed25519PrivateKey.from_private_bytes(unb64(state[name])) for name in ("next", old)]
        new_public, old_public = (b64(key.public_key().public_bytes_raw()) for key in keys)
        now = datetime.now(UTC)
        statement = {
            "format": "tacit.party-succession/1",
            "deployment": state["coordinator"]["party"],
            "party": state["party"],
            "from": fingerprint_of(old_public),
            "identity_key": new_public,
            "effective": f"{now:%Y-%m-%dT%H:%M:%SZ}",
            "overlap_until": f"{now + OVERLAP:%Y-%m-%dT%H:%M:%SZ}",
        }
        message = b"tacit party succession v1\0" + canonical(statement)
        signature, old_signature = (b64(key.sign(message)) for key in keys)
        link = {"statement": statement, "signature": signature, "old_signature": old_signature}
        state["links"] = [*state.get("links", []), link]
        save(path, state)  # the key is durable before anybody hears of it
    for grant in [state["coordinator"], *state["aggregators"].values()]:
        if grant.get("links") != len(state["links"]):
            place = f"{grant['url']}/v1/parties/{state['party']}/identity"
            ask_as_party(path, state, grant, place, {"links": state["links"]}, "PUT")
            grant["links"] = len(state["links"])
            save(path, state)
    state[old] = state.pop("next")
    save(path, state)


def bits_of(value, top):
    """An integer in [0, top] as bits of the weights 1, 2, 4, .., and one last of what is left."""
    lower = top.bit_length() - 1
    last = value >= 2**lower
    rest = value - last * (top - 2**lower + 1)
    return [rest >> place & 1 for place in range(lower)] + [int(last)]


def expand(seed, algorithm, usage, context, binder, count):
    """Field elements from a seed: 8-byte words of its hash, those from PRIME on passed over."""
    tag = b"\x12\0" + algorithm.to_bytes(4, "big") + usage.to_bytes(2, "big") + context
    row = len(tag).to_bytes(2, "little") + tag + bytes([len(seed)]) + seed + binder
    stream, found = TurboSHAKE128.new(data=row, domain=1), []
    while len(found) < count:
        word = int.from_bytes(stream.read(8), "little")
        if word < PRIME:
            found.append(word)
    return found


def twice_as_many(values):
    """A polynomial's values at the 2n-th roots of unity, from its n values at the n-th roots."""
    size = len(values)
    root = pow(7, (PRIME - 1) // (2 * size), PRIME)
    odd = [pow(root, 2 * place + 1, PRIME) - 1 for place in range(size)]
    kernel = [-2 * pow(size * each, -1, PRIME) for each in odd]
    between = [  # a negative place of the kernel counts from its end: it is periodic
        sum(value * kernel[place - index] for index, value in enumerate(values)) % PRIME
        for place in range(size)
    ]
    return [value for pair in zip(values, between, strict=True) for value in pair]


def prove(bits, seeds):
    """That every bit is 0 or 1: the seed of each wire, then the gadget's values along the wires."""
    zeros = [0] * (2 ** len(bits).bit_length() - 1 - len(bits))
    wires = [twice_as_many([seed, *bits, *zeros]) for seed in seeds]
    if len(wires) == 2:  # Prio3Count
        gadget = [x * y % PRIME for x, y in zip(*wires, strict=True)]
    else:  # Prio3Sum
        gadget = [(x * x - x) % PRIME for x in wires[0]]
    return [*seeds, *gadget[:-1]]


def proved_shares(value, top, context, nonce, seeds):
    """A plaintext for each aggregator: shares of a value in [0, top] with a proof that it is there.

    The nonce has 16 bytes. There are as many seeds as aggregators, of 32 bytes: the last one hides
    the proof, the others are the shares of all aggregators but the first. All are random, secret,
    and never used again.
    """
    algorithm, wires = (1, 2) if top == 1 else (2, 1)
    bits = bits_of(value, top)
    hiding = expand(seeds[-1], algorithm, PROVE_RANDOMNESS, context, ONE_PROOF, wires)
    proof = prove(bits, hiding)
    first = bits + proof
    for index, seed in enumerate(seeds[:-1], start=1):
        own = bytes([index])
        share = expand(seed, algorithm, MEASUREMENT_SHARE, context, own, len(bits))
        share += expand(seed, algorithm, PROOF_SHARE, context, ONE_PROOF + own, len(proof))
        first = [(have - less) % PRIME for have, less in zip(first, share, strict=True)]
    words = b"".join(word.to_bytes(8, "little") for word in first)
    return [nonce + words, *(nonce + seed for seed in seeds[:-1])]


def declared_shares(value, count):
    """A plaintext for each aggregator: a word of 64 bits, all together the value."""
    words = [int.from_bytes(os.urandom(8), "little") for _ in range(count - 1)]
    words.append((value - sum(words)) % 2**64)
    return [word.to_bytes(8, "little") for word in words]


def digest_of(descriptor):
    return hashlib.sha256(canonical(descriptor)).digest()


def public_key(state, grant, wanted):
    """The seal key of this hash, of its aggregator or else of the coordinator, which mirrors it."""
    for url in (grant["url"], state["coordinator"]["url"]):
        try:
            raw = ask(f"{url}/v1/seal-keys/{wanted}")
        except OSError:
            continue
        if hashlib.sha256(prefixed(b"tacit seal key v1", b"1", raw)).digest() == unb64(wanted):
            break
    else:
        demand(False, f"nobody has the seal key of {grant['party']}")
    halves = MLKEM768PublicKey.from_public_bytes(raw[:1184]), raw[1184:]
    return MLKEM768X25519PublicKey(halves[0], X25519PublicKey.from_public_bytes(halves[1]))


def seal_key(state, descriptor, entry):
    """What an aggregator signed as its seal key, for this round if for one only."""
    grant = state["aggregators"].get(entry["id"])
    demand(grant and anchored(entry["identity_key"], grant), "an aggregator's key was substituted")
    theirs = check("tacit seal key v1", entry["seal_key"], unb64(entry["identity_key"]))
    demand((theirs["party"], theirs["suite"]) == (entry["id"], 1), "another's seal key")
    demand(theirs.get("round") in (None, descriptor["round"]), "a seal key for another round")
    return theirs


def session_with(state, descriptor, entry):
    """The session under an aggregator's seal key: one encapsulation, kept until the key's end."""
    theirs, now = seal_key(state, descriptor, entry), datetime.now(UTC)
    grant, deployment = state["aggregators"][entry["id"]], descriptor["deployment"]
    wanted = theirs["public_key_hash"]
    for name, known in list(state["sessions"].items()):
        if known["until"] < now.timestamp():
            del state["sessions"][name]  # with its key; announcements of pieces are with these
        elif known["statement"]["key"] == wanted:
            return known
    identity = Ed25519PrivateKey.from_private_bytes(unb64(state["identity"]))
    me, session, secret = state["party"], os.urandom(16), os.urandom(32)
    way, names = "curator>aggregator", (state["party"].encode(), entry["id"].encode())
    prints = [
        hashlib.sha256(key).digest()
        for key in (identity.public_key().public_bytes_raw(), unb64(entry["identity_key"]))
    ]
    info = prefixed(
        b"tacit session v1",
        b"1",
        deployment.encode(),
        names[0],
        prints[0],
        names[1],
        prints[1],
        unb64(wanted),
        session,
        way.encode(),
    )
    sealed = X_WING.encrypt(secret, public_key(state, grant, wanted), info)
    statement = {
        "format": "tacit.session/1",
        "deployment": deployment,
        "party": me,
        "aggregator": entry["id"],
        "direction": way,
        "key": wanted,
        "session": b64(session),
        "sealed": b64(sealed),
    }
    text = b"tacit session v1\0" + canonical(statement)
    derived = HKDF(SHA256(), 32, b"tacit sealed piece v1", hashlib.sha256(text).digest())
    until = datetime.fromisoformat(theirs["until"]).timestamp()
    made = {
        "statement": statement,
        "signature": b64(identity.sign(text)),
        "until": until,
        "key": b64(derived.derive(secret)),
        "known": False,
    }
    state["sessions"][b64(session)] = made
    return made


def seal(state, descriptor, index, plain, label, size):
    """One share for aggregator number `index`, readable by it alone, in this round alone; and the
    announcement of the session, unless the aggregator knows it."""
    entry = descriptor["aggregators"][index]
    session = session_with(state, descriptor, entry)
    me, them = state["party"].encode(), entry["id"].encode()
    numbers = str(index).encode(), str(size).encode()
    place, nonce = prefixed(label, digest_of(descriptor), me, them, *numbers), os.urandom(12)
    sealed = AESGCM(unb64(session["key"])).encrypt(nonce, plain, place)
    name = session["statement"]["session"]
    piece = {"sender": state["party"], "session": name, "nonce": b64(nonce), "sealed": b64(sealed)}
    if not session["known"]:
        piece["announce"] = {part: session[part] for part in ("statement", "signature")}
    return piece


def refusal(state, descriptor):
    """The member for which we take no part in this round, or None."""
    query, now = descriptor["query"], datetime.now(UTC)
    if descriptor["format"] != "tacit.round/1":
        return "format"
    for name, known in TAKEN.items():
        if query.get(name) not in known:
            return name
    if not 0 < Fraction(query.get("epsilon") or 0) <= EPSILON - Fraction(state["spent"]):
        return "epsilon"
    # The coordinator chooses who sums: with fewer, it may have corrupted all of them.
    if len(descriptor["aggregators"]) != len(state["aggregators"]):
        return "aggregators"
    opened, deadline = (datetime.fromisoformat(descriptor[at]) for at in ("opened", "deadline"))
    if opened > now + SKEW:
        return "opened"
    return "deadline" if deadline <= now else None


def contribution(descriptor, moment, value):
    """Our f(x), 0 without a reading in the window, and the least and the most that it may be."""
    query, window = descriptor["query"], descriptor["window"]
    unit, (low, high) = Fraction(query["resolution"]), map(Fraction, query["bounds"])
    low, high = floor(low / unit), ceil(high / unit)
    number = round(Fraction(value) / unit)
    if query["function"] == "count":
        low, high, number = 0, 1, 1
    start, end = (datetime.fromisoformat(window[name]) for name in ("start", "end"))
    within = start <= datetime.fromisoformat(moment) < end
    readings = query["max_readings"]
    least, most = min(0, readings * low), max(0, readings * high)
    return min(max(number, low), high) if within else 0, least, most


def prepare(state, signed, moment, value):
    """Check everything, make this round's pieces, debit; or the member for which we refuse it."""
    descriptor = check("tacit round descriptor v1", signed, signer_of(signed, state["coordinator"]))
    query, entries = descriptor["query"], descriptor["aggregators"]
    for name in ("id", "operator"):
        demand(len({entry[name] for entry in entries}) == len(entries), "aggregators are not many")
    demand(len(entries) == query["aggregators"] > 1, "aggregators are not many")
    if reason := refusal(state, descriptor):
        return reason
    for entry in entries:  # all, before anything is begun with one of them
        seal_key(state, descriptor, entry)
    number, least, most = contribution(descriptor, moment, value)
    if not 1 <= most - least < 2**62:
        return "bounds"  # nothing to say, or more than a sum has room for
    if query.get("validity") == "proved":
        context = b"tacit proved v1" + digest_of(descriptor)
        seeds = [os.urandom(32) for _ in entries]
        plains = proved_shares(number - least, most - least, context, os.urandom(16), seeds)
        places = [(b"tacit proved piece v1", len(plain)) for plain in plains]
    else:
        plains = declared_shares(number, len(entries))
        places = [(b"tacit sealed piece v1", 1)] * len(plains)
    made = []
    for index, (entry, plain) in enumerate(zip(entries, plains, strict=True)):
        piece = seal(state, descriptor, index, plain, *places[index])
        made.append([entry["id"], entry["url"], piece])
    state["spent"] = str(Fraction(state["spent"]) + Fraction(query["epsilon"]))
    return made


def deliver(path, state, name, aggregator, url, piece):
    """Whether a piece is stored; the same bytes again are answered as known."""
    try:
        ask_as_party(path, state, aggregator, f"{url}/v1/rounds/{name}/pieces", piece)
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
    for grant in [coordinator, *state["aggregators"].values()]:
        follow(state, grant)
    save(path, state)
    listed = ask_as_party(path, state, coordinator, coordinator["url"] + "/v1/rounds?state=open")
    for signed in listed["rounds"]:
        name = signed["statement"]["round"]
        if name not in state["rounds"]:
            state["rounds"][name] = prepare(state, signed, moment, value)
            save(path, state)  # debit and pieces are durable before the first is sent
        pieces = state["rounds"][name]
        if isinstance(pieces, str):
            print(name, "refused:", pieces)
            continue
        grants = state["aggregators"]
        stored = [deliver(path, state, name, grants[to], *rest) for to, *rest in pieces]
        for (_, _, piece), known in zip(pieces, stored, strict=True):
            if known and piece["session"] in state["sessions"]:
                state["sessions"][piece["session"]]["known"] = True
        save(path, state)
        print(name, "contributed" if all(stored) else "not delivered to all")


if __name__ == "__main__":
    {"enrol": enrol, "contribute": contribute, "rotate": rotate}[sys.argv[2]](
        sys.argv[1], *sys.argv[3:]
    )
