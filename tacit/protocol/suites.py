"""Which suites a party can do, as it tells its coordinator. Spec: keys, section 3.

Nothing is negotiated: the coordinator decides the format of a round from what all parties have
signed, and no party takes part in a round below the least suite that it knows to be in use.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from tacit.query.words import Identifier
from tacit.wire import WireModel

SUITES_LABEL: Final = "tacit suites v2"
Suite = Annotated[int, Field(ge=1, lt=2**15)]


class Suites(WireModel):
    """Signed by the party under `SUITES_LABEL`. `software`: its name and version."""

    party: Identifier
    suites: Annotated[tuple[Suite, ...], Field(min_length=1, max_length=16)]
    software: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._/+-]{0,63}$")]
