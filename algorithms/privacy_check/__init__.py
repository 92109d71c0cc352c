"""Check of a table against partition models: `privacy-check`. Spec: trajectory-kcl, section 10.

`parameters` what a job is given, what is refused, rows that look alike, and what each group of them
satisfies; `algorithm` the check, its report and plot, and the catalogue's entry.
"""

from algorithms.privacy_check.algorithm import ALGORITHM

__all__ = ["ALGORITHM"]
