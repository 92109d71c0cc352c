"""`python -m tests.fuzz [cases]`: mutated bytes to every parser of what strangers send."""

from __future__ import annotations

import sys
import time

from tests.fuzz.mutations import mutated
from tests.fuzz.targets import targets


def main(cases: int, seed: int) -> int:
    """How many mutations raised what they must not, or were taken though sealed."""
    failures = 0
    print(f"{'target':14} {'cases':>9} {'taken':>9} {'refused':>9} {'failures':>9} {'slowest':>9}")
    for number, target in enumerate(targets()):
        target.take(target.valid)
        taken = refused = failed = 0
        slowest = 0.0
        for body in mutated(target.valid, cases, seed + number):
            began = time.perf_counter()
            try:
                target.take(body)
            except target.refusals:
                refused += 1
            except Exception as error:
                failed += 1
                print(f"  {target.name}: {type(error).__name__} for {body[:60].hex()}")
            else:
                taken += 1
                failed += target.sealed
            slowest = max(slowest, time.perf_counter() - began)
        failures += failed
        row = f"{target.name:14} {cases:>9,} {taken:>9,} {refused:>9,} {failed:>9,}"
        print(f"{row} {slowest * 1000:>6.1f} ms")
    return failures


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    sys.exit(1 if main(wanted, seed=2026) else 0)
