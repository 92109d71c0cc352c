"""Changes one place of a module at a time and counts the changes that its tests notice.

python -m tests.mutation [module ...]   # paths or their beginnings; default: the whole table

Results are kept in `.mutation/`, one file for each module, so that a run that was stopped
continues. A killed mutant stays killed while the module and the killing tests are there: delete
the folder to count from the beginning. Survivors are tried again when a test file has changed.
Exit code 1: less than 95 % of a module's non-equivalent mutants were killed, or an entry in
`equivalent.toml` fits no mutant, or fits one that was killed. 2: no such module.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.mutants import Mutant, mutants
from tests.mutation.trial import trial, warm

LEAST = 0.95
_LONGEST_S = 600
_HERE = Path(__file__).parent
_RESULTS = Path(".mutation")


@dataclass(frozen=True)
class Figures:
    """What became of a module's mutants."""

    mutants: int
    killed: int
    survived: int
    equivalent: int

    @property
    def share(self) -> float:
        """Killed of those that are not equivalent, between 0 and 1."""
        different = self.killed + self.survived
        return self.killed / different if different else 1.0


def main(wanted: Sequence[str]) -> int:
    """Mutate the wanted modules; the exit code."""
    table = tomllib.loads((_HERE / "targets.toml").read_text())
    modules = [m for m in table["tests"] if not wanted or any(m.startswith(w) for w in wanted)]
    if not modules:
        print(f"mutate: not in targets.toml: {' '.join(wanted)}", file=sys.stderr)
        return 2
    print(f"{'module':36} mutants killed survived equivalent  share", flush=True)
    failed = 0
    for module in modules:
        # A process for each module: it imports what the module does not need.
        if not (child := os.fork()):
            sound = _measure(module, table["tests"][module], table["operators"])
            sys.stdout.flush()
            os._exit(0 if sound else 1)
        failed |= os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return 1 if failed else 0


def _measure(module: str, tests: Sequence[str], operators: Sequence[str]) -> bool:
    """Print a module's figures and its survivors; whether enough were killed."""
    warm(Path(module), tests)
    equivalent = _equivalent(module)
    try:
        outcomes = list(_outcomes(Path(module), operators, tests))
    except RuntimeError as error:
        print(f"mutate: {error}", file=sys.stderr)
        return False
    excused = [(m, died) for m, died in outcomes if (m.line, m.becomes) in equivalent]
    killed = sum(died for _, died in outcomes)
    alive = [m for m, died in outcomes if not died and (m.line, m.becomes) not in equivalent]
    figures = Figures(len(outcomes), killed, len(alive), len(outcomes) - killed - len(alive))
    print(
        f"{module:36} {figures.mutants:7} {figures.killed:6} {figures.survived:8}"
        f" {figures.equivalent:10} {figures.share:6.1%}",
    )
    for mutant in alive:
        print(f"  survived: {module}:{mutant.at}\n    {mutant.line}\n    {mutant.becomes}")
    idle = equivalent.keys() - {(m.line, m.becomes) for m, died in excused if not died}
    for line, becomes in sorted(idle):
        print(f"  equivalent.toml fits no survivor: {line} -> {becomes}")
    return figures.share >= LEAST and not idle


def _equivalent(module: str) -> Mapping[tuple[str, str], str]:
    """Reasons, by the line as it is and as it becomes."""
    entries = tomllib.loads((_HERE / "equivalent.toml").read_text()).get("mutant", [])
    return {(e["line"], e["becomes"]): e["reason"] for e in entries if e["module"] == module}


def _outcomes(
    file: Path, operators: Sequence[str], tests: Sequence[str]
) -> Iterator[tuple[Mutant, bool]]:
    """Each mutant, and whether it was killed; what is known already is not tried again."""
    source = file.read_text()
    unchanged = trial(file, source, tests, _LONGEST_S)
    if not unchanged.passed:
        raise RuntimeError(f"the tests of {file} fail on the unchanged module")
    if trial(file, "raise ImportError", tests, _LONGEST_S).passed:
        raise RuntimeError(f"the tests of {file} pass without the module")
    most_cpu_s = 5 + 4 * unchanged.cpu_s
    state = _digest(tests)
    kept = _RESULTS / f"{file.as_posix().replace('/', '.')}.jsonl"
    kept.parent.mkdir(exist_ok=True)
    lines = kept.read_text().splitlines() if kept.exists() else []
    known = {entry["key"]: entry for entry in map(json.loads, lines)}
    with kept.open("a") as results:
        for mutant in mutants(source, operators):
            entry = known.get(mutant.key)
            if entry is None or not (entry["killed"] or entry["tests"] == state):
                killed = not trial(file, mutant.source, tests, most_cpu_s).passed
                entry = {"key": mutant.key, "killed": killed, "tests": state}
                results.write(json.dumps(entry) + "\n")
                results.flush()
            yield mutant, entry["killed"]


def _digest(tests: Sequence[str]) -> str:
    """Of the contents of the test files."""
    files = [f for t in map(Path, tests) for f in (sorted(t.rglob("*.py")) if t.is_dir() else [t])]
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
