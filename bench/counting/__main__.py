"""Print the tables: `python -m bench.counting`."""

from __future__ import annotations

import argparse
import time

import bench.counting
from bench.counting.quality import Clicks
from bench.counting.shown import printed
from bench.counting.tables import CURATORS, Tables
from reproduction.sequential_ngram_data import msnbc
from simulation.populations import shared_data
from tacit.records.items import Sequences


def main() -> None:
    """All tables, or those that are named; exit code 1 where a figure is beyond the plan's."""
    parser = argparse.ArgumentParser(description=(bench.counting.__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", help="tables, by name")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a tenth of the records")
    asked = parser.parse_args()
    population = msnbc(shared_data())
    data = population.dataset
    if asked.quick:
        tenth = data.lists.blocks(data.count // 10)[0]
        data = Sequences(data.universe, tenth.items, tenth.starts)
    tables = Tables(Clicks(data), asked.quick).named()
    known = [table.key for table in tables]
    if unknown := set(asked.only or ()) - set(known):
        parser.error(f"no table {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    print(
        f"{population.name}: {data.count:,} sequences, {CURATORS} curators where no other number "
        f"is given, means of {asked.runs} runs; noise of fixed seeds",
        flush=True,
    )
    beyond = 0
    for table in tables:
        if not asked.only or table.key in asked.only:
            began = time.process_time()
            beyond += printed(table, asked.runs, lambda line: print(line, flush=True))
            print(f"  {time.process_time() - began:.0f} CPU seconds", flush=True)
    print(f"\nRows with a figure beyond the plan's: {beyond}")
    raise SystemExit(1 if beyond else 0)


if __name__ == "__main__":
    main()
