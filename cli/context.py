"""What every command needs: where the deployment is, how to print, how to fail.

A command talks to an embedded deployment (its data directory, `--home` or `TACIT_HOME`) or to any
service by `--url` and `--token` (`TACIT_URL`, `TACIT_TOKEN`). Errors are one line, exit code 2.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn

import httpx
import typer
from pydantic import ValidationError
from rich.console import Console
from rich.table import Table

from cli.deployment import Deployment, ServiceAddress, trusted
from tacit import Client, Problem, RoundNotReleased

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
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

DEFAULT_HOME = Path(".tacit")


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
            fail(f"no deployment in {self.home}: start one with `tacit up`, or give --url")

    def coordinator(self) -> Client:
        """A client of the coordinator."""
        return self._client(lambda deployment: deployment.coordinator)

    def curator(self) -> Client:
        """A client of the curator service."""
        return self._client(lambda deployment: deployment.curator)

    def _client(self, choose: Any) -> Client:
        if self.url is not None:
            return Client(self.url, self.token, verify=trusted(self.url))
        service: ServiceAddress = choose(self.deployment())
        return service.client()


def fail(message: str) -> NoReturn:
    """One line on standard error, and exit code 2."""
    errors.print(f"tacit: {message}", style="red", markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(2)


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn what services and files answer into one line."""
    try:
        yield
    except typer.Exit:  # a RuntimeError too, but said already
        raise
    except Problem as problem:
        fail(_describe(problem))
    except RoundNotReleased as error:
        fail(f"the round was aborted: {error}")
    except httpx.TransportError as error:
        fail(f"no answer: {error}")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        fail(f"{'/'.join(str(part) for part in first['loc']) or 'document'}: {first['msg']}")
    except (OSError, ValueError, RuntimeError, TimeoutError) as error:
        fail(str(error).strip().splitlines()[0] if str(error) else type(error).__name__)


def _describe(problem: Problem) -> str:
    document = problem.problem
    text = str(document.get("detail") or document.get("title") or problem.name)
    items = document.get("errors")
    if isinstance(items, list) and items:
        places = "; ".join(f"{item['pointer'] or '/'}: {item['detail']}" for item in items[:5])
        text = f"{text} ({places})"
    return f"{problem.name}: {text}"


def show(value: object, as_json: bool, human: Any) -> None:
    """Print a value as JSON, or call `human` to print it for people."""
    if as_json:
        typer.echo(json.dumps(value, indent=2))
    else:
        human()


def table(title: str, columns: list[str], rows: list[list[str]]) -> Table:
    """A rich table of texts."""
    result = Table(
        title=title or None,
        title_justify="left",
        header_style="bold",
        show_header=any(columns),
    )
    for column in columns:
        result.add_column(column)
    for row in rows:
        result.add_row(*row)
    return result


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
    try:
        text = source if source.lstrip().startswith("{") else Path(source).read_text("utf-8")
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise ValueError(f"{source[-60:]}: not JSON, {place}: {error.msg}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{source[-60:]}: is not text in UTF-8") from None
    except RecursionError:
        raise ValueError(f"{source[-60:]}: not JSON that is read here: too deep") from None


def read_table(source: str) -> dict[str, Any]:
    """A JSON object from a file, or inline. Raises ValueError for any other JSON."""
    found = read_json(source)
    if not isinstance(found, dict):
        raise ValueError(f"{source[-60:]}: is not a JSON object")
    return found
