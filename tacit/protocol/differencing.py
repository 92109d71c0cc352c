"""The differencing guard: which sets of curators may not be summed in addition to earlier ones.

Subtracting two sums over almost the same curators reveals the few in which they differ; so does
subtracting from a total the parts that almost make it up. Releases of one family whose windows
overlap are therefore compared by their *member sets*, bitmaps over roster numbers. Pure: the
coordinator checks before it freezes a round, and every aggregator checks itself before it commits
to one.

With S one of the sets, T_1..T_m others of them, and the new set among them all, the guard refuses

- a *part*: the difference `1_S - (1_T1 + ... + 1_Tm)` has a nonzero coefficient for at least one
  curator, but for fewer than the minimum. One T is the plain pair, |S xor T|. Several T are the
  feeders of a substation; it does not matter whether they were declared as such: the comparison
  includes all declared sets, and a false declaration changes nothing;
- a *cover*: all T that lie within S (|T \\ S| below the minimum) differ together from S,
  |S xor union(T)|, by at least one curator, but by fewer than the minimum. Where parts overlap this
  refuses more than subtraction alone could use, so it concerns only sets that all ask for
  protection themselves (a minimum above 1): two sums of nearly all curators, some of which drop
  out, overlap nearly wholly and would block every later one.

The minimum is the largest that any set involved asks for. Equal sets differ in no curator and pass.
Of windows it matters only whether they meet: a difference of sums over several windows is, at each
instant, a difference of the sets that cover it, and each of these is one that was compared.

A query that declares a family asks for this protection against every other sum over its register,
whatever family that sum declares. A query that declares none asks for it among its own rounds only
(`scopes`).

Not covered: combinations with other coefficients, such as S + T - U, of which there are too many to
try, and sums of which none declares a family. Against those there are noise and the budget, and
nothing at all where a round is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.errors import Conflict
from tacit.protocol.federation import step_of
from tacit.query.query import Query
from tacit.query.terms import Mechanism

Words = NDArray[np.uint64]
Ints = NDArray[np.int64]

MOST_LOOKS: Final = 20_000
"""After this many steps the search for parts of a set gives up, and the round is refused."""
NAMED: Final = 3
"""At most this many earlier rounds are named in a refusal."""


class DifferenceRefused(Conflict):
    """`rounds` are earlier ones, `minimum` what a difference has to reach."""

    name = "difference_refused"
    title = "Together with earlier released sums, this round would reveal a small group of curators"


@dataclass(frozen=True, slots=True)
class Release:
    """A set of curators whose sum was opened, or is about to be.

    `members`: bitmap as in `tacit.sets`; its length depends on the round's roster. `minimum`:
    how many curators a difference must concern at least. `job`: the steps of one federated job
    are not compared with one another, as every curator has seen and pays for each; else None.
    """

    round: str
    members: bytes
    minimum: int
    job: str | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a set is refused: the rule, the earlier rounds with which it fails, the minimum.

    It names no member and no number of members: the size of the difference would itself disclose
    something.
    """

    reason: str
    rounds: tuple[str, ...]
    minimum: int

    def error(self) -> DifferenceRefused:
        """The refusal as a problem."""
        return DifferenceRefused(
            self.reason, extra={"rounds": list(self.rounds), "minimum": self.minimum}
        )


def scopes(query: Query, floor: int = 1) -> dict[str, int]:
    """The scopes in which a query's releases are compared, and how many curators a difference must
    concern in each.

    All releases over one register are in its scope. There a query with a family is protected by
    its minimum, or by `floor` if that is larger, and so is an exact query, which has no noise to
    protect anyone. Other queries require nothing there: with a minimum of 1 they are only
    recorded for those that do. A step of a job is compared in the scope of every register of
    which it takes statistics; a step over rows of a table reads no register.
    """
    minimum = max(minimum_of(query), floor)
    guarded = query.family is not None or query.mechanism is Mechanism.EXACT
    # Only of a step do curators check the registers that it names.
    read = (*(query.registers or ()), *(() if _is_step(query) else (query.register_name,)))
    found = {f"register {name}": minimum if guarded else 1 for name in read}
    if query.family is not None:
        found[f"family {query.family}"] = minimum
    if not guarded:
        found[f"query {query.digest().hex()}"] = minimum
    return found


def minimum_of(query: Query) -> int:
    """How many curators a difference must concern: as declared, else `min_participants`; without
    noise at least as many as the disclosure rule requires."""
    declared = query.family_minimum
    minimum = query.min_participants if declared is None else declared
    return minimum if query.rule is None else max(minimum, query.rule.min_participants)


def _is_step(query: Query) -> bool:
    """Whether curators contribute only after they have seen and checked the step of a job."""
    return query.mechanism is not Mechanism.EXACT and step_of(query) is not None


def releases(round_id: str, query: Query, members: bytes, floor: int = 1) -> dict[str, Release]:
    """What is compared and kept of a round that sums `members`, by scope."""
    job = query.job if _is_step(query) else None
    return {
        scope: Release(round_id, members, minimum, job)
        for scope, minimum in scopes(query, floor).items()
    }


def refusal(new: Release, earlier: Sequence[Release]) -> Refusal | None:
    """Why the new set must not be summed; None if it may.

    `earlier`: of the same scope, with a window that meets that of the new one (half-open
    intervals). Time: one pass over all bitmaps where no set lies within another.
    """
    if max([new.minimum, *(item.minimum for item in earlier)]) <= 1:
        return None  # no set asks for protection
    return _Family.of(new, [item for item in earlier if item.round != new.round]).refusal()


@dataclass(frozen=True)
class _Family:
    """The distinct sets: row 0 is the new one.

    `rows`: (m + 1, words), `minima`: (m + 1,), `rounds`: the rounds of each row, `mates`: (m +
    1,), earlier sets of the same job as the new one.
    """

    rows: Words
    minima: Ints
    rounds: tuple[str, ...]
    mates: NDArray[np.bool_]

    @classmethod
    def of(cls, new: Release, earlier: Sequence[Release]) -> _Family:
        """Equal sets, of the new one's job or not, become one row with the largest minimum of
        all."""
        words = max(-(-len(item.members) // 8) for item in (new, *earlier))
        distinct: dict[tuple[bytes, bool], tuple[str, int]] = {}
        for item in earlier:
            key = (item.members.rstrip(b"\0"), new.job is not None and item.job == new.job)
            name, minimum = distinct.get(key, (item.round, 0))
            distinct[key] = (name, max(minimum, item.minimum))
        rows = np.zeros((len(distinct) + 1, words), np.uint64)
        for place, members in enumerate((new.members, *(key[0] for key in distinct))):
            rows[place].view(np.uint8)[: len(members)] = np.frombuffer(members, np.uint8)
        return cls(
            rows,
            np.array([new.minimum, *(item[1] for item in distinct.values())], np.int64),
            (new.round, *(item[0] for item in distinct.values())),
            np.array([False, *(key[1] for key in distinct)], np.bool_),
        )

    def refusal(self) -> Refusal | None:
        """Pairs first: they are the plainest reason."""
        sizes = _counts(self.rows)
        apart = _counts(self.rows ^ self.rows[0])
        close = (apart > 0) & (apart < np.maximum(self.minima, self.minima[0])) & ~self.mates
        if close.any():
            row = int(np.flatnonzero(close)[0])
            return self._refused("its curators differ from those of round {}", (row,))
        most = int(self.minima.max())
        # |A \ B| = (|A xor B| + |A| - |B|) / 2
        for union in np.flatnonzero((apart + sizes[0] - sizes) // 2 < most):
            if union == 0:
                beyond = (apart + sizes - sizes[0]) // 2
            else:
                beyond = _counts(self.rows & ~self.rows[union])
            parts = [int(row) for row in np.flatnonzero(beyond < most) if row != union]
            sentence = self._wholly(int(union), parts) if parts else None
            if sentence is not None:
                return sentence
        return None

    def _wholly(self, whole: int, parts: Sequence[int]) -> Refusal | None:
        """A whole compared with the parts within it; the new set is the whole or one of the
        parts."""
        minimum = int(self.minima[[whole, *parts]].max())
        cover = [row for row in (whole, *parts) if self.minima[row] > 1]
        if cover[:1] == [whole] and 0 in cover and len(cover) > 1:
            union = np.bitwise_or.reduce(self.rows[cover[1:]])
            apart = _count(union ^ self.rows[whole])
            if 0 < apart < int(self.minima[cover].max()) and not self.of_one_job(cover):
                return self._refused(_PARTS, cover)
        rest = _Rest(self.rows[whole], np.zeros_like(self.rows[whole]), (whole,))
        free = list(parts)
        if whole:  # only combinations with the new set are new
            rest, free = rest.without(self.rows[0], 0), [row for row in parts if row]
        search = _Search(self, minimum)
        chosen = search.run(rest, free)
        if chosen is not None:
            return self._refused(_PARTS, chosen)
        if search.looks > MOST_LOOKS:
            return self._refused(_ENTANGLED, (whole, *parts))
        return None

    def fails(self, rest: _Rest) -> bool:
        """Whether parts leave at least one curator of a whole, and fewer than the minimum."""
        if len(rest.chosen) < 2 or self.of_one_job(rest.chosen):
            return False
        return 0 < rest.size < int(self.minima[list(rest.chosen)].max())

    def of_one_job(self, rows: Sequence[int]) -> bool:
        """Whether each earlier set among `rows` is of the same job and so is not compared."""
        return all(self.mates[row] for row in rows if row)

    def _refused(self, words: str, rows: Sequence[int]) -> Refusal:
        """The reason, with the earlier rounds among these rows."""
        names = tuple(self.rounds[row] for row in rows if row)
        named = ", ".join(names[:NAMED]) + (" ..." if len(names) > NAMED else "")
        minimum = int(self.minima[[0, *rows]].max())
        reason = f"{words.format(named)}; the minimum is {minimum} curators"
        return Refusal(reason, names, minimum)


_PARTS: Final = "with rounds {} it makes a whole and its parts, which differ"
_ENTANGLED: Final = "it meets round {} in too many ways to rule a difference out"


@dataclass(frozen=True)
class _Rest:
    """A whole from which parts were taken: its curators that are `left`, and those whose
    coefficient is `wrong` (outside the whole, or in two parts). `chosen`: the rows, the whole
    first."""

    left: Words
    wrong: Words
    chosen: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many curators have a nonzero coefficient."""
        return _count(self.left) + _count(self.wrong)

    def without(self, part: Words, row: int) -> _Rest:
        """One more part taken away."""
        return _Rest(self.left & ~part, self.wrong | (part & ~self.left), (*self.chosen, row))


class _Search:
    """Searches for parts that leave fewer than the minimum of a whole, as for an exact cover.

    A part without which too many would be left belongs to every such choice. Taking these first
    decides a hierarchy of nearly disjoint parts without branching.
    """

    def __init__(self, family: _Family, most: int) -> None:
        self._family, self._most = family, most
        self.looks = 0

    def run(self, rest: _Rest, free: Sequence[int]) -> tuple[int, ...] | None:
        """The rows of a choice that fails; None if there is none or the search gave up."""
        rows = self._family.rows
        pending: list[tuple[_Rest, list[int]]] = [(rest, list(free))]
        while pending and self.looks <= MOST_LOOKS:
            rest, parts = pending.pop()
            if self._family.fails(rest):
                return rest.chosen
            parts = self._bearable(rest, parts)
            needed = self._needed(rest, parts)
            if needed is None:
                continue
            if not needed:  # with the next part, and later without it
                pending.append((rest, parts[1:]))
                needed = parts[:1]
            for row in needed:
                rest = rest.without(rows[row], row)
            pending.append((rest, [row for row in parts if row not in needed]))
        return None

    def _bearable(self, rest: _Rest, parts: Sequence[int]) -> list[int]:
        """The parts that do not make too many coefficients wrong."""
        self.looks += len(parts) + 1
        if _count(rest.wrong) >= self._most:
            return []
        rows, most = self._family.rows, self._most
        return [row for row in parts if _count(rest.wrong | (rows[row] & ~rest.left)) < most]

    def _needed(self, rest: _Rest, parts: Sequence[int]) -> list[int] | None:
        """The parts without which too many are left; None if too many are left with all of them."""
        rows, most = self._family.rows, self._most
        covered, twice = np.zeros_like(rest.left), np.zeros_like(rest.left)
        for row in parts:
            twice |= covered & rows[row]
            covered |= rows[row]
        if not parts or _count(rest.left & ~covered) >= most:
            return None
        once = rest.left & ~twice
        return [row for row in parts if _count(rows[row] & once) >= most]


def _count(words: Words) -> int:
    return int(np.bitwise_count(words).sum(dtype=np.int64))


def _counts(rows: Words) -> Ints:
    """How many bits each row has."""
    counted: Ints = np.bitwise_count(rows).sum(axis=1, dtype=np.int64)
    return counted
