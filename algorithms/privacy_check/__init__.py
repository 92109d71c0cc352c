"""Check of a table against partition models: `privacy-check`. Spec: trajectory-kcl, section 10.

`parameters`, `problems` what a job is given and what is refused; `groups` rows that look alike;
`measures`, `closeness` what each group satisfies; `check` one answer for each model; `report`.
"""

from algorithms.privacy_check.algorithm import ALGORITHM

__all__ = ["ALGORITHM"]
