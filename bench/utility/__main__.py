"""What better methods gain at the same epsilon: each beside its peers, same data, same seeds.

    python -m bench.utility [--runs 10]
        [--only graph,spectrum,clusters,sets,sequences,timestamps,reports]
    python -m bench.utility --only audits
    python -m bench.utility --pictures docs/pictures [--only kmeans,graph-der]

First the worst ratio of each algorithm to the best simple method (degrees alone, counts of items
alone, ..), and every ratio above 1.1; a user's choice among ours is fixed for each measure. Then a
line for each data set, epsilon and measure; for each contender mean, median and standard
deviation over the runs, CPU seconds of a run, and the ratio of its mean to that of the first, which
is the source's method or what `sound` did before, with its standard error. Below 1 is better, but
for measures marked with +. All contenders of a case have the same pure epsilon (`range` and
`subspace`: with delta 10^-6), data and seeds. Graphs are read from the data folder beside the
repository where they are there, else generated; diffprivlib takes part where it is installed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from bench.utility.audits import audits
from bench.utility.clusters import clusters
from bench.utility.compare import Comparison, worst_first
from bench.utility.graphs import graph
from bench.utility.pictures import draw
from bench.utility.reports import reports
from bench.utility.sequences import sequences
from bench.utility.sets import sets
from bench.utility.spectra import spectrum
from bench.utility.timestamps import timestamps

GOAL: Final = 1.1
"""No ratio to the best simple method is to be above it."""

SECTIONS: Final[dict[str, Callable[[int], Iterator[Comparison]]]] = {
    "graph": graph,
    "spectrum": spectrum,
    "clusters": clusters,
    "sets": sets,
    "sequences": sequences,
    "timestamps": timestamps,
    "reports": reports,
    "audits": audits,
}


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--only", help="sections; of pictures: algorithms", default="")
    parser.add_argument("--pictures", type=Path, help="folder: draw error over epsilon there")
    asked = parser.parse_args()
    if asked.pictures is not None:
        draw(asked.pictures, asked.only.split(",") if asked.only else ())
        return
    sections = asked.only.split(",") if asked.only else list(SECTIONS)
    made = {name: list(SECTIONS[name](asked.runs)) for name in sections}
    ratios = [each for comparisons in made.values() for case in comparisons for each in case.ratios]
    if ratios:
        print("\n".join(worst_first(ratios, GOAL)))
    for name, comparisons in made.items():
        print(f"\n== {name}, {asked.runs} runs")
        for case in comparisons:
            print("\n".join(case.lines))


if __name__ == "__main__":
    main()
