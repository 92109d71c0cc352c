"""What the source prints of frequent patterns: its data are not public, so these are quoted.

Chen's thesis, Tables 6.6 to 6.8: (true positives, false positives) on Metro and on Bus, false
positives being false drops too.
"""

from __future__ import annotations

from typing import Final

Printed = tuple[tuple[int, int], tuple[int, int]]

TABLE_6_6: Final[dict[str, dict[int, Printed]]] = {
    "simple": {
        100: ((99, 1), (97, 3)),
        150: ((143, 7), (139, 11)),
        200: ((178, 22), (168, 32)),
        250: ((209, 41), (195, 55)),
        300: ((241, 59), (212, 88)),
    },
    "hybrid": {
        100: ((100, 0), (100, 0)),
        150: ((149, 1), (144, 6)),
        200: ((185, 15), (177, 23)),
        250: ((220, 30), (209, 41)),
        300: ((257, 43), (233, 67)),
    },
}
"""By k, at epsilon 1 and height 12."""

TABLE_6_7: Final[dict[str, dict[str, Printed]]] = {
    "simple": {
        "0.5": ((227, 73), (194, 106)),
        "0.75": ((239, 61), (206, 94)),
        "1": ((241, 59), (212, 88)),
        "1.25": ((243, 57), (216, 84)),
        "1.5": ((248, 52), (224, 76)),
    },
    "hybrid": {
        "0.5": ((244, 56), (215, 85)),
        "0.75": ((253, 47), (224, 76)),
        "1": ((257, 43), (233, 67)),
        "1.25": ((259, 41), (238, 62)),
        "1.5": ((261, 39), (242, 58)),
    },
}
"""By epsilon, at height 12 and k = 300."""

TABLE_6_8: Final[dict[str, dict[int, Printed]]] = {
    "simple": {
        6: ((234, 66), (212, 88)),
        8: ((240, 60), (217, 83)),
        10: ((241, 58), (215, 85)),
        12: ((241, 59), (212, 88)),
        14: ((241, 59), (212, 88)),
        16: ((240, 60), (210, 90)),
        18: ((240, 60), (209, 91)),
        20: ((238, 62), (206, 94)),
    },
    "hybrid": {
        6: ((241, 59), (221, 79)),
        8: ((254, 46), (232, 68)),
        10: ((255, 45), (236, 64)),
        12: ((257, 43), (233, 67)),
        14: ((258, 42), (233, 67)),
        16: ((258, 42), (231, 69)),
        18: ((255, 45), (230, 70)),
        20: ((254, 46), (228, 72)),
    },
}
"""By height, at epsilon 1 and k = 300. Simple, height 10, Metro does not add up as printed."""
