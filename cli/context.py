"""What every command needs: where the deployment is, how to print, how to fail.

A command talks to an embedded deployment (its data directory, `--home` or `TACIT_HOME`) or to any
service by `--url` and `--token` (`TACIT_URL`, `TACIT_TOKEN`). An error is one line on standard
error, with --json a problem document in one line; `ExitCode` says what kind of error it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import IntEnum
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Concatenate,
    Final,
    NoReturn,
    TypeVar,
    get_type_hints,
)

import httpx
import typer
from pydantic import ValidationError
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from cli.services.deployment import Deployment, ServiceAddress, trusted
from tacit import Client, NotFinished, Problem, RoundNotReleased
from tacit.errors import DomainError, Invalid, Malformed, TooLarge, UnsupportedForm
from tacit.wire import first_of

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

console = Console(soft_wrap=True, emoji=False)  # a name such as ":house:" is printed as it is
errors = Console(stderr=True, emoji=False)

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
TRUST_FILE = Path("tacit-trust.json")
_INLINE: Final = "the text given"


@dataclass(frozen=True)
class Target:
    """The service that a command talks to, as options of the command."""

    home: Home = DEFAULT_HOME
    url: Url = None
    token: Token = None

    def deployment(self) -> Deployment:
        """The embedded deployment of the data directory."""
        try:
            return Deployment.load(self.home)
        except FileNotFoundError:
            fail(
                f"no deployment in {self.home}: start one with `tacit up`, or name another with "
                "--home or TACIT_HOME, or give --url",
                ExitCode.NOT_READY,
            )

    def coordinator(self) -> Client:
        """A client of the coordinator."""
        return self._client(lambda deployment: deployment.coordinator)

    def curator(self) -> Client:
        """A client of the curator service."""
        return self._client(lambda deployment: deployment.curator)

    def service(self, name: str | None, *, curators: bool = True) -> Client:
        """A client of the service at --url, else of the one with this id in --home.

        `curators`: whether the curator service is one of them. Fails for another name.
        """
        if self.url is not None:
            return Client(self.url, self.token, verify=trusted(self.url))
        deployment = self.deployment()
        some = (deployment.coordinator, *deployment.aggregators)
        services = {item.id: item for item in (deployment.services if curators else some)}
        if name not in services:
            place = "--service" if curators else "SERVICE"
            fail(f"{place}: name one of {', '.join(services)}")
        return services[name].client()

    def _client(self, choose: Callable[[Deployment], ServiceAddress]) -> Client:
        if self.url is not None:
            return Client(self.url, self.token, verify=trusted(self.url))
        return choose(self.deployment()).client()


class ExitCode(IntEnum):
    """How a command ended."""

    DONE = 0
    FAILED = 1
    """Failed or aborted; what was checked is false."""
    USAGE = 2
    """The command or its input is wrong."""
    NOT_READY = 3
    """Not ready or no answer: the same command may succeed later."""
    REFUSED = 4
    """Refused by a policy, a budget or a right."""


REFUSALS: Final = frozenset(
    {
        "budget_exceeded",
        "budget_missing",
        "difference_refused",
        "disclosure_refused",
        "exact_refused",
        "paper_refused",
        "path_overspent",
        "policy_refused",
        "proof_required",
        "update_forbidden",
        "unverified_not_acknowledged",
        "wider_than_the_operators",
    }
)
"""Problems that say that a policy or a budget forbids what was asked, whatever their status."""
EARLY: Final = frozenset(
    {"aggregator_unreachable", "job_not_finished", "peer_unavailable", "url_unreachable"}
)
"""Problems that end when a party has done its work, or answers again."""
_json_errors: ContextVar[bool] = ContextVar("json_errors", default=False)


def exit_code(problem: Problem) -> ExitCode:
    """The exit code for the refusal of a service."""
    if problem.name in REFUSALS or problem.status in (401, 403):
        return ExitCode.REFUSED
    if problem.name == "not_released":
        return ExitCode.FAILED if problem.figures.get("state") == "aborted" else ExitCode.NOT_READY
    if problem.name in EARLY or problem.retryable or problem.status in (408, 429, 503):
        return ExitCode.NOT_READY
    failed = problem.status in (409, 410) or problem.status >= 500
    return ExitCode.FAILED if failed else ExitCode.USAGE


def fail(
    message: str, code: int = ExitCode.USAGE, problem: Mapping[str, object] | None = None
) -> NoReturn:
    """An error on standard error, and an exit code: one line, or with --json the `problem` of a
    service, else one whose detail is the message."""
    if _json_errors.get():
        document = {**(problem or {"detail": message}), "exit_code": int(code)}
        typer.echo(json.dumps(document), err=True)
    else:
        line = f"tacit: {message}"
        errors.print(line, style="red", markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(int(code))


@contextmanager
def plain_errors() -> Iterator[None]:
    """Print the errors of services and files as one error."""
    try:
        yield
    except typer.Exit:  # a RuntimeError too, but already printed
        raise
    except Problem as problem:
        fail(f"{problem.name}: {problem.sentence}", exit_code(problem), problem.problem)
    except DomainError as error:  # of this process, such as a transcript that is not anchored
        wrong_input = isinstance(error, Malformed | Invalid | TooLarge | UnsupportedForm)
        code = ExitCode.USAGE if wrong_input else ExitCode.FAILED
        fail(f"{error.name}: {error.detail or error.title}", code)
    except RoundNotReleased as error:
        fail(f"the round was aborted: {error}", ExitCode.FAILED)
    except httpx.TransportError as error:
        fail(f"no answer from {error}", ExitCode.NOT_READY)
    except (NotFinished, TimeoutError) as error:
        fail(str(error) or "it took too long", ExitCode.NOT_READY)
    except ValidationError as error:
        fail(first_of(error))
    except OSError as error:
        reason = (error.strerror or str(error) or type(error).__name__).lower()
        fail(f"{error.filename}: {reason}" if error.filename else reason)
    except (ValueError, RuntimeError) as error:
        fail(str(error).strip().splitlines()[0] if str(error) else type(error).__name__)


@dataclass(frozen=True)
class Answer:
    """The result of a command: `value` for --json, `human` prints it for people."""

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
    """A command that prints the answer of `ask`; adds the option --json."""

    @wraps(ask)
    def command(*, as_json: bool, **arguments: Any) -> None:
        before = _json_errors.set(as_json)
        try:
            with plain_errors():
                answer = ask(**arguments)
            answer.show(as_json)
        finally:
            _json_errors.reset(before)

    parameters = signature(ask, eval_str=True).parameters.values()
    as_json = Parameter("as_json", Parameter.KEYWORD_ONLY, default=False, annotation=AsJson)
    return grouped(_with_signature(command, [*parameters, as_json]))


def at(
    opened: Callable[[Target], AbstractContextManager[T]],
) -> Callable[[Callable[Concatenate[T, ...], Answer]], Callable[..., None]]:
    """A `printed` command whose first argument is what `opened` returns for the target; adds the
    options --home, --url and --token."""

    def decorate(ask: Callable[Concatenate[T, ...], Answer]) -> Callable[..., None]:
        @wraps(ask)
        def command(*, target: Target, **arguments: Any) -> Answer:
            with opened(target) as first:
                return ask(first, **arguments)

        parameters = list(signature(ask, eval_str=True).parameters.values())[1:]
        target = Parameter("target", Parameter.KEYWORD_ONLY, annotation=Target)
        return printed(_with_signature(command, [*parameters, target]))

    return decorate


at_coordinator = at(Target.coordinator)
at_curator = at(Target.curator)
at_target = at(nullcontext[Target])


def grouped(command: Callable[..., T]) -> Callable[..., T]:
    """`command` in the form that Typer reads: a parameter whose type is a dataclass becomes one
    option for each of its fields."""
    groups: dict[str, Any] = {}
    parameters: list[Parameter] = []
    for parameter in signature(command, eval_str=True).parameters.values():
        group = parameter.annotation
        if not is_dataclass(group):
            parameters.append(parameter)
            continue
        groups[parameter.name] = group
        hints = get_type_hints(group, include_extras=True)
        parameters += [
            Parameter(
                field.name,
                Parameter.KEYWORD_ONLY,
                default=Parameter.empty if field.default is MISSING else field.default,
                annotation=hints[field.name],
            )
            for field in fields(group)
        ]

    @wraps(command)
    def call(**values: Any) -> T:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        return command(**values)

    return _with_signature(call, parameters)


def _with_signature(command: Callable[..., T], parameters: Sequence[Parameter]) -> Callable[..., T]:
    """`command`, which takes keywords only, with the parameters from which Typer makes options."""
    keywords = [item.replace(kind=Parameter.KEYWORD_ONLY) for item in parameters]
    vars(command)["__signature__"] = Signature(keywords)
    return command


def say(text: str, *, markup: bool = True) -> None:
    """Print lines for people; markup=False prints brackets unchanged. A terminal gets them
    wrapped between words; a name that is longer than a line is never broken."""
    fits = console.is_terminal and max(map(len, text.split()), default=0) <= console.width
    console.print(text, highlight=False, markup=markup, soft_wrap=not fits)


def progress(*columns: ProgressColumn) -> Progress:
    """A bar on standard error that disappears at the end; `columns` replace the usual ones."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # 30 ms

    shown = columns or (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    return Progress(*shown, console=errors, transient=True)


@dataclass(frozen=True)
class TextTable:
    """A table of texts for `console.print` that breaks no word: if the words of a row do not fit
    side by side, each row is a list of `column: value`. Brackets are markup."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        grid = Table(
            title=self.title or None,
            title_justify="left",
            header_style="bold",
            show_header=any(self.columns),
        )
        for column in self.columns:
            grid.add_column(column)
        for row in self.rows:
            grid.add_row(*row)
        unbounded = options.update(max_width=10**6)
        if Measurement.get(console, unbounded, grid).minimum <= options.max_width:
            yield grid
            return
        yield Text(self.title)
        for row in self.rows:
            yield Text()
            for column, value in zip(self.columns, row, strict=True):
                yield Text.from_markup(f"{column}: {value}" if column else value)


def tabled(
    value: object, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]
) -> Answer:
    """An answer that people see as one table."""
    return Answer(value, lambda: console.print(TextTable(title, columns, rows)))


def digits(fingerprint: str) -> str:
    """A fingerprint in the form that people write: 64 hexadecimal digits, optionally with colons
    or blanks. Raises ValueError."""
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
    result = read_json(source)
    if not isinstance(result, dict):
        name = _INLINE if source.lstrip().startswith("{") else source[-60:]
        raise ValueError(f"{name}: is not a JSON object")
    return result
