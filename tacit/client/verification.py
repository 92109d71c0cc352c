"""Checks of what services published, by the caller: a round's transcript, seals, an answer of one's
own."""

from __future__ import annotations

import json

from tacit.client.exchange import Json, Steps, content_of, get, json_of
from tacit.crypto.signing import SignatureBroken, Signed, fingerprint, signer_of, verify
from tacit.protocol.identities import IdentityChain
from tacit.protocol.round.descriptor import DESCRIPTOR_LABEL, RoundDescriptor
from tacit.protocol.round.messages import Transcript
from tacit.protocol.round.opening import check_transcript
from tacit.protocol.trust import Anchors, ShownSeal, Trust, check_seal
from tacit.query.functions import decode
from tacit.report.validity import validity_statement, with_shares
from tacit.wire import encode_binary, parse_binary


def verify_round(round_id: str, trust: Trust | None) -> Steps[Json]:
    """A round's transcript recombined and compared, as `Client.verify` returns it."""
    identity = yield from json_of(get("/.well-known/tacit-coordinator"))
    content = yield from content_of(f"/v1/rounds/{round_id}/transcript")
    transcript = Transcript.model_validate_json(content)
    newest = parse_binary(identity["identity_key"])
    signer = yield from _signer(transcript.descriptor, newest)
    checked = check_transcript(transcript, signer, trust)
    descriptor = transcript.descriptor.statement
    if descriptor.round != round_id:
        raise ValueError("the transcript is that of another round")
    query = descriptor.query
    recombined = decode(query, checked.total)
    published = yield from json_of(get(f"/v1/rounds/{round_id}/result"))
    sealed = yield from _checked_seals(round_id, transcript)
    validity = with_shares(validity_statement(query), query, checked.total)
    return {
        "round": round_id,
        "result": recombined,
        "matches": recombined == published["result"],
        "anchored": checked.anchored,
        "unknown_operators": list(checked.unknown_operators),
        "participants": transcript.participants,
        "aggregators": [reveal.aggregator for reveal in transcript.reveals],
        "coordinator_fingerprint": fingerprint(signer).hex(),
        "sealed_by": sealed,
        "validity": validity.model_dump(mode="json"),
    }


def _signer(descriptor: Signed[RoundDescriptor], newest: bytes) -> Steps[bytes]:
    """Which key of the coordinator signed: the current one, or one that it replaced."""
    try:
        verify(DESCRIPTOR_LABEL, descriptor, newest)
    except SignatureBroken:
        shown = yield from json_of(get("/.well-known/tacit-coordinator/identity"))
        documents = IdentityChain.model_validate_json(json.dumps(shown)).documents
        keys = [newest, *(document.statement.ed25519 for document in documents)]
        return signer_of(DESCRIPTOR_LABEL, descriptor, keys)
    return newest


def _checked_seals(round_id: str, transcript: Transcript) -> Steps[dict[str, str]]:
    """Aggregators that sealed a transcript, with the fingerprint of the document of each. Raises
    SealRefused for an invalid seal."""
    answer = yield from json_of(get(f"/v1/rounds/{round_id}/seals"))
    seals = [ShownSeal.model_validate_json(json.dumps(document)) for document in answer["seals"]]
    return {seal.aggregator: check_seal(transcript, seal).hex() for seal in seals}


def check_answer(place: str, round_id: str) -> Steps[Json]:
    """The sum of a round that a curator answered, recombined from its service's documents at
    `place`, as `Client.check_answer` returns it."""
    anchors = Anchors.model_validate_json((yield from content_of(f"{place}/anchors")))
    content = yield from content_of(f"{place}/transcript")
    transcript = Transcript.model_validate_json(content)
    descriptor = transcript.descriptor.statement
    checks = {
        "round": round_id,
        "answered": encode_binary(anchors.descriptor_hash),
        "published": encode_binary(descriptor.digest()),
    }
    if checks["answered"] != checks["published"]:
        return checks | {"same_round": False}
    checked = check_transcript(transcript, anchors.coordinator_key, anchors.trust)
    return checks | {
        "same_round": True,
        "result": decode(descriptor.query, checked.total),
        "participants": transcript.participants,
        "aggregators": [reveal.aggregator for reveal in transcript.reveals],
    }
