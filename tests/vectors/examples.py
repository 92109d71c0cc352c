"""What is signed, hashed and derived, made with the product's functions of the inputs that the
files here state: a signed statement and its signer's secret; the fields of a value in their
order, bytes in hex and texts as they are, and the content whose canonical form follows them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from common.store.tokens import hash_token
from coordinator.jobs.results import _purpose as evaluation_purpose
from coordinator.models import budget_ledger
from coordinator.models.budget_ledger import LABEL, CheckpointStatement
from coordinator.rounds.context import salt_of
from coordinator.storage_keys import CONTENT, StorageKey, seed_purpose
from curator.owner import statement as ledger_statement
from curator.store.history import _HASHED
from tacit import randomness
from tacit.crypto.sealing import key_hash
from tacit.crypto.signing import (
    HybridIdentity,
    HybridPublicKey,
    Identity,
    SignatureBroken,
    SignatureStripped,
    Signed,
    fingerprint,
    signed_bytes,
    verify_hybrid,
    verify_once,
)
from tacit.protocol import enrolment, federation, sealing_sessions, trust
from tacit.protocol import identities as ids
from tacit.protocol import proved_rounds as shares
from tacit.protocol.party_identities import PARTY_SUCCESSION_LABEL, PartySuccession
from tacit.protocol.proved_rounds import candidates_of
from tacit.protocol.round import agreement, descriptor, messages, opening, pieces
from tacit.protocol.trust import anchors_line
from tacit.query.query import Query
from tacit.wire import WireModel

Entry = dict[str, Any]
HERE: Final = Path(__file__).parent
FILES: Final[dict[str, dict[str, Entry]]] = {
    path.stem: json.loads(path.read_text("utf-8")) for path in sorted(HERE.glob("*.json"))
}
SIGNED: Final[dict[str, tuple[str, type[WireModel]]]] = {
    "abort": (descriptor.ABORT_LABEL, descriptor.AbortStatement),
    "accepted set": (messages.ACCEPTED_LABEL, messages.AcceptedSet),
    "commitment": (messages.COMMITMENT_LABEL, messages.Commitment),
    "enrolment": (enrolment.ENROLMENT_LABEL, enrolment.Enrolment),
    "identity document": (ids.IDENTITY_LABEL, ids.IdentityDocument),
    "lasting seal key": (trust.LASTING_SEAL_KEY_LABEL, sealing_sessions.SealKeyStatement),
    "ledger checkpoint": (LABEL, CheckpointStatement),
    "ledger seal": (trust.LEDGER_SEAL_LABEL, trust.LedgerSeal),
    "party succession": (PARTY_SUCCESSION_LABEL, PartySuccession),
    "party succession, old key": (PARTY_SUCCESSION_LABEL, PartySuccession),
    "proved round descriptor": (descriptor.DESCRIPTOR_LABEL, descriptor.RoundDescriptor),
    "proved set": (messages.PROVED_SET_LABEL, messages.AcceptedSet),
    "round descriptor": (descriptor.DESCRIPTOR_LABEL, descriptor.RoundDescriptor),
    "seal key": (sealing_sessions.SEAL_KEY_LABEL, sealing_sessions.SealKeyStatement),
    "session": (sealing_sessions.SESSION_LABEL, sealing_sessions.Session),
    "succession": (ids.SUCCESSION_LABEL, ids.Succession),
    "succession, old pair": (ids.SUCCESSION_LABEL, ids.Succession),
    "token renewal": (enrolment.RENEWAL_LABEL, enrolment.TokenRenewal),
    "transcript seal": (trust.TRANSCRIPT_SEAL_LABEL, trust.TranscriptSeal),
    "verdict": (messages.VERDICT_LABEL, messages.Verdict),
    "verification": (messages.VERIFICATION_LABEL, messages.Verification),
}


def read(model: type[WireModel], content: Any) -> Any:
    """A statement as it comes over the wire."""
    return model.model_validate_json(json.dumps(content))


def statement(name: str) -> Any:
    """That of an entry of `signed.json`."""
    return read(SIGNED[name][1], FILES["signed"][name]["statement"])


def signer(entry: Entry) -> Identity | HybridIdentity:
    """A pair where the secret is two seeds."""
    secret = bytes.fromhex(entry["secret"])
    return Identity.from_bytes(secret) if len(secret) == 32 else HybridIdentity(secret)


def signed(name: str) -> Signed[Any]:
    """The statement of an entry, signed now: a pair's signature is another one each time."""
    return signer(FILES["signed"][name]).sign(SIGNED[name][0], statement(name))


def verified(name: str, label: str, said: WireModel, signature: bytes) -> bool:
    """Whether the signer of an entry signed this, as the product sees it."""
    key = signer(FILES["signed"][name])
    form: Any = Signed[type(said)]  # type: ignore[misc]
    made = form(statement=said, signature=signature)
    try:
        if isinstance(key, HybridIdentity):
            verify_hybrid(label, made, key.public)
        else:
            verify_once(label, made, key.public_key)
    except (SignatureBroken, SignatureStripped):
        return False
    return True


# --- what is hashed and derived ------------------------------------------------------------------


def fields_of(entry: Entry) -> dict[str, bytes | str]:
    """By name, in their order."""
    return {
        name: each if kind == "text" else bytes.fromhex(each)
        for name, kind, each in entry["fields"]
    }


def value(name: str, entry: Entry) -> str:
    """What the product makes of an entry's inputs: a text, or bytes in hex."""
    given = SimpleNamespace(**fields_of(entry), content=entry.get("content"), value=entry["value"])
    made = VALUES[name](given)
    return made if isinstance(made, str) else made.hex()


def _candidates(_: Any) -> bytes:
    """Of two aggregators that hold alike."""
    entry, own = FILES["signed"]["proved set"], statement("proved set")
    other = own.model_copy(update={"aggregator": "agg-2"})
    signers = Identity.from_bytes(bytes.fromhex(entry["secret"])), Identity.from_bytes(b"\5" * 32)
    sets = [key.sign(each.label, each) for key, each in zip(signers, (own, other), strict=True)]
    return candidates_of(statement("proved round descriptor"), sets).hash


def _row(f: Any) -> bytes:
    said = f.content
    kind = budget_ledger.Kind(said["kind"])
    draft = budget_ledger.Draft(kind, said["actor"], said["payload"], said["first"], said["count"])
    start, time = bytes.fromhex(said["previous"]), statement("token renewal").made
    return next(iter(budget_ledger.chain([draft], said["seq"] - 1, start, time))).hash


def _dataset_row(f: Any) -> bytes:
    said = f.content
    start, kind = bytes.fromhex(said["previous"]), budget_ledger.EventKind(said["kind"])
    of, time = (said["dataset"], said["job"], said["payload"]), statement("token renewal").made
    return budget_ledger.following(said["seq"] - 1, start, kind, *of, time).hash


def _disclosure(f: Any) -> str:
    budget_ledger.reopened(f.value, f.salt + f.text)
    return str(f.value)


def _digest(model: type[WireModel]) -> Callable[[Any], bytes]:
    return lambda f: read(model, f.content).digest()


def _derive(f: Any) -> bytes:
    return StorageKey(f.secret).derive(f.purpose)


def _parts(f: Any) -> tuple[messages.ProvedPart, ...]:
    return tuple(read(messages.ProvedPart, each) for each in json.loads(f.parts))


VALUES: Final[dict[str, Callable[[Any], bytes | str]]] = {
    "API token": lambda f: hash_token(f.token),
    "anchors line": lambda f: anchors_line(
        f.deployment, f.coordinator, {f.id_1: f.fingerprint_1, f.id_2: f.fingerprint_2}
    ),
    "candidates": _candidates,
    "content hash": lambda f: StorageKey(b"\x11" * 32).keyed_hash(CONTENT, f.digest),
    "curator's ledger, row": lambda f: ledger_statement._next(
        f.previous, [getattr(f, column.name) for column in _HASHED]
    ),
    "curator's ledger, start": lambda _: ledger_statement.START,
    "dataset ledger, row": _dataset_row,
    "dataset ledger, start": lambda f: budget_ledger.dataset_genesis(f.ledger),
    "disclosure": _disclosure,
    "fingerprint": lambda f: fingerprint(f.public_key),
    "grant": lambda f: enrolment.grant_hash(f.secret),
    "identity fingerprint": lambda f: read(ids.IdentityDocument, f.content).fingerprint,
    "job step digest": _digest(federation.FederatedStep),
    "ledger, row": _row,
    "ledger, start": lambda _: budget_ledger.GENESIS,
    "manifest": lambda f: agreement.manifest_hash_of(
        f.round,
        f.descriptor,
        list(f.quorum),
        int.from_bytes(f.participants, "big"),
        list(f.contributions),
        f.members_hash,
    ),
    "manifest salt": lambda f: salt_of(
        SimpleNamespace(salt_key=f.key),  # type: ignore[arg-type]
        statement("round descriptor"),
    ),
    "members": lambda f: agreement.members_hash(f.salt, f.members),
    "members of a proved round": lambda f: agreement.members_hash(f.salt, f.members, _parts(f)),
    "next identity": lambda f: ids.commitment(
        HybridPublicKey(ed25519=f.ed25519, mldsa65=f.mldsa65)
    ),
    "partial sum": lambda f: opening.commitment_hash(
        f.descriptor, f.manifest, f.aggregator, f.nonce, f.partial_sum
    ),
    "proof context": lambda f: pieces.proof_context(f.descriptor),
    "query digest": _digest(Query),
    "report descriptor digest": _digest(federation.Descriptor),
    "round descriptor digest": _digest(descriptor.RoundDescriptor),
    "seal key": lambda f: key_hash(f.public_key),
    "seed of a piece": lambda f: randomness.SecureRandom.from_fresh_seed(f.key).bytes(32),
    "seed stream": lambda _: randomness.SecureRandom.from_secret_seed(b"\x11" * 32, "noise").bytes(
        32
    ),
    "seed stream's key": lambda f: randomness._seed_keys(f.secret, f.stream.encode())(0),
    "session info": lambda f: sha256(
        signed_bytes(sealing_sessions.SESSION_LABEL, read(sealing_sessions.Session, f.content))
    ).digest(),
    "session key": lambda f: sealing_sessions.session_key(f.secret, statement("session")),
    f"storage key: hash {CONTENT}": lambda f: StorageKey(f.secret).content_key(CONTENT),
    "storage key: job blocks attempt-1": _derive,
    f"storage key: {evaluation_purpose('job-1')}": _derive,
    f"storage key: {seed_purpose('job-1')}": _derive,
    "transcript digest": _digest(messages.Transcript),
    "universe": lambda f: federation.universe_hash(json.loads(f.items)),
    "verifier shares' key": lambda f: shares.chunk_key(f.secret, f.descriptor, f.aggregator),
    "verify key": lambda f: shares.verify_key_of(f.descriptor, [f.share_0, f.share_1]),
    "verify key check": lambda f: shares.key_check_of(f.descriptor, f.verify_key),
    "verify key share": lambda f: shares.key_share(f.secret, f.descriptor, f.aggregator),
}
