"""Statements that are made once and asked again and again, on SQLite.

SQLAlchemy spends several times as long on a short statement as SQLite does. What it works out of a
statement (its text, the order of its parameters, the types on both sides) is the same each time. So
a statement that is the same object runs on the driver from its third execution on, with what was
worked out at the second. Statements that are built for one execution are left to SQLAlchemy, as is
whatever needs more of it: defaults made in Python, or rows returned for several sets of parameters.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, cast
from weakref import WeakSet

from sqlalchemy import (
    Connection,
    CursorResult,
    Delete,
    Dialect,
    Executable,
    Insert,
    Select,
    Update,
)
from sqlalchemy.engine.result import IteratorResult, SimpleResultMetaData
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.compiler import SQLCompiler

from common.store.transactions import Parameters

_Processor: TypeAlias = Callable[[Any], Any] | None
_Known: TypeAlias = Select[Any] | Insert | Update | Delete
_Use: TypeAlias = tuple[frozenset[str], bool]
"""With which parameters, and whether with several sets of them."""
_SHAPES: Final = 64
"""How many lengths of its lists are kept for one statement."""
_MOST: Final = 1024
"""Statements that are kept: more than there are in any service that made them once."""


class Rows(IteratorResult[Any]):
    """The rows of a statement, and how many it changed."""

    def __init__(self, keys: SimpleResultMetaData, rows: Iterable[Any], rowcount: int) -> None:
        super().__init__(keys, iter(rows))
        self.rowcount = rowcount


@dataclass(frozen=True)
class _Shape:
    """The text for lists of certain lengths, and its values in order: the parameter's name, the
    place in it if it is a list, and what makes of it what the driver takes."""

    text: str
    values: tuple[tuple[str, int | None, _Processor], ...]


@dataclass(frozen=True)
class _Prepared:
    """What is known of a statement. `constants`: the values that are part of it; `lists`: those of
    its values that are lists; `binds`: what makes of a value, or of each in its list, what the
    driver takes; `processors`: what makes the values of a row."""

    compiled: SQLCompiler
    constants: Mapping[str, Any]
    lists: tuple[str, ...]
    binds: Mapping[str, _Processor]
    keys: SimpleResultMetaData
    processors: tuple[_Processor, ...]
    shapes: dict[tuple[int, ...], _Shape] = field(default_factory=dict)

    def run(self, driver: sqlite3.Connection, sets: Sequence[Mapping[str, Any]]) -> Rows:
        """Execute it with one set of parameters, or with several."""
        cursor = driver.cursor()
        shape = self._shape(sets[0])
        try:
            if len(sets) > 1:
                cursor.executemany(shape.text, [self._values(shape, each) for each in sets])
            else:
                cursor.execute(shape.text, self._values(shape, sets[0]))
        except sqlite3.Error as error:  # as SQLAlchemy raises it
            raise DBAPIError.instance(
                shape.text, None, error, sqlite3.Error, hide_parameters=True
            ) from error
        rows: list[Any] = cursor.fetchall()
        if any(self.processors):
            rows = [
                tuple(
                    value if made is None else made(value)
                    for made, value in zip(self.processors, row, strict=True)
                )
                for row in rows
            ]
        return Rows(self.keys, rows, cursor.rowcount)

    def _values(self, shape: _Shape, parameters: Mapping[str, Any]) -> list[Any]:
        found = []
        for name, place, made in shape.values:
            value = self.constants[name] if name in self.constants else parameters[name]
            if place is not None:
                value = value[place]
            found.append(value if made is None else made(value))
        return found

    def _shape(self, parameters: Mapping[str, Any]) -> _Shape:
        lengths = tuple(len(parameters[name]) for name in self.lists if name in parameters)
        known = self.shapes.get(lengths)
        if known is None:
            if len(self.shapes) >= _SHAPES:
                self.shapes.clear()
            known = self.shapes[lengths] = self._shaped(parameters)
        return known

    def _shaped(self, parameters: Mapping[str, Any]) -> _Shape:
        state = self.compiled.construct_expanded_state(dict(parameters))
        parts = {
            part: (name, place)
            for name in self.lists
            for place, part in enumerate(state.parameter_expansion[name])
        }
        places = [parts.get(name, (name, None)) for name in state.positiontup or ()]
        return _Shape(
            state.statement, tuple((name, place, self.binds[name]) for name, place in places)
        )


class Statements:
    """The statements that a database has executed before."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._seen: WeakSet[Executable] = WeakSet()
        self._known: dict[Executable, dict[_Use, _Prepared | None]] = {}

    def execute(
        self,
        connection: Connection,
        driver: sqlite3.Connection,
        statement: Executable,
        parameters: Parameters,
    ) -> CursorResult[*tuple[Any, ...]]:
        """The rows, or the count of a statement. `driver`: the connection below SQLAlchemy's.
        Raises what SQLAlchemy raises."""
        if not isinstance(statement, _Known):
            return connection.execute(statement, parameters)
        sets = [parameters or {}] if not isinstance(parameters, Sequence) else parameters
        if not sets:
            return connection.execute(statement, parameters)
        use = frozenset(sets[0]), len(sets) > 1
        uses = self._known.get(statement, {})
        prepared = uses.get(use)
        if prepared is None:
            result = connection.execute(statement, parameters)
            if use not in uses:
                self._look_at(statement, use, result)
            return result
        return cast("CursorResult[*tuple[Any, ...]]", prepared.run(driver, sets))

    def _look_at(self, statement: _Known, use: _Use, result: CursorResult[Any]) -> None:
        """After an execution: prepare a statement that was seen before. It is kept, and what is
        known of it; one that is seen once is not."""
        if statement not in self._seen:
            self._seen.add(statement)
            return
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known.setdefault(statement, {})[use] = self._prepared(statement, use, result)

    def _prepared(
        self,
        statement: Select[Any] | Insert | Update | Delete,
        use: _Use,
        result: CursorResult[Any],
    ) -> _Prepared | None:
        """What is known of a statement after this result; None where SQLAlchemy is needed."""
        names, several = use
        compiled = statement.compile(dialect=self._dialect, column_keys=sorted(names))
        columns = tuple(statement.exported_columns) if result.returns_rows else ()
        keys = list(result.keys()) if result.returns_rows else []
        if (
            not isinstance(compiled, SQLCompiler)
            or compiled.prefetch
            or compiled.escaped_bind_names
            or compiled.literal_execute_params
            or (several and columns)
            or len(keys) != len(columns)
            or any(bind.callable is not None for bind in compiled.bind_names)
        ):
            return None
        binds = {name: bind for bind, name in compiled.bind_names.items()}
        lists = tuple(sorted(name for name, bind in binds.items() if bind.expanding))
        return _Prepared(
            compiled,
            {name: bind.value for name, bind in binds.items() if name not in names},
            lists,
            {
                name: bind.type.dialect_impl(self._dialect).bind_processor(self._dialect)
                for name, bind in binds.items()
            },
            SimpleResultMetaData(keys),
            tuple(
                column.type.dialect_impl(self._dialect).result_processor(self._dialect, None)
                for column in columns
            ),
        )
