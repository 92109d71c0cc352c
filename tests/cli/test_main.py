"""The list of commands: each loaded when it is called, and the list is true."""

from __future__ import annotations

import subprocess
import sys

import typer
from typer.testing import CliRunner

from cli.main import COMMANDS, Commands, app
from tacit.version import VERSION


def test_the_list_says_what_each_command_says() -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, Commands)
    for name, command in COMMANDS.items():
        listed = group.commands[name].help
        assert listed is not None
        loaded = command.load(name)
        assert loaded.name == name
        assert " ".join(loaded.help.split()).startswith(listed.rstrip("."))


def test_the_list_imports_no_client_and_no_numbers() -> None:
    """So it is there at once; what is called imports what it needs."""
    code = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from cli.main import app\n"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0\n"
        "print([name for name in ('httpx', 'numpy', 'fastapi', 'sqlalchemy', 'tacit.client')"
        " if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_version_is_that_of_the_library() -> None:
    done = CliRunner().invoke(app, ["--version"])
    assert (done.exit_code, done.output) == (0, f"tacit {VERSION}\n")


def test_a_misspelt_command_is_told_the_nearest() -> None:
    done = CliRunner().invoke(app, ["roumd", "list"])
    assert done.exit_code == 2
    assert "'round'" in done.output
