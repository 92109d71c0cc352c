"""The parameters of `path-publishing`, their ranges, which mode has which, and what is refused.

Spec: path-publishing, section 2.3.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field

from algorithms.contract import Stance
from tacit.errors import Conflict, Invalid, TooLarge
from tacit.paths.published import MOST_RECIPIENTS, check_recipient
from tacit.wire import Binary, Exact, WireModel


class PathNotSpanning(Invalid):
    name = "path_not_spanning"
    title = "In this mode the path visits every vertex"


class CyclicPathNotSupported(Invalid):
    """What is published of copies would depend on the path."""

    name = "cyclic_path_not_supported"
    title = "In this mode the path visits no vertex twice"


class NetworkTooLarge(TooLarge):
    name = "too_large"
    title = "The network is too large for this mode"


class EpsilonOutOfRange(Invalid):
    name = "epsilon_out_of_range"
    title = "An epsilon is not in its range"


class BadRecipientKey(Invalid):
    name = "bad_recipient_key"
    title = "A recipient's key is no public key for seals"


class ModeStanceMismatch(Invalid):
    name = "mode_stance_mismatch"
    title = "The mode belongs to another stance"


class ForeignParameter(Invalid):
    name = "bad_parameter"
    title = "The mode has no such parameter"


class NoGraphPath(Conflict):
    """Only without splitting: the pairs that must share a branch have no transitive orientation,
    or the search ended before it found one."""

    name = "no_graph_path"
    title = "No levelled graph was found without splitting vertices"


# Spec: path-publishing, sections 1 and 2.2; jobs, "Parameters".

Mode = Literal["graph-path", "complement", "randomized", "sealed"]
MODES: Final[dict[Stance, tuple[Mode, ...]]] = {
    "paper": ("graph-path",),
    "sound": ("complement", "randomized", "sealed"),
}
"""The first of a stance is its default."""

CYCLIC_EPSILON_V: Final = Fraction(1)
_MOST_PAPER: Final = 50
_MOST_SOUND: Final = 20
_OWN: Final[dict[str, tuple[Mode, ...]]] = {
    "epsilon_v": ("graph-path",),
    "epsilon_e": ("graph-path",),
    "split": ("graph-path",),
    "search_budget": ("graph-path",),
    "epsilon": ("randomized",),
    "epsilon_dir": ("complement", "randomized"),
    "layout": ("complement",),
    "recipients": ("sealed",),
}


def _range(low: str, high: int) -> dict[str, Any]:
    return {"x-range": f"{low}..{high}"}


class Parameters(WireModel):
    """Parameters of `path-publishing`."""

    model_config = ConfigDict(title="PathPublishingParameters")

    mode: Mode | None = Field(
        None,
        description="complement (default) publishes the map's edges off the path, randomized a "
        "noisy label for each pair, sealed the path encrypted to recipients; graph-path, the "
        "source's levelled graph, belongs to the stance paper",
    )
    epsilon_v: Exact | Literal["auto"] | None = Field(
        "auto",
        description="graph-path: of copies, 0 to 50; null: no copies; auto: null for a path "
        "without rings, else 1",
        json_schema_extra=_range("0", _MOST_PAPER),
    )
    epsilon_e: Exact | None = Field(
        Fraction(1),
        description="graph-path: of fake edges, 0 to 50; null: none",
        json_schema_extra=_range("0", _MOST_PAPER),
    )
    split: bool = Field(
        True, description="graph-path: split vertices that fit nowhere; without, such a job fails"
    )
    search_budget: Annotated[
        int, Field(ge=100, le=1_000_000, description="graph-path: search steps of a stage")
    ] = 2000
    epsilon: Exact | None = Field(
        None,
        description="randomized, which needs it: budget of one pair's label, above 0, at most 20",
        json_schema_extra=_range("0", _MOST_SOUND),
    )
    epsilon_dir: Exact | None = Field(
        None,
        description="complement and randomized: budget of a noisy bit with the direction, "
        "above 0, at most 20; null: the direction is not published",
        json_schema_extra=_range("0", _MOST_SOUND),
    )
    layout: bool = Field(
        False,
        description="complement: a drawing on levels too, made of the published edges alone (at "
        "most 60 vertices)",
    )
    recipients: Annotated[
        tuple[Binary, ...],
        Field(
            max_length=MOST_RECIPIENTS,
            description="sealed, which needs one: public keys of `tacit recipient-key`, 1,216 "
            "bytes each (X25519 alone: 32), base64url",
        ),
    ] = ()
    evaluate: bool = Field(
        False, description="compare with the true path, for the operator (graph-path: always)"
    )

    def mode_of(self, stance: Stance) -> Mode:
        """The mode that is meant. Raises ModeStanceMismatch."""
        if self.mode is None:
            return MODES[stance][0]
        if self.mode not in MODES[stance]:
            raise ModeStanceMismatch(
                f"stance {stance} has: {', '.join(MODES[stance])}", pointer="/params/mode"
            )
        return self.mode

    def copies_epsilon(self, *, acyclic: bool) -> float | None:
        """epsilon_v of a path with or without rings; None: no copies."""
        if self.epsilon_v == "auto":
            return None if acyclic else float(CYCLIC_EPSILON_V)
        assert not isinstance(self.epsilon_v, str)
        return None if self.epsilon_v is None else float(self.epsilon_v)


def check_parameters(params: Parameters, stance: Stance) -> Mode:
    """All checks that need no data; the mode.

    Raises ModeStanceMismatch, ForeignParameter, EpsilonOutOfRange, BadRecipientKey.
    """
    mode = params.mode_of(stance)
    for name, modes in _OWN.items():
        differs = getattr(params, name) != Parameters.model_fields[name].default
        if differs and mode not in modes:
            raise ForeignParameter(
                f"belongs to {' and '.join(modes)}, not to {mode}", pointer=f"/params/{name}"
            )
    for name in ("epsilon_v", "epsilon_e"):
        value = getattr(params, name)
        if isinstance(value, Fraction) and not 0 <= value <= _MOST_PAPER:
            raise EpsilonOutOfRange("must be between 0 and 50", pointer=f"/params/{name}")
    for name in ("epsilon", "epsilon_dir"):
        value = getattr(params, name)
        if value is not None and not 0 < value <= _MOST_SOUND:
            raise EpsilonOutOfRange("must be above 0 and at most 20", pointer=f"/params/{name}")
    if mode == "randomized" and params.epsilon is None:
        raise EpsilonOutOfRange("the mode randomized needs it", pointer="/params/epsilon")
    if mode == "sealed":
        _check_recipients(params.recipients)
    return mode


def _check_recipients(recipients: tuple[bytes, ...]) -> None:
    if not recipients:
        raise BadRecipientKey("one recipient at least", pointer="/params/recipients")
    for number, raw in enumerate(recipients):
        try:
            check_recipient(raw)
        except ValueError:
            raise BadRecipientKey(pointer=f"/params/recipients/{number}") from None
