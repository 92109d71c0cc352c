"""Recovery of a published path by a holder of the map. Everything runs in this process.

from tacit.recovery import read_map, recover

with open("map.json", "rb") as file:
    network = read_map(file)
print(recover(network, open("published.json", "rb").read()).paths[0])
"""

from common.datasets.network_path import NetworkMap
from common.datasets.network_path_files import read_map
from common.paths.levelled import Rule
from common.paths.problems import (
    MalformedPublication,
    MapMismatch,
    MapTooLarge,
    NotAPath,
    NotARecipient,
)
from common.paths.published import read as read_published
from common.paths.recovery import Recovered, recover

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
