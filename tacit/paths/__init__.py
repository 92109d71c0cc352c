"""Published paths: their forms, and how a holder of the map recovers a path in its own process.

Spec: path-publishing, sections 2.4 and 3.7 to 3.10. No service and no algorithm is needed:

    from tacit.paths import read_map, recover

    with open("map.json", "rb") as file:
        network = read_map(file)
    print(recover(network, open("published.json", "rb").read()).paths[0])

    published  the forms on the wire, sealed to named recipients by their keys
    recovery   from map and publication to the path
    network    maps and paths in them, their readers, and what is refused
"""

from tacit.paths.network import (
    MalformedPublication,
    MapMismatch,
    MapTooLarge,
    NetworkMap,
    NotAPath,
    NotARecipient,
    read_map,
)
from tacit.paths.published import read as read_published
from tacit.paths.recovery import Recovered, Rule, recover

__all__ = [
    "MalformedPublication",
    "MapMismatch",
    "MapTooLarge",
    "NetworkMap",
    "NotAPath",
    "NotARecipient",
    "Recovered",
    "Rule",
    "read_map",
    "read_published",
    "recover",
]
