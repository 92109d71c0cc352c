"""Seeds in the place of uniform pieces: bytes and time, beside words in the same run.

    python -m bench.seeds

One process, one thread; no HTTP, no store: what a curator or a host splits and seals for all
aggregators of a round, and what these open and add up. Each figure is the fastest of
some repetitions. Below the limit (`SHORT` words) a lone curator sends words, so both are the same.
Spec: federated-counting, section 9.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

import numpy as np

from bench.timing import seconds
from tacit.crypto.sealing import open_octets, seal_octets
from tacit.crypto.sharing import Additive, Scheme, Shamir
from tacit.protocol.round.pieces import SHORT, DeclaredForm
from tacit.randomness import SecureRandom

KEY, CONTEXT = os.urandom(32), b"place"
SHARINGS: tuple[tuple[str, Scheme, int], ...] = (
    ("additive, 3", Additive(3), 3),
    ("additive, 5", Additive(5), 5),
    ("shamir, 3 of 5", Shamir(3, 5), 5),
)
LONE = (1, 32, SHORT, SHORT + 1, 306, 4_096, 65_536)
HOSTED = ((10_000, 1), (5, 65_536))


@dataclass(frozen=True)
class Figures:
    """Of one contribution: bytes inside the seals, microseconds at both ends."""

    octets: int
    sending: float
    opening: float


def figures(form: DeclaredForm, count: int, hosted: bool) -> Figures:
    """Of `count` curators' values together."""
    random = SecureRandom()
    values = np.random.default_rng(1).integers(-1_000, 1_000, (count, form.dimension))
    zero = np.zeros(form.dimension, np.uint64)
    repetitions = max(5, 200_000 // (values.size + 200))

    def sent() -> list[tuple[bytes, bytes]]:
        shares = form.split(values, random, hosted=hosted)
        return [seal_octets(KEY, share.tobytes(), CONTEXT) for share in shares]

    sealed = sent()

    def received() -> dict[int, np.ndarray[tuple[int, ...], np.dtype[np.uint64]]]:
        sums = {}
        for index, (nonce, octets) in enumerate(sealed):
            plain = open_octets(KEY, nonce, octets, CONTEXT)
            words = form.opened(index, plain, count, hosted=hosted)
            sums[index] = form.sharing.add(zero, words)
        return sums

    assert (form.sharing.combine(received()) == values.sum(axis=0)).all()
    return Figures(
        sum(len(octets) - 16 for _, octets in sealed),
        1e6 * seconds(sent, repetitions),
        1e6 * seconds(received, repetitions),
    )


def main() -> None:
    """Print both forms of each case."""
    print(f"{'':<34}{'bytes':>22}{'us to split, seal':>22}{'us to open, add':>22}")
    print(f"{'':<34}" + f"{'words':>12}{'seeds':>10}" * 3)
    for name, sharing, _ in SHARINGS:
        for count, d in (*((1, d) for d in LONE), *HOSTED):
            hosted = count > 1
            seeds = sharing.uniform
            form = DeclaredForm(sharing, d, seeds, seeds if d > SHORT else 0)
            words = figures(replace(form, host_seeds=0, lone_seeds=0), count, hosted)
            own = figures(form, count, hosted)
            case = f"{name}: {count:,} x {d:,}"
            print(
                f"{case:<34}{words.octets:>12,}{own.octets:>10,}"
                f"{words.sending:>12,.0f}{own.sending:>10,.0f}"
                f"{words.opening:>12,.0f}{own.opening:>10,.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
