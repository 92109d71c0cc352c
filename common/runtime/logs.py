"""Logging through structlog: one line per event, JSON or console, the standard library routed in.

Values that must stay private are refused by key (`DENIED`), at any depth. An exception is logged
by its type and place only: its message and its frames may hold private values, so neither is
ever written, regardless of the logger.
"""

import logging
import re
import sys
import traceback
from collections import deque
from collections.abc import Mapping, MutableMapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal, TextIO

import structlog

DENIED: Final = frozenset(
    {
        "reading",
        "value",
        "share",
        "noise",
        "partial",
        "token",
        "secret",
        "sealed",
        "private",
        "password",
        "authorization",
    }
)
REDACTED: Final = "[redacted]"

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_QUIET = ("aiohttp", "httpx", "httpcore", "asyncpg", "sqlalchemy", "alembic", "multipart")


@lru_cache(maxsize=1024)  # keys are few, and asked for with every event
def denied(key: str) -> bool:
    """Whether a key names something that is never logged (`readings`, `token_hash`, `myShare`)."""
    words = (word.lower() for word in _WORD.findall(key))
    return any(word in DENIED or word.removesuffix("s") in DENIED for word in words)


def redact(value: Any) -> Any:
    """A copy in which every denied key of every mapping has the value `REDACTED`, and bytes are
    replaced by their size."""
    if isinstance(value, Mapping):
        return {
            key: REDACTED if isinstance(key, str) and denied(key) else redact(item)
            for key, item in value.items()
        }
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"[{len(value)} bytes]"
    if isinstance(value, BaseException):
        return type(value).__qualname__
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [redact(item) for item in value]
    return value


def describe(error: BaseException) -> dict[str, str]:
    """What may be logged of an exception: its type, the place that raised it, and the code of a
    database's error."""
    kind = type(error)
    described = {"error": f"{kind.__module__}.{kind.__qualname__}"}
    cause = getattr(error, "orig", None)  # SQLAlchemy's name for the driver's own exception
    code = getattr(cause, "sqlite_errorname", None) or getattr(cause, "sqlstate", None)
    if isinstance(code, str):
        described["code"] = code
    frames = traceback.extract_tb(error.__traceback__)
    if frames:
        last = frames[-1]
        described["place"] = f"{last.filename.rsplit('/', 1)[-1]}:{last.name}:{last.lineno}"
    return described


def _redacted(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for key in list(event):
        if not key.startswith("_"):
            event[key] = REDACTED if denied(key) else redact(event[key])
    return event


def _without_traceback(_: Any, __: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    info = event.pop("exc_info", None)
    event.pop("stack_info", None)
    record = event.get("_record")
    if info is None and isinstance(record, logging.LogRecord):
        info = record.exc_info
    if info is True:
        info = sys.exc_info()
    error = info[1] if isinstance(info, tuple) else info
    if isinstance(error, BaseException):
        event.update(describe(error))
    if isinstance(record, logging.LogRecord):
        record.exc_info = None
        record.exc_text = None
        record.stack_info = None
    return event


LINES_KEPT: Final = 500
_lines: deque[str] = deque(maxlen=LINES_KEPT)


class _Keeping(logging.StreamHandler[TextIO]):
    """Keeps the last lines, as they were written."""

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        _lines.append(line)
        return line


def recent_lines() -> list[str]:
    """The last lines that this process logged, the oldest first."""
    return list(_lines)


def configure_logging(
    level: str = "info",
    form: Literal["json", "console"] = "json",
    *,
    stream: TextIO | None = None,
) -> None:
    """Set up structlog and the standard library's root logger; the last call applies."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        _without_traceback,
        _redacted,
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer(default=lambda item: type(item).__qualname__)
        if form == "json"
        else structlog.dev.ConsoleRenderer(colors=False)
    )
    handler = _Keeping(stream or sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    for old in list(root.handlers):
        if isinstance(old.formatter, structlog.stdlib.ProcessorFormatter):
            root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(logging.NOTSET)


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """A logger that takes an event name and key-value pairs, never a formatted message."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return logger
