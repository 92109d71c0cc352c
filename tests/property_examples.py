"""How many examples the tests of properties try: all in the full profile, few in the quick one.

The quick profile is that of `make test`; the full one, `--hypothesis-profile full`, runs in
`make test-slow`. Both try the same examples in each run, so that a run that was green stays green;
`--hypothesis-profile explore` tries others.
"""

from __future__ import annotations

from typing import Final

from hypothesis import settings

_FULL: Final = 100
_QUICK: Final = 5


def register_profiles() -> None:
    """Register the three; the quick one applies unless pytest is told another."""
    # How long an example takes is the machine's business.
    settings.register_profile("full", max_examples=_FULL, deadline=None, derandomize=True)
    settings.register_profile("quick", max_examples=_QUICK, deadline=None, derandomize=True)
    settings.register_profile("explore", max_examples=10 * _FULL, deadline=None)
    settings.load_profile("quick")


def examples(count: int) -> settings:
    """For a test that tries `count` examples in the full profile."""
    return settings(max_examples=max(3, count * settings.default.max_examples // _FULL))
