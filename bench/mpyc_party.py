"""One of five MPyC parties, for `bench.shares`, which runs it as `python mpyc_party.py -M5`.

`MPYC_JOB` and `MPYC_COUNT` name the job. Each has five parties and Shamir threshold 2 on loopback:
`vectors` sums five inputs of COUNT values each and opens the COUNT sums; `values` sums COUNT
values, a fifth of them held by each party, and opens one sum. Prints the CPU seconds of all parties
and the wall seconds of the job.
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


async def main() -> None:
    """Run the job and report."""
    field = mpc.SecFld(modulus=2**61 - 1)
    await mpc.start()
    started, before = time.perf_counter(), _cpu()
    length = COUNT if JOB == "vectors" else COUNT // len(mpc.parties)
    own = field.array(np.ones(length, dtype=object))
    total = reduce(operator.add, mpc.input(own))
    if JOB == "vectors":
        opened = await mpc.output(total)
        correct = all(int(value) == len(mpc.parties) for value in opened)
    else:
        correct = int(await mpc.output(mpc.np_sum(total))) == COUNT
    wall, cpu = time.perf_counter() - started, _cpu() - before
    spent = await mpc.transfer(cpu)
    await mpc.shutdown()
    if mpc.pid == 0:
        print("RESULT", json.dumps({"cpu_s": sum(spent), "wall_s": wall, "correct": correct}))


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


mpc.run(main())
