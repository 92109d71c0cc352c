"""The files that docker-compose.yml reads and no repository may hold: `.env` and secrets.

What is there is kept: a second run changes nothing, a removed file is made anew. The files can be
read by everybody inside `deploy/secrets`, which only its owner can enter: an engine mounts each
into a container whose user is another one.
"""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from cli import dev_authority

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
    made: list[Path] = []
    if not (root / ".env").exists():
        shutil.copyfile(root / ".env.example", root / ".env")
        made.append(root / ".env")
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
        made.append(path)
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
        made += dev_authority.prepare(directory / "mqtt", [BROKER_NAMES], DAYS)
        for path in (directory / "mqtt").iterdir():
            path.chmod(0o600 if path.name == "authority.key" else 0o444)
    return made


def mosquitto_hash(password: str) -> str:
    """A password as a password file of Mosquitto 2 has it: PBKDF2 with SHA-512."""
    salt = secrets.token_bytes(12)
    key = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, ITERATIONS)
    return f"$7${ITERATIONS}${_base64(salt)}${_base64(key)}"


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _word() -> str:
    """256 random bits in base64url without padding: fit for a token, a password or a key."""
    return secrets.token_urlsafe(32)
