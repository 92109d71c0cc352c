"""Runs a page of the documentation as a reader would: its commands, in order, in one shell.

A fenced block whose language is `bash` is run; words after the language say how:

    bash                 in the page's one shell session; must end with exit code 0
    bash exit=2          the same; must end with this exit code
    bash terminal        one command, in a terminal of its own, where it runs until the page ends

A `text` block directly after one is what it prints (standard output and errors together), compared
line by line without trailing blanks: `...` within a line stands for any text, a line of `...` alone
for any lines. Other blocks (`json`, `console`, ...) are not run.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^```(\w*)[ ]*(.*)$")
_END = "tacit-walkthrough-end"
PATIENCE_S = 240.0
"""It only ends a hang: jobs of three rounds take a loaded machine minutes."""


@dataclass(frozen=True)
class Step:
    """A block to run, and what it prints if the page says so."""

    line: int
    script: str
    options: tuple[str, ...]
    expected: str | None

    @property
    def exit_code(self) -> int:
        """With which the block must end."""
        found = [item.removeprefix("exit=") for item in self.options if item.startswith("exit=")]
        return int(found[0]) if found else 0


def steps_of(page: str) -> list[Step]:
    """The blocks of a page that are run, in order."""
    blocks: list[tuple[int, str, str, str, bool]] = []
    start, language, options, body = 0, "", "", list[str]()
    prose = False
    for number, line in enumerate(page.splitlines(), 1):
        fence = _FENCE.match(line)
        if start and line == "```":
            blocks.append((start, language, options, "\n".join(body), prose))
            start, prose = 0, False
        elif start:
            body.append(line)
        elif fence is not None:
            start, (language, options), body = number, fence.groups(), []
        else:
            prose |= bool(line.strip())
    assert not start, f"line {start}: a block without an end"
    steps = []
    following = [*blocks[1:], None]
    for (at, kind, words, script, _), after in zip(blocks, following, strict=True):
        if kind == "bash":
            printed = after is not None and after[1] == "text" and not after[4]
            expected = after[3] if after is not None and printed else None
            steps.append(Step(at, script, tuple(words.split()), expected))
    return steps


def pattern_of(expected: str) -> re.Pattern[str]:
    """What the text of a page allows to be printed."""
    parts = []
    for line in expected.splitlines():
        if line.strip() == "...":
            parts.append(r"(?:.*\n)*?")
        else:
            cells = (re.escape(cell) for cell in line.rstrip().split("..."))
            parts.append(".*".join(cells) + r"\n")
    return re.compile("".join(parts))


def plain(printed: str) -> str:
    """What was printed, without trailing blanks and empty lines at either end."""
    lines = [line.rstrip() for line in printed.splitlines()]
    return "\n".join(lines).strip("\n") + "\n"


class Shell:
    """One bash session; everything it started ends with it."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=directory,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._lines: list[str] = []
        self._changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                self._lines.append(line.decode())
                self._changed.notify_all()

    def send(self, script: str) -> None:
        """Type commands."""
        assert self._process.stdin is not None
        self._process.stdin.write((script + "\n").encode())
        self._process.stdin.flush()

    def run(self, script: str, timeout_s: float) -> tuple[int, str]:
        """Commands to their end: exit code, and what they printed."""
        self.send(f"{script}\nprintf '\\n{_END} %s\\n' $?")
        end = time.monotonic() + timeout_s
        with self._changed:
            while not (self._lines and self._lines[-1].startswith(_END)):
                left = end - time.monotonic()
                assert left > 0, f"still running after {timeout_s:.0f} s:\n{script}\n{self.shown()}"
                self._changed.wait(left)
            *printed, last = self._lines
            self._lines.clear()
        return int(last.split()[1]), "".join(printed)

    def shown(self) -> str:
        """What was printed and not taken yet."""
        return "".join(self._lines)

    def wait_for(self, pattern: re.Pattern[str], timeout_s: float) -> bool:
        """Whether what is printed matches in time."""
        end = time.monotonic() + timeout_s
        with self._changed:
            while not pattern.fullmatch(plain(self.shown())):
                if time.monotonic() > end or self._process.poll() is not None:
                    return False
                self._changed.wait(0.2)
        return True

    def end(self) -> None:
        """Ctrl-C and then, if need be, force."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        for number, patience_s in ((signal.SIGINT, 15), (signal.SIGTERM, 5), (signal.SIGKILL, 5)):
            try:
                os.killpg(self._process.pid, number)
                self._process.wait(patience_s)
            except ProcessLookupError:
                break
            except subprocess.TimeoutExpired:
                continue


def walk(
    page: Path,
    directory: Path,
    variables: dict[str, str],
    timeout_s: float = PATIENCE_S,
    first: Path | None = None,
) -> None:
    """Run a page in a directory, with the commands of a folder before all others; AssertionError
    names the line that is not true any more."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TACIT_")}
    own = Path(sys.executable).parent
    tools = str(own) if first is None else f"{first}:{own}"
    environment = kept | {"PATH": f"{tools}:{kept['PATH']}", "PYTHONUTF8": "1"} | variables
    main = Shell(directory, environment)
    terminals: list[Shell] = []
    try:
        for step in steps_of(page.read_text(encoding="utf-8")):
            place = f"{page.name}, line {step.line}"
            if "terminal" in step.options:
                terminals.append(Shell(directory, environment))
                terminals[-1].send(f"exec env {step.script}")
                pattern = pattern_of(step.expected or "...")
                ready = terminals[-1].wait_for(pattern, PATIENCE_S)
                assert ready, _difference(place, step, terminals[-1].shown())
                continue
            code, printed = main.run(step.script, timeout_s)
            assert code == step.exit_code, f"{place}: exit code {code}\n{step.script}\n{printed}"
            if step.expected is not None:
                matches = pattern_of(step.expected).fullmatch(plain(printed))
                assert matches, _difference(place, step, printed)
    finally:
        for shell in (*terminals, main):
            shell.end()


def _difference(place: str, step: Step, printed: str) -> str:
    return (
        f"{place}: the page is not true any more\n$ {step.script}\n"
        f"--- the page says\n{step.expected}\n--- printed\n{plain(printed)}"
    )
