"""Randomness: one door for protection, one for public choices, one for simulation.

Three types, so that a type checker shows a mix-up:

- `SecureRandom` protects people: shares, noise, coins. Its words are the keystream of
  AES-256 in counter mode: word block i is AES_K(i), i = 0, 1, ... under a key K drawn from the
  operating system. The keystream cannot be distinguished from uniform words unless AES-256 can be
  from a random permutation (or a permutation from a function: for N blocks at most
  N^2 / 2^129, below 2^-76 for the 2^26 blocks of one key). A new key is drawn every GiB.
- `PublicRandom` makes choices that the result prints (projections, restarts). It offers no
  words, and no sampler of noise accepts it.
- `SeededRandom` replaces `SecureRandom` in simulations and tests. It protects nobody.

A stream never survives a fork: two processes would draw the same noise and the same shares, and
their difference would bare the values. A stream keyed by the operating system takes a new key
in the child. A stream made from a stored seed cannot, and refuses to draw there. No stream can
be copied or pickled, for the same reason.

Assumption: the memory of a running process is not duplicated otherwise (a virtual machine
resumed twice from one snapshot repeats its streams until the next key).

Sources: NIST SP 800-38A (counter mode), RFC 5869 (HKDF).
"""

# Postponed, so that the types name numpy's generators without loading them: 2 MB of which a
# service that only protects draws nothing.
from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NoReturn, TypeAlias

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

Octets: TypeAlias = bytes
"""`bytes` the type, inside classes whose method `bytes` hides it."""

KEY_LIFETIME: Final = 1 << 30
"""Bytes of keystream drawn under one key."""
SEED_BYTES: Final = 32

_KEY_BYTES: Final = 32
_CIPHER_BLOCK: Final = 16
_SEED_LABEL: Final = b"tacit secret seed stream v1"
_ZEROS: Final = memoryview(bytes(1 << 16))


class StreamForked(RuntimeError):
    """A stream made from a stored seed was used in a child process."""


class SecureRandom:
    """Protective randomness: an AES-256-CTR keystream. Safe to share between threads."""

    __slots__ = ("__weakref__", "_cipher", "_key", "_left", "_lock", "_lost", "_pid", "_segment")

    def __init__(self) -> None:
        self._start(_system_key)

    @classmethod
    def from_secret_seed(cls, seed: Octets, stream: str) -> SecureRandom:
        """The named stream of a stored 256-bit secret seed; the same pair gives the same words.

        Key number s of the stream is HKDF-SHA256(seed, info = s, name): streams of different
        names are independent, and every GiB has its own key here too.
        """
        if len(seed) != SEED_BYTES:
            raise ValueError(f"a secret seed has {SEED_BYTES} bytes")
        if not stream:
            raise ValueError("a stream of a secret seed needs a name")
        instance = cls.__new__(cls)
        instance._start(_seed_keys(bytes(seed), stream.encode()))
        return instance

    @classmethod
    def from_fresh_seed(cls, seed: Octets) -> SecureRandom:
        """The keystream of a seed of 32 uniform bytes that is used only once: the seed is the
        key. It ends after a GiB."""
        if len(seed) != SEED_BYTES:
            raise ValueError(f"a seed has {SEED_BYTES} bytes")
        instance = cls.__new__(cls)
        instance._start(_only_key(bytes(seed)))
        return instance

    def words(self, count: int) -> NDArray[np.uint64]:
        """`count` independent uniform 64-bit words."""
        _refuse_negative(count)
        buffer = np.empty(count + _CIPHER_BLOCK // 8, dtype=np.uint64)
        self._fill(buffer.data.cast("B"), 8 * count)
        return buffer[:count]

    def bytes(self, count: int) -> Octets:
        """`count` independent uniform bytes."""
        _refuse_negative(count)
        buffer = bytearray(count + _CIPHER_BLOCK)
        self._fill(memoryview(buffer), count)
        return bytes(buffer[:count])

    def __reduce__(self) -> NoReturn:
        raise TypeError("a stream of protective randomness cannot be copied or pickled")

    def _start(self, key: _Keys) -> None:
        self._key = key
        self._lost = False
        self._forget()
        _streams.add(self)

    def _forget(self) -> None:
        """Drop key and lock: at the start, and in a child process before anything is drawn."""
        self._lock = threading.Lock()
        self._cipher: CipherContext | None = None
        self._left = 0
        self._segment = 0
        self._pid = os.getpid()

    def _leave_parent(self) -> None:
        self._forget()
        self._lost = self._key is not _system_key

    def _fill(self, buffer: memoryview, count: int) -> None:
        """Write `count` bytes of keystream; the buffer is one cipher block longer than that."""
        if os.getpid() != self._pid:  # a fork that Python's own hook has not seen
            self._leave_parent()
        if self._lost:
            raise StreamForked("derive a stream of another name in the child process")
        with self._lock:
            done = 0
            while done < count:
                cipher = self._cipher
                if cipher is None or self._left == 0:
                    cipher = self._next_key()
                step = min(count - done, self._left, len(_ZEROS))
                cipher.update_into(_ZEROS[:step], buffer[done:])
                self._left -= step
                done += step

    def _next_key(self) -> CipherContext:
        key = self._key(self._segment)
        cipher: CipherContext = Cipher(AES(key), CTR(bytes(_CIPHER_BLOCK))).encryptor()
        self._cipher = cipher
        self._segment += 1
        self._left = KEY_LIFETIME
        return cipher


@dataclass(frozen=True, slots=True)
class PublicRandom:
    """Public choices, reproducible from a seed that the result prints. Never noise or shares."""

    seed: int
    generator: np.random.Generator = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "generator", np.random.default_rng(self.seed))


@dataclass(frozen=True, slots=True)
class SeededRandom:
    """Simulation and tests: the interface of `SecureRandom` over a generator anyone can repeat."""

    seed: int
    generator: np.random.Generator = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        generator = np.random.Generator(np.random.SFC64(self.seed))
        object.__setattr__(self, "generator", generator)

    def words(self, count: int) -> NDArray[np.uint64]:
        """`count` pseudo-random 64-bit words."""
        return self.generator.integers(0, 1 << 64, size=count, dtype=np.uint64)

    def bytes(self, count: int) -> Octets:
        """`count` pseudo-random bytes."""
        return self.generator.bytes(count)


NoiseSource: TypeAlias = SecureRandom | SeededRandom
"""What a sampler of noise may draw from. `PublicRandom` is not among them."""


_Keys: TypeAlias = Callable[[int], bytes]
_streams: weakref.WeakSet[SecureRandom] = weakref.WeakSet()


def _system_key(_segment: int) -> bytes:
    return os.urandom(_KEY_BYTES)


def _seed_keys(seed: bytes, name: bytes) -> _Keys:
    def key(segment: int) -> bytes:
        info = segment.to_bytes(8, "big") + name
        return HKDF(SHA256(), _KEY_BYTES, salt=_SEED_LABEL, info=info).derive(seed)

    return key


def _only_key(seed: bytes) -> _Keys:
    def key(segment: int) -> bytes:
        if segment > 0:
            raise ValueError("a seed that is a key gives no more than a GiB")
        return seed

    return key


def _refuse_negative(count: int) -> None:
    if count < 0:
        raise ValueError("a count cannot be negative")


def _forget_all_keys() -> None:
    for stream in _streams:
        stream._leave_parent()


os.register_at_fork(after_in_child=_forget_all_keys)
