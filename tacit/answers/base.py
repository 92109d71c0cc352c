"""What all answers of the API have in common: frozen fields, texts for exact numbers and instants.

A service writes its answers itself; these models say what is in them. A client of an older release
ignores fields that it does not know.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

Figure: TypeAlias = Annotated[str, Field(description="An exact decimal or fraction, or `inf`")]
Time: TypeAlias = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
Day: TypeAlias = Annotated[str, Field(json_schema_extra={"format": "date"})]
Octets: TypeAlias = Annotated[str, Field(description="Base64url without padding")]


class Answer(BaseModel):
    """An answer of the API, or a part of one."""

    model_config = ConfigDict(frozen=True, extra="ignore")
