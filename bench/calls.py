"""How many functions of ours a round calls, and how many of them are different.

    python -m bench.calls [--against CHECKOUT]

Real processes (`bench.rounds`): a coordinator, three aggregators and a gateway of three curators.
After two rounds that warm keys and statements, each process counts the Python functions of the
product that are called (`sys.setprofile`, all threads) from the opening of a round to its release.
A count does not depend on how fast the machine is; who polls while it is slow calls a few more.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

from bench import rounds
from tacit.protocol.enrolment import PartyKind

ROOT: Final = Path(__file__).parents[1]
CURATORS: Final = 3
SERVICES: Final = ("coordinator", "aggregator", "curator")
COUNTER: Final = """
import json, os, signal, sys, threading

counts = {}

def profile(frame, event, _):
    if event == "call":
        counts[frame.f_code] = counts.get(frame.f_code, 0) + 1

def begin(*_):
    counts.clear()

def end(*_):
    found = {f"{code.co_filename}:{code.co_qualname}": n for code, n in list(counts.items())}
    path = os.environ["CALLS_FOLDER"] + f"/{os.getpid()}.json"
    with open(path + ".part", "w") as file:
        json.dump(found, file)
    os.rename(path + ".part", path)

if sys.argv[0] in ("-m", "-c"):
    signal.signal(signal.SIGUSR1, begin)
    signal.signal(signal.SIGUSR2, end)
    threading.setprofile(profile)
    sys.setprofile(profile)
"""
"""Each service process begins with this file."""


def measure() -> dict[str, Counter[str]]:
    """Calls of functions of the product, by service."""
    with tempfile.TemporaryDirectory() as folder:
        counted = Path(folder) / "calls"
        counted.mkdir()
        (counted / "sitecustomize.py").write_text(COUNTER)
        os.environ["CALLS_FOLDER"] = str(counted)
        os.environ["PYTHONPATH"] = f"{counted}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
        rounds.AGGREGATORS = 3  # type: ignore[misc]
        with rounds.Measured(Path(folder) / "home") as it:
            it.enrol("gateway", PartyKind.HOST, [f"meter-{place}" for place in range(CURATORS)])
            query = it.query("calls", CURATORS, aggregators=3)
            for _ in range(2):
                it.round_of(query, CURATORS)
            processes = it.running.processes
            for process in processes.values():
                process.send_signal(signal.SIGUSR1)
            it.round_of(query, CURATORS)
            found: dict[str, Counter[str]] = {kind: Counter() for kind in SERVICES}
            for service in it.deployment.services:
                process = processes[service.id]
                process.send_signal(signal.SIGUSR2)
                written = counted / f"{process.pid}.json"
                while not written.exists():
                    assert process.poll() is None, f"{service.id} ended"
                    time.sleep(0.05)
                for name, calls in json.loads(written.read_text()).items():
                    if name.startswith(f"{ROOT}/") and "/.venv/" not in name:
                        found[service.kind][name.removeprefix(f"{ROOT}/")] += calls
            return found


def main() -> None:
    """Print the counts, and those of another checkout beside them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", type=Path)
    parser.add_argument("--dearest", type=int, default=0, help="functions that are called most")
    options = parser.parse_args()
    if options.against is not None:
        other = options.against.resolve()
        command = [str(other / ".venv/bin/python"), "-m", "bench.calls"]
        print(f"{options.against}:", flush=True)
        subprocess.run(command, cwd=other, check=True)
    found = measure()
    everything = sum(found.values(), Counter[str]())
    files = {name.partition(":")[0] for name in everything}
    for kind, calls in found.items():
        print(f"{kind:12} {calls.total():8,} calls of {len(calls):5,} functions")
    print(
        f"{'in total':12} {everything.total():8,} calls of {len(everything):5,} functions"
        f" in {len(files):,} files"
    )
    for name, times in everything.most_common(options.dearest):
        print(f"{times:8,} {name}")


if __name__ == "__main__":
    main()
