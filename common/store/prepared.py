"""Statements that are made once and asked again and again, with what is worked out of them once.

SQLAlchemy spends several times as long on a short statement as a database does. What it works out
of a statement (its text, the order of its parameters, the types on both sides) is the same each
time. So a statement that is the same object runs on the driver from its third execution on, with
what was worked out at the second. Statements that are built for one execution are left to
SQLAlchemy, as is whatever needs more of it: defaults made in Python, or rows returned for several
sets of parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, cast
from weakref import WeakSet

from sqlalchemy import (
    CursorResult,
    Delete,
    Dialect,
    Executable,
    Float,
    Insert,
    Numeric,
    Row,
    Select,
    Update,
)
from sqlalchemy.engine.result import IteratorResult, SimpleResultMetaData
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


class Rows:
    """The rows of a statement, and how many it changed: what SQLAlchemy's result does, without the
    machinery of it where rows are asked for in one of the usual ways."""

    __slots__ = ("_keys", "_rows", "rowcount")

    def __init__(
        self, keys: SimpleResultMetaData, rows: Sequence[tuple[Any, ...]], rowcount: int
    ) -> None:
        self._keys, self._rows, self.rowcount = keys, rows, rowcount

    def __iter__(self) -> Iterator[Row[Any]]:
        return map(self._row, self._rows)

    def __getattr__(self, name: str) -> Any:
        return getattr(IteratorResult(self._keys, iter(self._rows)), name)

    def all(self) -> list[Row[Any]]:
        """Every row."""
        return list(self)

    def first(self) -> Row[Any] | None:
        """The first row, if there is one."""
        return self._row(self._rows[0]) if self._rows else None

    def one(self) -> Row[Any]:
        """The only row. Raises NoResultFound, MultipleResultsFound."""
        if len(self._rows) != 1:
            return cast("Row[Any]", IteratorResult(self._keys, iter(self._rows)).one())
        return self._row(self._rows[0])

    def scalar_one(self) -> Any:
        """The first value of the only row. Raises NoResultFound, MultipleResultsFound."""
        return self.one()[0]

    def _row(self, values: tuple[Any, ...]) -> Row[Any]:
        return Row(self._keys, None, self._keys._key_to_index, values)


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
    driver takes; `processors`: what makes a value of a row, by its place; `returns`: whether there
    are rows."""

    compiled: SQLCompiler
    constants: Mapping[str, Any]
    lists: tuple[str, ...]
    binds: Mapping[str, _Processor]
    keys: SimpleResultMetaData
    processors: tuple[tuple[int, Callable[[Any], Any]], ...]
    returns: bool
    shapes: dict[tuple[int, ...], _Shape] = field(default_factory=dict)

    def bound(self, sets: Sequence[Mapping[str, Any]]) -> tuple[str, list[list[Any]]]:
        """The text for these sets of parameters, and the driver's values of each."""
        shape = self.shapes[()] if not self.lists else self._shape(sets[0])
        bound = []
        for parameters in sets:
            values: list[Any] = []
            for name, place, process in shape.values:
                value = self.constants[name] if name in self.constants else parameters[name]
                if place is not None:
                    value = value[place]
                values.append(value if process is None else process(value))
            bound.append(values)
        return shape.text, bound

    def result(self, rows: list[Any], rowcount: int) -> Any:
        """What was asked for, of the driver's rows: a `Rows`, which does for SQLAlchemy's."""
        for number, row in enumerate(rows if self.processors else ()):
            values = list(row)
            for place, process in self.processors:
                values[place] = None if row[place] is None else process(row[place])
            rows[number] = tuple(values)
        return Rows(self.keys, rows, rowcount)

    def _shape(self, parameters: Mapping[str, Any]) -> _Shape:
        lengths = tuple([len(parameters[name]) for name in self.lists if name in parameters])
        shape = self.shapes.get(lengths)
        if shape is None:
            if len(self.shapes) >= _SHAPES:
                self.shapes.clear()
            shape = self.shapes[lengths] = self.shape_of(parameters)
        return shape

    def shape_of(self, parameters: Mapping[str, Any]) -> _Shape:
        """The shape for lists as long as in these parameters."""
        state = self.compiled.construct_expanded_state(dict(parameters))
        parts = {
            part: (name, place)
            for name in self.lists
            for place, part in enumerate(state.parameter_expansion[name])
        }
        places = [parts.get(name, (name, None)) for name in state.positiontup or ()]
        values = [(name, place, self.binds[name]) for name, place in places]
        return _Shape(state.statement, tuple(values))


_Bound: TypeAlias = tuple[_Prepared, str, list[list[Any]]]
"""A statement as it is prepared, its text, and the values for one execution, or for several."""


def _sets(parameters: Any) -> Sequence[Mapping[str, Any]]:
    several: Sequence[Mapping[str, Any]]
    several = parameters if isinstance(parameters, list | tuple) else (parameters or {},)
    return several


class Statements:
    """The statements that a database has executed before."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._seen: WeakSet[Executable] = WeakSet()
        self._known: dict[Executable, dict[_Use, _Prepared | None]] = {}

    def known(self, statement: Executable, parameters: Parameters) -> _Bound | None:
        """How to execute it on the driver; None where SQLAlchemy has to, see `note`."""
        uses = self._known.get(statement)
        if not uses:
            return None
        sets = _sets(parameters)
        prepared = uses.get((frozenset(sets[0]), len(sets) > 1)) if sets else None
        return None if prepared is None else (prepared, *prepared.bound(sets))

    def note(
        self, statement: Executable, parameters: Parameters, result: CursorResult[Any]
    ) -> None:
        """SQLAlchemy executed it: prepare a statement that was seen before. It is kept, and what is
        known of it; one that is seen once is not."""
        sets = _sets(parameters)
        if not sets or not isinstance(statement, _Known):
            return
        use = frozenset(sets[0]), len(sets) > 1
        if use in self._known.get(statement, ()):
            return
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
        columns = tuple(statement.exported_columns)
        keys = list(result.keys()) if columns else []  # else the key of a new row, for SQLAlchemy
        if (
            not isinstance(compiled, SQLCompiler)
            or compiled.prefetch
            or compiled.escaped_bind_names
            or compiled.literal_execute_params
            or (several and columns)
            or len(keys) != len(columns)
            or any(bind.callable is not None for bind in compiled.bind_names)
            or any(isinstance(column.type, Numeric) for column in columns)
        ):
            return None
        binds = {name: bind for bind, name in compiled.bind_names.items()}
        lists = tuple(sorted(name for name, bind in binds.items() if bind.expanding))
        processors = [self._processor(column) for column in columns]
        prepared = _Prepared(
            compiled,
            {name: bind.value for name, bind in binds.items() if name not in names},
            lists,
            {
                name: bind.type.dialect_impl(self._dialect).bind_processor(self._dialect)
                for name, bind in binds.items()
            },
            SimpleResultMetaData(keys),
            tuple(
                (place, processor)
                for place, processor in enumerate(processors)
                if processor is not None
            ),
            bool(columns),
        )
        if not lists:
            prepared.shapes[()] = prepared.shape_of(dict.fromkeys(names))
        return prepared

    def _processor(self, column: Any) -> _Processor:
        if isinstance(column.type, Float):  # SQLAlchemy's depends on the server's own type
            return float
        impl = column.type.dialect_impl(self._dialect)
        processor: _Processor = impl.result_processor(self._dialect, None)
        return processor
