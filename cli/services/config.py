"""`tacit config`: whether a service would start with these settings; files for docker-compose.yml,
and a certificate authority for trials.

Only the services of a trial should trust that authority. A real deployment needs certificates of an
authority that its operators run or buy.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import secrets
import shutil
import ssl
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib import import_module
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Final, Literal

import typer
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
from pydantic import ValidationError
from pydantic_settings.exceptions import SettingsError

from cli.context import Answer, TextTable, console, plain_errors, printed, say
from cli.services.up import settings_type
from common.runtime.settings import ServiceSettings
from common.runtime.tls import TlsSettings, expiry

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
        """PEM of a certificate and of its key, for a service at these names and addresses. It
        can identify a server and a client."""
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
    """An authority in `directory` (an existing one is kept), and for each service, identified by
    its first name, `<name>.pem` and `<name>.key`; the certificates' paths."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (directory / "authority.key").exists():
        authority = Authority.load(directory)
    else:
        authority = Authority.make("Tacit trial authority", 3650)
        authority.save(directory)
    written = []
    for names in hosts:
        certificate, key = authority.issue(names, days)
        path = directory / f"{names[0]}.pem"
        _write(directory / f"{names[0]}.key", key, 0o600)
        _write(path, certificate, 0o644)
        written.append(path)
    return written


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
    """Write in one step, so that a reader sees the old file or the new one."""
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)
    part.replace(path)


# The files that docker-compose.yml reads and no repository may have: `.env` and secrets. Existing
# files are kept, deleted ones are made again. The files are readable by all, but only the owner can
# enter `deploy/secrets`: each is mounted into a container of another user.

SERVICES: Final = ("coordinator", "aggregator_a", "aggregator_b", "aggregator_c", "curator")
BROKER_NAMES: Final = ("mosquitto", "localhost", "127.0.0.1")
ITERATIONS: Final = 210_000
DAYS: Final = 825


def write(root: Path) -> list[Path]:
    """Make what is missing under `root`, where docker-compose.yml is; the paths of what was made.

    Raises FileNotFoundError where there is no docker-compose.yml.
    """
    if not (root / "docker-compose.yml").exists():
        raise FileNotFoundError(f"there is no docker-compose.yml in {root}")
    written: list[Path] = []
    if not (root / ".env").exists():
        shutil.copyfile(root / ".env.example", root / ".env")
        written.append(root / ".env")
    directory = root / "deploy" / "secrets"
    directory.mkdir(mode=0o700, exist_ok=True)

    def secret(name: str, content: Callable[[], str]) -> str:
        path = directory / name
        if path.exists():
            return path.read_text("ascii")
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o444)
        os.fchmod(descriptor, 0o444)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(content())
        written.append(path)
        return path.read_text("ascii")

    password = secret("postgres_password", _word)
    for service in SERVICES:
        secret(f"{service}_token", _word)
        database = f"postgresql+asyncpg://tacit:{password}@postgres:5432/tacit_{service}"
        secret(f"{service}_database_url", partial(str, database))
    secret("storage_key", _word)
    secret("grafana_password", _word)
    mqtt = secret("mqtt_password", _word)
    secret("mqtt_passwords", lambda: f"curator:{mosquitto_hash(mqtt)}\n")
    if not (directory / "mqtt" / "mosquitto.pem").exists():
        written += prepare(directory / "mqtt", [BROKER_NAMES], DAYS)
        for path in (directory / "mqtt").iterdir():
            path.chmod(0o600 if path.name == "authority.key" else 0o444)
    return written


def mosquitto_hash(password: str) -> str:
    """A password in the form of a password file of Mosquitto 2: PBKDF2 with SHA-512."""
    salt = secrets.token_bytes(12)
    key = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, ITERATIONS)
    return f"$7${ITERATIONS}${_base64(salt)}${_base64(key)}"


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _word() -> str:
    """256 random bits in base64url without padding: for a token, a password or a key."""
    return secrets.token_urlsafe(32)


app = typer.Typer(no_args_is_help=True, help="Settings of a service.")

SOON = timedelta(days=21)
ELSEWHERE = frozenset({"TACIT_HOME", "TACIT_URL", "TACIT_TOKEN"})
"""Variables of the command line and of tests, which no service reads."""


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    subject: str
    verdict: Literal["ok", "warning", "error"]
    detail: str


@app.command("check")
@printed
def check(
    service: Annotated[str, typer.Argument(help="coordinator, aggregator or curator.")],
) -> Answer:
    """Whether a service would start with the TACIT_... of this environment; exit code 2 if not.

    Nothing is changed: pending migrations are counted, not applied.
    """
    results = list(findings(service))
    rows = [[result.subject, result.verdict, result.detail] for result in results]
    shown = TextTable(f"Settings of {service}", ["", "", ""], rows)
    broken = any(result.verdict == "error" for result in results)
    document = [asdict(result) for result in results]
    return Answer(document, lambda: console.print(shown), 2 if broken else 0)


@app.command("compose")
def compose(
    directory: Annotated[
        Path, typer.Argument(help="Where docker-compose.yml is.", show_default=True)
    ] = Path(),
) -> None:
    """Write `.env` and `deploy/secrets/` for docker-compose.yml; existing files are kept."""
    with plain_errors():
        written = write(directory)
    for path in written:
        say(str(path))
    if not written:
        console.print("nothing was missing")


def findings(service: str) -> Iterator[Finding]:
    """All checks that are possible before the service starts."""
    kind = settings_type(service)
    yield from _unknown(kind)
    try:
        settings = kind()
    except ValidationError as error:
        for problem in error.errors():
            where = ".".join(str(part) for part in problem["loc"])
            name = f"TACIT_{where.upper()}" if where else "settings"
            yield Finding(name, "error", problem["msg"])
        return
    except SettingsError as error:
        yield Finding("settings", "error", str(error))
        return
    yield Finding("settings", "ok", "every value is understood")
    yield from _directory(settings.data_dir)
    yield from _tls(settings)
    yield from _address(settings)
    yield from _warnings(settings)
    yield asyncio.run(_database(settings, service))


def _unknown(kind: type[ServiceSettings]) -> Iterator[Finding]:
    names = {f"TACIT_{name}".upper() for name in kind.model_fields} | ELSEWHERE
    for name in sorted(os.environ):
        if name.startswith("TACIT_") and name.removesuffix("_FILE") not in names:
            yield Finding(name, "warning", "no setting of this service: is it spelled right?")


def _directory(path: Path) -> Iterator[Finding]:
    nearest = path
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    if not os.access(nearest, os.W_OK | os.X_OK):
        yield Finding("data_dir", "error", f"{nearest} cannot be written by this user")
    elif path.exists() and path.stat().st_mode & 0o077:
        yield Finding("data_dir", "warning", f"others may read {path}: chmod 700")
    else:
        yield Finding("data_dir", "ok", str(path))


def _tls(settings: TlsSettings) -> Iterator[Finding]:
    try:
        settings.trust()
        client_authority = getattr(settings, "tls_client_authority", None)
        if client_authority is not None:
            ssl.create_default_context(cafile=str(client_authority))
        ends = None if settings.tls_certificate is None else expiry(settings.tls_certificate)
    except (OSError, ValueError, ssl.SSLError) as error:
        yield Finding("tls", "error", f"the files are not usable: {error}")
        return
    if ends is None:
        return
    now = datetime.now(UTC)
    if ends <= now:
        yield Finding("tls", "error", f"the certificate ended on {ends:%Y-%m-%d}")
    elif ends - now < SOON:
        yield Finding("tls", "warning", f"the certificate ends on {ends:%Y-%m-%d}")
    else:
        yield Finding("tls", "ok", f"valid until {ends:%Y-%m-%d}")


def _address(settings: ServiceSettings) -> Iterator[Finding]:
    loopback = settings.host in ("127.0.0.1", "::1", "localhost")
    if not loopback and not settings.https:
        yield Finding(
            "public_url",
            "warning",
            "it listens beyond this machine without TLS: set tls_certificate, or put a proxy "
            "in front of it and the proxy's https address into TACIT_PUBLIC_URL",
        )
    if not loopback and settings.public_url is None:
        yield Finding("public_url", "warning", "others cannot learn the address of this service")


def _warnings(settings: ServiceSettings) -> Iterator[Finding]:
    for name in type(settings).model_fields:
        if name.startswith("insecure_") and getattr(settings, name):
            yield Finding(name, "warning", "protects nobody: for tests on synthetic data only")


async def _database(settings: ServiceSettings, service: str) -> Finding:
    # These import SQLAlchemy, for which no other command should wait.
    from common.store.database import check as database_answers
    from common.store.database import open_database, pending_migrations
    from common.store.transactions import Home, StoreLost

    try:
        Home.of(settings)
    except StoreLost as error:
        return Finding("database", "error", str(error))
    url = settings.database()
    path = Path(url.split("///", 1)[-1])
    if url.startswith("sqlite") and not path.exists():
        return Finding("database", "ok", "made at the first start")
    database = open_database(url)
    try:
        why = await database_answers(database)
        if why is not None:
            return Finding("database", "error", why)
        package = import_module(service).__file__
        assert package is not None
        due = await pending_migrations(database, Path(package).parent / "migrations")
    finally:
        await database.dispose()
    state = f"{len(due)} migrations are due at the next start" if due else "answers, up to date"
    return Finding("database", "ok", state)
