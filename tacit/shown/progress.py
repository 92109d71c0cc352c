"""What happens while a call waits, on one line of standard error."""

from __future__ import annotations

import sys

from tacit.shown.jobs import Job
from tacit.shown.rounds import Round


def show_progress(found: Round | Job) -> None:
    """Print how far a round or job is; on a terminal in place of what was printed before."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{found}" + ("\n" if found.over else ""))
    else:
        sys.stderr.write(f"{found}\n")
    sys.stderr.flush()
