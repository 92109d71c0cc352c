"""One of five MPyC parties, for `bench.shares`, which runs it as `python mpyc_party.py -M5`.

`MPYC_JOB`, `MPYC_COUNT` and `MPYC_FORM` name the job. Each has five parties and Shamir threshold 2
on loopback: `vectors` sums five inputs of COUNT values each and opens the COUNT sums; `values` sums
COUNT values, a fifth of them held by each party, and opens one sum. Form `arrays`: arrays over a
prime field of 61 bits, MPyC's fastest; `lists`: secure integers in lists, as most of its demos have
them. Prints the CPU seconds of all parties and the wall seconds of the job.
"""

from __future__ import annotations

import json
import operator
import os
import resource
import time
from functools import reduce

import numpy as np
from mpyc.runtime import mpc

# MPyC starts the other parties with the arguments that it reads itself, so ours come otherwise.
JOB, COUNT = os.environ["MPYC_JOB"], int(os.environ["MPYC_COUNT"])
FORM = os.environ.get("MPYC_FORM", "arrays")


async def arrays(length: int) -> list[int]:
    """The opened sums, one or `length` of them, by arrays over a field."""
    own = mpc.SecFld(modulus=2**61 - 1).array(np.ones(length, dtype=object))
    total = reduce(operator.add, mpc.input(own))
    if JOB == "vectors":
        return [int(value) for value in await mpc.output(total)]
    return [int(await mpc.output(mpc.np_sum(total)))]


async def lists(length: int) -> list[int]:
    """The same by lists of secure integers."""
    integer = mpc.SecInt(32)
    given = mpc.input([integer(1)] * length)
    if JOB == "vectors":
        return [int(value) for value in await mpc.output(reduce(mpc.vector_add, given))]
    return [int(await mpc.output(mpc.sum([value for part in given for value in part])))]


async def main() -> None:
    """Run the job and report."""
    await mpc.start()
    started, before = time.perf_counter(), _cpu()
    length = COUNT if JOB == "vectors" else COUNT // len(mpc.parties)
    opened = await (lists if FORM == "lists" else arrays)(length)
    correct = opened == ([len(mpc.parties)] * length if JOB == "vectors" else [COUNT])
    wall, cpu = time.perf_counter() - started, _cpu() - before
    spent = await mpc.transfer(cpu)
    await mpc.shutdown()
    if mpc.pid == 0:
        print("RESULT", json.dumps({"cpu_s": sum(spent), "wall_s": wall, "correct": correct}))


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


mpc.run(main())
