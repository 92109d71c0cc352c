"""What every command needs: where the deployment is, how to print, how to fail.

A command talks to an embedded deployment (its data directory, `--home` or `TACIT_HOME`) or to any
service by `--url` and `--token` (`TACIT_URL`, `TACIT_TOKEN`). Errors are one line, exit code 2.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Concatenate, Final, NoReturn, TypeVar

import httpx
import typer
from pydantic import ValidationError
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from cli.services.deployment import Deployment, ServiceAddress, trusted
from tacit import Client, Problem, RoundNotReleased
from tacit.errors import DomainError
from tacit.field_errors import first_of

console = Console()
errors = Console(stderr=True)

Home = Annotated[
    Path, typer.Option("--home", envvar="TACIT_HOME", help="Data directory of `tacit up`.")
]
Url = Annotated[
    str | None, typer.Option("--url", envvar="TACIT_URL", help="A service, instead of --home.")
]
Token = Annotated[
    str | None, typer.Option("--token", envvar="TACIT_TOKEN", help="The API token for --url.")
]
Full = Annotated[bool, typer.Option("--full", help="Print every statement of the report whole.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

DEFAULT_HOME = Path(".tacit")
_INLINE: Final = "the text given"


@dataclass(frozen=True)
class Target:
    """Where the commands of one invocation go."""

    home: Path = DEFAULT_HOME
    url: str | None = None
    token: str | None = None

    def deployment(self) -> Deployment:
        """The embedded deployment of the data directory."""
        try:
            return Deployment.load(self.home)
        except FileNotFoundError:
            fail(
                f"no deployment in {self.home}: start one with `tacit up`, or name another with "
                "--home or TACIT_HOME, or give --url"
            )

    def coordinator(self) -> Client:
        """A client of the coordinator."""
        return self._client(lambda deployment: deployment.coordinator)

    def curator(self) -> Client:
        """A client of the curator service."""
        return self._client(lambda deployment: deployment.curator)

    def _client(self, choose: Callable[[Deployment], ServiceAddress]) -> Client:
        if self.url is not None:
            return Client(self.url, self.token, verify=trusted(self.url))
        return choose(self.deployment()).client()


def fail(message: str, code: int = 2) -> NoReturn:
    """One line on standard error, and an exit code."""
    errors.print(f"tacit: {message}", style="red", markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(code)


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn what services and files answer into one line."""
    try:
        yield
    except typer.Exit:  # a RuntimeError too, but said already
        raise
    except Problem as problem:
        fail(_describe(problem))
    except DomainError as error:  # found here, such as a transcript that is not anchored
        fail(f"{error.name}: {error.detail or error.title}")
    except RoundNotReleased as error:
        fail(f"the round was aborted: {error}")
    except httpx.TransportError as error:
        fail(f"no answer from {error}")
    except ValidationError as error:
        fail(first_of(error))
    except OSError as error:
        what = (error.strerror or str(error) or type(error).__name__).lower()
        fail(f"{error.filename}: {what}" if error.filename else what)
    except (ValueError, RuntimeError, TimeoutError) as error:
        fail(str(error).strip().splitlines()[0] if str(error) else type(error).__name__)


def _describe(problem: Problem) -> str:
    return f"{problem.name}: {problem.sentence}"


@dataclass(frozen=True)
class Answer:
    """What a command found: `value` for --json, `human` prints it for people."""

    value: object
    human: Callable[[], object]
    exit_code: int = 0

    def show(self, as_json: bool) -> None:
        """Print it. Raises typer.Exit where the exit code is not 0."""
        if as_json:
            typer.echo(json.dumps(self.value, indent=2, default=dict))
        else:
            self.human()
        if self.exit_code:
            raise typer.Exit(self.exit_code)


T = TypeVar("T")


def printed(ask: Callable[..., Answer]) -> Callable[..., None]:
    """A command that prints what `ask` answers; adds the option --json."""

    def command(*, as_json: AsJson = False, **own: Any) -> None:
        with plain_errors():
            answer = ask(**own)
        answer.show(as_json)

    return _with_parameters_of(ask, command)


def at(
    opened: Callable[[Target], AbstractContextManager[T]],
) -> Callable[[Callable[Concatenate[T, ...], Answer]], Callable[..., None]]:
    """A `printed` command whose function gets, first, what `opened` makes of the target; adds the
    options --home, --url and --token."""

    def decorate(ask: Callable[Concatenate[T, ...], Answer]) -> Callable[..., None]:
        def command(
            *, home: Home = DEFAULT_HOME, url: Url = None, token: Token = None, **own: Any
        ) -> Answer:
            with opened(Target(home, url, token)) as first:
                return ask(first, **own)

        return printed(_with_parameters_of(ask, command, given=1))

    return decorate


at_coordinator = at(Target.coordinator)
at_curator = at(Target.curator)
at_target = at(nullcontext[Target])


def _with_parameters_of(
    ask: Callable[..., object], command: Callable[..., T], *, given: int = 0
) -> Callable[..., T]:
    """`command` as Typer reads it: name and help of `ask`, the parameters of `ask` but the first
    `given`, which `command` itself passes, and then its own keywords."""
    found = list(signature(ask, eval_str=True).parameters.values())[given:]
    keywords = signature(command, eval_str=True).parameters.values()
    found += [each for each in keywords if each.kind is Parameter.KEYWORD_ONLY]
    result = wraps(ask)(command)
    vars(result)["__signature__"] = Signature(found)
    return result


def say(text: str, *, markup: bool = True) -> None:
    """Print a line for people, as it is written; brackets too, with markup=False."""
    console.print(text, highlight=False, markup=markup)


def progress(*columns: ProgressColumn) -> Progress:
    """A bar on standard error that is gone when it is full; `columns`: in place of its own."""
    shown = columns or (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    return Progress(*shown, console=errors, transient=True)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A rich table of texts."""
    result = Table(
        title=title or None,
        title_justify="left",
        header_style="bold",
        show_header=any(columns),
    )
    for column in columns:
        result.add_column(column, overflow="fold")  # an id that is cut cannot be copied
    for row in rows:
        result.add_row(*row)
    return result


def tabled(
    value: object, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]
) -> Answer:
    """An answer that people see as one table."""
    return Answer(value, lambda: console.print(table(title, columns, rows)))


def digits(fingerprint: str) -> str:
    """A fingerprint as people write it: 64 hexadecimal digits, with colons or blanks if they like.

    Raises ValueError.
    """
    plain = fingerprint.replace(":", "").replace(" ", "").lower()
    if len(plain) != 64 or not set(plain) <= set("0123456789abcdef"):
        raise ValueError("a fingerprint has 64 hexadecimal digits")
    return plain


def read_json(source: str) -> Any:
    """JSON from a file, or inline when the text begins with a brace."""
    inline = source.lstrip().startswith("{")
    name = _INLINE if inline else source[-60:]
    try:
        text = source if inline else Path(source).read_text("utf-8-sig")
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise ValueError(f"{name}: not JSON, {place}: {error.msg}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{name}: is not text in UTF-8") from None
    except RecursionError:
        raise ValueError(f"{name}: not JSON that is read here: too deep") from None


def read_table(source: str) -> dict[str, Any]:
    """A JSON object from a file, or inline. Raises ValueError for any other JSON."""
    found = read_json(source)
    if not isinstance(found, dict):
        name = _INLINE if source.lstrip().startswith("{") else source[-60:]
        raise ValueError(f"{name}: is not a JSON object")
    return found
