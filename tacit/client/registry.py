"""Calls about participants: aggregators, grants, parties, the roster, tokens.

Coordinator, but for `enrol` (curator service); parties and tokens are lists of both, and `grant` is
requested from the coordinator and from every aggregator, each by its own operator.
"""

from __future__ import annotations

from typing import Any

from tacit import answers
from tacit.answers.base import Answer, MadeToken, Token
from tacit.client.exchange import (
    A,
    C,
    Group,
    Json,
    Request,
    Steps,
    Stream,
    answer_of,
    get,
    items_of,
    json_of,
    operation,
    pages_of,
    repeatable,
    stream,
)


def _aggregators(*, health: bool = False) -> Stream[answers.registry.PairedAggregator]:
    """The paired aggregators; `health`: also whether they answer (operators)."""
    return pages_of(
        answers.registry.PairedAggregator,
        "/v1/aggregators",
        "aggregators",
        {"health": "true" if health else None},
    )


def _pair_aggregator(
    url: str, token: str, fingerprint: str
) -> Steps[answers.registry.PairedAggregator]:
    """Pair an aggregator: its address, the token that it issued, its fingerprint (base64url)."""
    body = {"url": url, "token": token, "fingerprint": fingerprint}
    return _posted(answers.registry.PairedAggregator, "/v1/aggregators", body)


def _unpair_aggregator(aggregator: str) -> Steps[None]:
    """Unpair an aggregator."""
    yield Request("DELETE", f"/v1/aggregators/{aggregator}")


def _grant(
    party: str, kind: str = "curator", max_curators: int = 1, **options: Any
) -> Steps[Answer]:
    """A one-time secret with which a curator or host can enrol (`valid_s`: seconds)."""
    body = {"party": party, "kind": kind, "max_curators": max_curators, **options}
    return _posted(Answer, "/v1/grants", body)


def _enrol(
    join_token: str, curators: list[str] | None = None
) -> Steps[answers.curator.HostedParty]:
    """Enrol a curator, or a host with its curators, at a curator service; safe to repeat."""
    body: Json = {"token": join_token}
    if curators is not None:
        body["curators"] = curators
    return answer_of(answers.curator.HostedParty, repeatable("POST", "/v1/enrolments", body))


def _grants() -> Steps[list[answers.registry.OpenGrant]]:
    """The coordinator's grants that are neither used nor expired, without their secrets."""
    return items_of(answers.registry.OpenGrant, get("/v1/grants"), "grants")


def _withdraw_grant(grant_id: str) -> Steps[None]:
    """Withdraw a grant that is not used yet."""
    yield Request("DELETE", f"/v1/grants/{grant_id}")


def _parties(*, prefix: str | None = None) -> Stream[Answer]:
    """Curators and hosts; `prefix`: only those whose id begins so (coordinator)."""
    return pages_of(Answer, "/v1/parties", "parties", {"prefix": prefix})


def _console_code(valid_s: int | None = None) -> Steps[answers.registry.SignInCode]:
    """A code that signs in one browser to the console, valid for a minute or `valid_s` seconds."""
    params = None if valid_s is None else {"valid_s": valid_s}
    request = Request("POST", "/v1/console/codes", {}, params=params)
    return answer_of(answers.registry.SignInCode, request)


def _remove_party(party: str) -> Steps[None]:
    """A party leaves."""
    yield Request("DELETE", f"/v1/parties/{party}")


def _return_party(party: str) -> Steps[answers.registry.ReturnedParty]:
    """A party that left is back; its new token is shown once."""
    return _posted(answers.registry.ReturnedParty, f"/v1/parties/{party}/return", None)


def _create_group(
    name: str, curators: list[str], *, parent: str | None = None
) -> Steps[answers.registry.Group]:
    """Declare a group of curators; it is never changed, and the same content is the same group."""
    body: Json = {"name": name, "curators": curators}
    if parent is not None:
        body["parent"] = parent
    return answer_of(answers.registry.Group, repeatable("POST", "/v1/groups", body))


def _groups() -> Stream[answers.registry.Group]:
    """All groups, by name."""
    return pages_of(answers.registry.Group, "/v1/groups", "groups")


def _group(name: str) -> Steps[answers.registry.Group]:
    """One group, without its curators."""
    return answer_of(answers.registry.Group, get(f"/v1/groups/{name}"))


def _group_curators(name: str) -> Stream[answers.registry.GroupCurator]:
    """The curators of a group, by number."""
    return pages_of(answers.registry.GroupCurator, f"/v1/groups/{name}/curators", "curators")


def _create_token(
    scope: str, *, subject: str | None = None, label: str = "", valid_s: int | None = None
) -> Steps[MadeToken]:
    """A new API token, shown once. `subject`: the curator of a device's or curator's token."""
    body: Json = {"scope": scope, "label": label}
    if subject is not None:
        body["subject"] = subject
    if valid_s is not None:
        body["valid_s"] = valid_s
    return _posted(MadeToken, "/v1/tokens", body)


def _tokens() -> Stream[Token]:
    """Tokens, without their secrets."""
    return pages_of(Token, "/v1/tokens", "tokens")


def _revoke_token(token_id: str) -> Steps[None]:
    """Revoke a token."""
    yield Request("DELETE", f"/v1/tokens/{token_id}")


def _end_tokens() -> Steps[answers.registry.EndedTokens]:
    """Revoke every token of a service except the caller's, after a theft; parties and a
    coordinator renew theirs."""
    return answer_of(answers.registry.EndedTokens, Request("POST", "/v1/tokens/end"))


def _storage_key() -> Steps[answers.registry.StorageKeyState]:
    """Which storage key the coordinator uses, and the progress of a rotation."""
    return answer_of(answers.registry.StorageKeyState, get("/v1/storage-key"))


def _rotate_storage_key(key: str) -> Steps[answers.registry.StorageKeyState]:
    """Encrypt all that the coordinator stores with a new key: 32 bytes in base64url."""
    return answer_of(
        answers.registry.StorageKeyState, Request("PUT", "/v1/storage-key", {"key": key})
    )


def _rotate_seal_key(*, destroy: bool = False) -> Steps[answers.registry.RotatedSealKey]:
    """Make a new seal key (at an aggregator); `destroy`: the old keys are destroyed now, which
    ends the rounds that name them."""
    return _posted(answers.registry.RotatedSealKey, "/v1/seal-keys/rotation", {"destroy": destroy})


def _commit_next_key(key: Json) -> Steps[Answer]:
    """Commit to the next pair of keys: its public halves (asked of a coordinator or aggregator)."""
    return answer_of(Answer, Request("PUT", "/v1/identity/next", key))


def _rotate_identity(
    secret: str, following: Json, *, compromised: bool = False, overlap_s: int = 604_800
) -> Steps[Answer]:
    """Replace the identity by the pair of `secret`; `following`: the public halves of the pair
    after it (asked of a coordinator or aggregator). The same request again changes nothing."""
    body = {
        "secret": secret,
        "following": following,
        "compromised": compromised,
        "overlap_s": overlap_s,
    }
    return answer_of(Answer, repeatable("POST", "/v1/identity/successor", body))


def _revoke_identity(secret: str, *, compromised: bool = False) -> Steps[Answer]:
    """End the identity without a successor, by the pair of `secret` (asked of a coordinator or
    aggregator). The same request again changes nothing."""
    body = {"secret": secret, "compromised": compromised}
    return answer_of(Answer, repeatable("POST", "/v1/identity/revocation", body))


def _confirm_identity(
    aggregator: str, fingerprint: str
) -> Steps[answers.registry.PairedAggregator]:
    """Confirm an aggregator's new identity by its document's fingerprint (base64url), compared out
    of band."""
    body = {"fingerprint": fingerprint}
    return answer_of(
        answers.registry.PairedAggregator,
        repeatable("POST", f"/v1/aggregators/{aggregator}/confirmation", body),
    )


def _confirm_peer(aggregator: str, fingerprint: str) -> Steps[Answer]:
    """The same, of a pinned aggregator (asked of an aggregator)."""
    body = {"fingerprint": fingerprint}
    return answer_of(Answer, repeatable("POST", f"/v1/peers/{aggregator}/confirmation", body))


def _confirm_coordinator(fingerprint: str) -> Steps[Answer]:
    """The same, of the paired coordinator (asked of an aggregator)."""
    return answer_of(
        Answer, repeatable("POST", "/v1/coordinator/confirmation", {"fingerprint": fingerprint})
    )


def _rotate_parties(
    parties: list[str] | None = None, *, overlap_s: int = 604_800
) -> Steps[answers.curator.ReplacementsBegun]:
    """Replace the identities of some parties, or of all (asked of a curator service)."""
    body: Json = {"overlap_s": overlap_s}
    if parties is not None:
        body["parties"] = parties
    return answer_of(
        answers.curator.ReplacementsBegun, repeatable("POST", "/v1/parties/identities", body)
    )


def _waiting_parties() -> Steps[list[answers.curator.WaitingReplacement]]:
    """Parties whose next identity some of their services do not know yet (at a curator service)."""
    return items_of(answers.curator.WaitingReplacement, get("/v1/parties/identities"), "waiting")


def _enrol_again(party: str, join_token: str) -> Steps[answers.curator.HostedParty]:
    """Replace a stolen identity with a join token whose grants replace it (asked of a curator
    service)."""
    return answer_of(
        answers.curator.HostedParty,
        Request("PUT", f"/v1/parties/{party}/identity", {"token": join_token}),
    )


def _anchors() -> Steps[Answer]:
    """The services as the parties of a curator service know them (asked of a curator service)."""
    return answer_of(Answer, get("/v1/anchors"))


def _confirm_anchor(name: str, fingerprint: str) -> Steps[Answer]:
    """Confirm a service's new identity by its document's fingerprint (base64url), compared out of
    band (asked of a curator service)."""
    body = {"fingerprint": fingerprint}
    return answer_of(Answer, repeatable("POST", f"/v1/anchors/{name}/confirmation", body))


def _drop_anchor(name: str) -> Steps[None]:
    """Forget an aggregator: no party participates in its rounds any more (at a curator
    service)."""
    yield Request("DELETE", f"/v1/anchors/{name}")


def _followed_identity(aggregator: str) -> Steps[Json]:
    """The chain of an aggregator's identities, as the coordinator last followed it."""
    return json_of(get(f"/v1/aggregators/{aggregator}/identity"))


def _show_identity(aggregator: str, chain: Json) -> Steps[None]:
    """Show a coordinator the chain of identities of an aggregator that no longer exists."""
    yield Request("PUT", f"/v1/aggregators/{aggregator}/identity", chain)


def _show_peer(aggregator: str, chain: Json) -> Steps[None]:
    """The same, of a pinned aggregator (shown to an aggregator)."""
    yield Request("PUT", f"/v1/peers/{aggregator}/identity", chain)


def _show_coordinator(chain: Json) -> Steps[None]:
    """The same, of the paired coordinator (shown to an aggregator)."""
    yield Request("PUT", "/v1/coordinator/identity", chain)


def _show_anchor(name: str, chain: Json) -> Steps[None]:
    """Show a curator service the chain of identities of an aggregator or a coordinator that no
    longer exists."""
    yield Request("PUT", f"/v1/anchors/{name}/identity", chain)


def _followed_coordinator() -> Steps[Json]:
    """The chain of the coordinator's identities, as an aggregator last followed it."""
    return json_of(get("/v1/coordinator/identity"))


def _identity() -> Steps[answers.registry.CoordinatorIdentity]:
    """Who the coordinator says it is: deployment, identity key, fingerprint."""
    return answer_of(answers.registry.CoordinatorIdentity, get("/.well-known/tacit-coordinator"))


def _identity_chain() -> Steps[Json]:
    """The chain of the coordinator's identities: documents, and the links between them."""
    return json_of(get("/.well-known/tacit-coordinator/identity"))


def _well_known_aggregator() -> Steps[answers.registry.AggregatorIdentity]:
    """Who an aggregator says it is (asked of the aggregator)."""
    return answer_of(answers.registry.AggregatorIdentity, get("/.well-known/tacit-aggregator"))


def _posted(kind: type[A], path: str, body: object) -> Steps[A]:
    """A POST that must not be repeated: a token or a grant is shown once, and a retry would make
    a second one."""
    return answer_of(kind, Request("POST", path, body))


class Aggregators(Group[C]):
    """The aggregators of a coordinator."""

    list = stream(_aggregators)
    pair = operation(_pair_aggregator)
    unpair = operation(_unpair_aggregator)


class Keys(Group[C]):
    """A service's own keys: storage, sealing, identity."""

    identity = operation(_identity)
    identity_chain = operation(_identity_chain)
    aggregator_identity = operation(_well_known_aggregator)
    storage_key = operation(_storage_key)
    rotate_storage_key = operation(_rotate_storage_key)
    rotate_seal_key = operation(_rotate_seal_key)
    commit_next = operation(_commit_next_key)
    rotate_identity = operation(_rotate_identity)
    revoke_identity = operation(_revoke_identity)


class Trust(Group[C]):
    """Identities of others that a service follows, and their confirmation."""

    aggregator = operation(_followed_identity)
    confirm_aggregator = operation(_confirm_identity)
    confirm_peer = operation(_confirm_peer)
    confirm_coordinator = operation(_confirm_coordinator)
    coordinator = operation(_followed_coordinator)
    show_aggregator = operation(_show_identity)
    show_peer = operation(_show_peer)
    show_coordinator = operation(_show_coordinator)
    show_anchor = operation(_show_anchor)
    anchors = operation(_anchors)
    confirm_anchor = operation(_confirm_anchor)
    drop_anchor = operation(_drop_anchor)


class Parties(Group[C]):
    """Parties of a coordinator or curator service: invitations, enrolment, new identities."""

    grant = operation(_grant)
    list_grants = operation(_grants)
    withdraw_grant = operation(_withdraw_grant)
    enrol = operation(_enrol)
    list = stream(_parties)
    remove = operation(_remove_party)
    restore = operation(_return_party)
    rotate = operation(_rotate_parties)
    waiting = operation(_waiting_parties)
    enrol_again = operation(_enrol_again)


class Tokens(Group[C]):
    """Access to a service."""

    sign_in_code = operation(_console_code)
    create = operation(_create_token)
    list = stream(_tokens)
    revoke = operation(_revoke_token)
    end = operation(_end_tokens)


class Groups(Group[C]):
    """Named groups of curators."""

    create = operation(_create_group)
    list = stream(_groups)
    get = operation(_group)
    curators = stream(_group_curators)
