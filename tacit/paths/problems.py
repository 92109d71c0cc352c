"""What recovery refuses. Spec: path-publishing, section 2.3. No error names a vertex."""

from __future__ import annotations

from tacit.errors import Invalid, TooLarge


class MalformedPublication(Invalid):
    """Not a published object of a known form."""

    name = "malformed_publication"
    title = "This is not a published path"


class MapMismatch(Invalid):
    """A published vertex is not in the map, or the other way round."""

    name = "map_mismatch"
    title = "The publication and the map have different vertices"


class NotAPath(Invalid):
    """What map and publication leave is not one simple path: the map is not the publisher's."""

    name = "not_a_path"
    title = "The map and the publication do not determine one path"


class NotARecipient(Invalid):
    """No key fits, or the sealed object was altered."""

    name = "not_a_recipient"
    title = "The sealed path does not open with this key"


class MapTooLarge(TooLarge):
    """More vertices than the exact decoder takes."""

    name = "too_large"
    title = "The map is too large to be decoded exactly"
