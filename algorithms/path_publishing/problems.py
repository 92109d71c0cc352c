"""What is refused. Spec: path-publishing, section 2.3."""

from __future__ import annotations

from tacit.errors import Conflict, Invalid, TooLarge


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
