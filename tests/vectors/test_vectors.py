"""The promise of docs/how-to/upgrade.md: bytes that are signed, hashed or sealed are those
of the files here. Each is made again by the product's functions, and by hand as the pages say.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519, mldsa, mlkem, x25519
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, MLKEM768X25519PrivateKey, Suite
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from pydantic import BaseModel

from cli.audit import Service, _checkpoint
from cli.services.archive import Manifest
from cli.services.sealed_files import private_key
from curator.mqtt.mapping import Mapping
from tacit.answers.jobs import Evaluation, JobResult
from tacit.answers.queries import RoundResult
from tacit.encoders.crowd_tasking import resume
from tacit.errors import DomainError
from tacit.paths import published
from tacit.protocol.enrolment import JoinToken
from tacit.protocol.trust import Trust
from tacit.report.model import PrivacyReport
from tacit.wire import parse_binary
from tests.vectors.examples import (
    FILES,
    HERE,
    SIGNED,
    VALUES,
    signed,
    statement,
    value,
    verified,
)
from tests.vectors.sealed import SEALED

ROOT = HERE.parents[1]


def altered(text: bytes, place: int) -> bytes:
    changed = bytearray(text)
    changed[place] ^= 1
    return bytes(changed)


# --- as the product makes and reads them ---------------------------------------------------------


@pytest.mark.parametrize("name", SIGNED)
def test_a_signature_is_for_its_statement_alone(name: str) -> None:
    entry, said, label = FILES["signed"][name], statement(name), SIGNED[name][0]
    assert (said.canonical(), label) == (canonical(entry["statement"]), entry["label"])
    signature = parse_binary(entry["signature"])
    assert signed(name).signature[:64] == signature[:64]  # Ed25519 draws nothing
    assert verified(name, label, said, signature)
    assert not verified(name, label + "1", said, signature)
    for place in (0, -1):
        assert not verified(name, label, said, altered(signature, place))


@pytest.mark.parametrize("name", VALUES)
def test_a_value_is_made_of_its_inputs(name: str) -> None:
    entry = {**FILES["hashed"], **FILES["derived"]}[name]
    assert value(name, entry) == entry["value"]


@pytest.mark.parametrize("name", SEALED)
def test_a_sealed_body_opens_unless_a_bit_is_flipped(name: str) -> None:
    (_, opens), entry = SEALED[name], FILES["sealed"][name]
    body = bytes.fromhex(entry["body"])
    assert opens(body) == bytes.fromhex(entry["plaintext"])
    for place in (0, -1):
        with pytest.raises((ValueError, DomainError)):
            opens(altered(body, place))


READ: dict[str, type[BaseModel]] = {
    "evaluation": Evaluation,
    "manifest of a backup": Manifest,
    "mapping of topics": Mapping,
    "privacy report": PrivacyReport,
    "result of a job": JobResult,
    "result of a round": RoundResult,
    "trust file": Trust,
}


@pytest.mark.parametrize("name", FILES["written"])
def test_a_document_of_the_file_is_read(name: str, tmp_path: Path) -> None:
    """What is read is written again as it was, without what was left out."""
    entry = FILES["written"][name]
    path = tmp_path / "file"
    content: Any = entry.get("document")
    if name == "join token":
        token = JoinToken.from_text(entry["text"])
        assert (token.to_text(), json.loads(token.canonical())) == (entry["text"], content)
    elif name == "recipient's key":
        path.write_text(entry["text"])
        assert private_key(path).public.hash.hex() == entry["public_key_hash"]
    elif name == "checkpoint kept elsewhere":
        path.write_text(json.dumps(content))
        kept = _checkpoint(path, Service.COORDINATOR)
        assert kept == {"seq": content["rows"], "head": content["head"]}
    elif name == "state of a crowd-tasking device":
        assert resume(entry["text"].encode(), "task-1").to_bytes() == entry["text"].encode()
    elif name.startswith("published"):
        assert published.document(published.read(json.dumps(content))) == content
    else:
        made = READ[name].model_validate_json(json.dumps(content))
        assert json.loads(made.model_dump_json(exclude_unset=True)) == content


# --- by hand, from what the files say ------------------------------------------------------------


def canonical(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def prefixed(*fields: bytes) -> bytes:
    return b"".join(len(each).to_bytes(4, "big") + each for each in fields)


def hkdf(secret: bytes, salt: bytes, info: bytes) -> bytes:
    """RFC 5869, one block."""
    return hmac.digest(hmac.digest(salt, secret, "sha256"), info + b"\1", "sha256")


def sha256(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()


def keystream(key: bytes) -> bytes:
    return Cipher(AES(key), CTR(bytes(16))).encryptor().update(bytes(32))


RULES: dict[str, Callable[..., bytes]] = {
    "fields": lambda *f: b"".join(f),
    "SHA-256(fields | content)": lambda *f: sha256(b"".join(f)),
    "SHA-256(prefixed(fields))": lambda *f: sha256(prefixed(*f)),
    "first 16 bytes, SHA-256(prefixed(fields))": lambda *f: sha256(prefixed(*f))[:16],
    "HMAC-SHA256(key, the other fields)": lambda k, *f: hmac.digest(k, b"".join(f), "sha256"),
    "HKDF-SHA256(secret, salt, info = the other fields)": lambda s, t, *f: hkdf(s, t, b"".join(f)),
    "HKDF-SHA256(secret, salt, info = prefixed(the other fields))": lambda s, t, *f: hkdf(
        s, t, prefixed(*f)
    ),
    "AES-256-CTR(key, zeros)": keystream,
}


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(entry, id=name)
        for file in ("hashed", "derived")
        for name, entry in FILES[file].items()
    ],
)
def test_a_value_is_what_its_rule_gives(entry: dict[str, Any]) -> None:
    fields = [
        each.encode() if kind == "text" else bytes.fromhex(each)
        for _, kind, each in entry["fields"]
    ]
    if "content" in entry:
        fields.append(canonical(entry["content"]))
    assert RULES[entry["rule"]](*fields) == bytes.fromhex(entry["value"])


@pytest.mark.parametrize("name", FILES["signed"])
def test_a_signature_is_over_label_zero_and_canonical_form(name: str) -> None:
    entry = FILES["signed"][name]
    secret, label = bytes.fromhex(entry["secret"]), entry["label"].encode()
    message = label + b"\0" + canonical(entry["statement"])
    text = entry["signature"]
    signature = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    classical = ed25519.Ed25519PrivateKey.from_private_bytes(secret[:32])
    assert classical.sign(message) == signature[:64]
    if secret[32:]:
        lasting = mldsa.MLDSA65PrivateKey.from_seed_bytes(secret[32:]).public_key()
        lasting.verify(signature[64:], message, context=label)
    assert len(signature) == (64 + 3309 if secret[32:] else 64)


def hpke(seed: bytes, sealed: bytes, info: bytes) -> bytes:
    expanded = hashlib.shake_256(seed).digest(96)
    halves = (
        mlkem.MLKEM768PrivateKey.from_seed_bytes(expanded[:64]),
        x25519.X25519PrivateKey.from_private_bytes(expanded[64:]),
    )
    suite = Suite(KEM.MLKEM768_X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)
    return suite.decrypt(sealed, MLKEM768X25519PrivateKey(*halves), info)


def backup(entry: dict[str, Any], body: bytes) -> bytes:
    """Magic 15, kind 1, salt 32, length 2, wrapped key, and here one chunk."""
    magic, kind, salt, end = body[:15], body[15:16], body[16:48], 50 + int.from_bytes(body[48:50])
    wrapped = body[50:end]
    if kind == b"x":
        key = hpke(bytes.fromhex(entry["seed"]), wrapped, magic + salt)
    else:
        derived = Scrypt(salt, 32, n=2**17, r=8, p=1).derive(entry["passphrase"].encode())
        key = AESGCM(derived).decrypt(wrapped[:12], wrapped[12:], magic)
    content = AESGCM(hkdf(key, sha256(body[:end]), magic))
    return content.decrypt(bytes(11) + b"\1", body[end:], None)


@pytest.mark.parametrize("name", FILES["sealed"])
def test_a_body_opens_as_the_pages_say(name: str) -> None:
    entry = FILES["sealed"][name]
    body = bytes.fromhex(entry["body"])

    def at(place: str | list[int]) -> bytes:
        return bytes.fromhex(place) if isinstance(place, str) else body[slice(*place)]

    if name.startswith("backup"):
        found = backup(entry, body)
    elif "info" in entry:
        info, rest = at(entry["info"]), body[1168:]
        found = hpke(at(entry["seed"]), body[:1168], info)
        if name == "sealed path":
            padded = ChaCha20Poly1305(found).decrypt(rest[:12], rest[12:], info)
            text = padded[8:].rstrip(b"\0")
            assert (len(padded), padded[:8]) == (1024, len(text).to_bytes(8))
            found = "".join(json.loads(text)).encode()
    else:
        if "salt" in entry:  # a file of the storage key
            key = hkdf(at(entry["storage_key"]), at(entry["salt"]), entry["purpose"].encode())
        else:
            key = at(entry["key"])
        sealed = body[entry["ciphertext"] :]
        found = AESGCM(key).decrypt(at(entry["nonce"]), sealed, at(entry["aad"]))
    assert found == bytes.fromhex(entry["plaintext"])


# --- nothing is missing --------------------------------------------------------------------------


LOCAL = {
    "tacit.dead-letter/1",
    "tacit.deployment/1",
    "tacit.reproduction/1",
    "tacit.simulation-liars/1",
    "tacit.simulation/1",
    "tacit.soak/1",
}
"""Of messages to people, and of files that one command writes for itself: none is signed, hashed or
sealed, and none goes to another party."""


def test_every_entry_is_one_that_the_product_makes() -> None:
    assert set(FILES["signed"]) == set(SIGNED)
    assert set(FILES["hashed"]) | set(FILES["derived"]) == set(VALUES)
    assert set(FILES["sealed"]) == set(SEALED)


def test_every_label_and_every_format_of_the_product_is_in_a_file() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--", "*.py", ":!tests", ":!bench"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    text = "".join((ROOT / name).read_text("utf-8") for name in listed.stdout.splitlines())
    labels = set(re.findall(r"tacit [a-z -]+ v1", text))
    formats = set(re.findall(r'"(tacit\.[a-z-]+/1)"', text)) - LOCAL
    assert len(labels) > 30
    assert len(formats) > 20
    shown = "".join((HERE / f"{name}.json").read_text("utf-8") for name in FILES)
    assert [each for each in sorted(labels | formats) if f'"{each}' not in shown] == []


def test_the_worked_example_of_keys_is_that_of_the_file() -> None:
    page = (ROOT / "docs/spec/keys.md").read_text("utf-8")
    assert all(FILES["hashed"][name]["value"] in page for name in ("members", "manifest"))


def test_the_page_of_every_entry_has_its_section() -> None:
    folders = ("how-to", "explanation", "reference", "spec", "algorithms")
    pages = [path for folder in folders for path in (ROOT / "docs" / folder).glob("*.md")]
    headings = {
        page.stem: re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE) for page in pages
    }
    for name in {entry["page"] for file in FILES.values() for entry in file.values()}:
        page, _, section = name.partition(", ")
        number = section.removeprefix("section ")
        begins = re.escape(number) + (r"\.? " if number != section else "$")
        assert any(re.match(begins, heading) for heading in headings[page]), name
