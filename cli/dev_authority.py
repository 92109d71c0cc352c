"""A certificate authority for trials: one key, and a certificate for each service.

Nobody but the trial's own services should trust it. A deployment takes certificates of an authority
that its operators run or buy.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CLOCKS_DIFFER = timedelta(minutes=5)


@dataclass(frozen=True)
class Authority:
    """A self-signed authority, and how it signs."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def make(cls, name: str, days: int) -> Authority:
        """A new one."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = (
            _builder(subject, subject, key.public_key(), datetime.now(UTC), days)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
        )
        return cls(builder.sign(key, hashes.SHA256()), key)

    @classmethod
    def load(cls, directory: Path) -> Authority:
        """The one in `authority.pem` and `authority.key`."""
        certificate = x509.load_pem_x509_certificate((directory / "authority.pem").read_bytes())
        key = load_pem_private_key((directory / "authority.key").read_bytes(), None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("authority.key is not a key that this command made")
        return cls(certificate, key)

    def save(self, directory: Path) -> None:
        """Write both files."""
        _write(directory / "authority.pem", self.certificate.public_bytes(Encoding.PEM), 0o644)
        _write(directory / "authority.key", _pem(self.key), 0o600)

    def issue(
        self,
        hosts: Sequence[str],
        days: int,
        starts: datetime | None = None,
    ) -> tuple[bytes, bytes]:
        """PEM of a certificate and of its key, for a service at these names and addresses.

        It may be shown to callers and to those who are called.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0][:64])])
        issuer = self.certificate.subject
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = (
            _builder(subject, issuer, key.public_key(), starts or datetime.now(UTC), days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(both), critical=False)
            .add_extension(
                x509.SubjectAlternativeName([_name(host) for host in hosts]), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()),
                critical=False,
            )
        )
        certificate = builder.sign(self.key, hashes.SHA256())
        return certificate.public_bytes(Encoding.PEM), _pem(key)


def prepare(directory: Path, hosts: Sequence[Sequence[str]], days: int) -> list[Path]:
    """An authority in `directory` (kept if there), and for each service, known by its first name,
    `<name>.pem` and `<name>.key`; the certificates' paths."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (directory / "authority.key").exists():
        authority = Authority.load(directory)
    else:
        authority = Authority.make("Tacit trial authority", 3650)
        authority.save(directory)
    made = []
    for names in hosts:
        certificate, key = authority.issue(names, days)
        path = directory / f"{names[0]}.pem"
        _write(directory / f"{names[0]}.key", key, 0o600)
        _write(path, certificate, 0o644)
        made.append(path)
    return made


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    starts: datetime,
    days: int,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(starts - CLOCKS_DIFFER)
        .not_valid_after(starts + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _write(path: Path, content: bytes, mode: int) -> None:
    """In one step, so that who reads it meanwhile sees the old file or the new one."""
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)
    part.replace(path)
