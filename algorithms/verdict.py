"""Whether a result will be useful, weak or noise: one line of a forecast, the same words for all.

An algorithm states its own expected error relative to what it estimates: up to a quarter of it the
result is useful, up to as much as itself weak, above that noise. Of directions it states a cosine.
Public and released numbers alone go in. Spec: utility, section 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

Verdict = Literal["useful", "weak", "noise"]

USEFUL_ERROR: Final = 0.25
WEAK_ERROR: Final = 1.0
USEFUL_COSINE: Final = 0.7
WEAK_COSINE: Final = 0.1


def by_error(relative: float) -> Verdict:
    """relative: expected error over what is estimated, 0 or above."""
    if relative <= USEFUL_ERROR:
        return "useful"
    return "weak" if relative <= WEAK_ERROR else "noise"


def by_cosine(cosine: float) -> Verdict:
    """cosine: expected between a direction and its estimate, 0 to 1."""
    if cosine >= USEFUL_COSINE:
        return "useful"
    return "weak" if cosine >= WEAK_COSINE else "noise"


def with_verdict(error: Mapping[str, Any], verdict: Verdict, figure: str) -> dict[str, Any]:
    """An algorithm's forecast with the line first. figure: what was expected of what, in words."""
    return {"verdict": f"{verdict}: {figure}", **error}
