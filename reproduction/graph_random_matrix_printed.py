"""What chapter 11 of the book prints, and what was recomputed.

Spec: graph-random-matrix, section 5.

Facebook, Pokec and LiveJournal are the source's graphs; they are not shipped.
"""

from __future__ import annotations

from typing import Final

SIZES: Final = {
    "Facebook": (3_097_165, 23_667_394),
    "Pokec": (1_632_803, 30_622_564),
    "LiveJournal": (3_997_962, 34_681_189),
}
"""Table 11.1: vertices, edges."""

MEGABYTES: Final = {
    200: {"Facebook": 4955, "Pokec": 2612, "LiveJournal": 6396},
    20: {"Facebook": 495, "Pokec": 261, "LiveJournal": 639},
}
SECONDS: Final = {
    200: {"Facebook": 150.0, "Pokec": 97.0, "LiveJournal": 211.0},
    20: {"Facebook": 6.15, "Pokec": 4.60, "LiveJournal": 8.15},
}
"""Table 11.2."""

CLUSTERS: Final = (2, 4, 8, 16)
NMI_OF_BASELINE: Final = (9.1e-8, 8.8e-7, 4.1e-6, 1.3e-5)
"""Table 11.3, Facebook, by k."""
DISTANCES: Final = (2.6e-26, 2.9e-4, 0.021, 0.013)
"""Table 11.6, Facebook, by k: n * MSE."""
DISTANCES_OF_BASELINE: Final = (1.83, 1.83, 1.67, 1.64)
"""Table 11.7, Facebook, by k."""
NMI_OF_WALKS: Final = (0.70, 0.76, 0.75, 0.70)
"""Table 11.5, Facebook, by k."""
DISTANCES_OF_WALKS: Final = (0.01, 0.008, 0.02, 0.03)
"""Table 11.9, Facebook, by k."""
RATIOS: Final = (
    0.95, 1.07, 0.99, 1.14, 1.08, 1.23, 1.08, 0.91, 1.03, 0.71, 0.92, 0.88, 0.67, 1.13, 1.08, 0.59,
)  # fmt: skip
"""Table 11.11, Facebook, i = 1..16, m = 200, sigma 1."""

CAPS: Final = {
    200: {1: 0.93, 2: 0.88, 4: 0.78, 8: 0.64, 16: 0.47},
    20: {1: 0.90, 2: 0.81, 4: 0.68, 8: 0.52, 16: 0.35},
}
"""The spec's: squared cosines that no graph of Facebook's size passes at sigma 1, by place."""

# The spec's prototype on facebook_combined, m = 200, means of three runs.
PROTOTYPE_NMI: Final = {
    ("0.1", 2): 0.98, ("0.1", 4): 0.94, ("0.1", 8): 0.83,
    ("0.5", 2): 0.97, ("0.5", 4): 0.92, ("0.5", 8): 0.77,
    ("1", 2): 0.96, ("1", 4): 0.87, ("1", 8): 0.52,
}  # fmt: skip
PROTOTYPE_DISTANCES: Final = {2: 0.18, 4: 0.19, 8: 0.22}
PROTOTYPE_TOP_100: Final = {"0.1": 0.92, "0.5": 0.80, "1": 0.79}
PROTOTYPE_BASELINE: Final = {2: 1.42, 4: 1.18, 8: 0.94, 16: 0.74}
PROTOTYPE_COSINES: Final = {"0.1": 0.95, "0.5": 0.89, "1": 0.83}
