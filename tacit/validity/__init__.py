"""Proved contributions: shares of a value with a proof that it lies in its declared range.

Pure mathematics: no service, no HTTP, no storage. Nothing here is loaded unless it is used; the
extra `proofs` (pycryptodome) has to be installed.

    functions      what one contribution of each function is proved to be, and its influence
    limits         what fits, and how sure a proof is     noise_bound   where noise is clamped
    prio3          split, verify, decide, add up          arithmetic    by numpy, or compiled
    proof          the fully linear proof                 circuit       what a circuit is
    forms, vectors           the circuits
    compiled                 the same bytes by numba (extra `fast`)
    field                    arithmetic on many elements at once

Spec: validity, sections 3 to 6, 12 and 13.
"""
