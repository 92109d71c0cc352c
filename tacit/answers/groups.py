"""Answers about groups of curators."""

from __future__ import annotations

from tacit.answers.base import Answer, Time


class Group(Answer):
    """A group, without its curators. `curators`: how many; `parent`: the group it is a part of."""

    name: str
    parent: str | None
    curators: int
    created: Time


class ListOfGroups(Answer):
    """A page of groups, by name."""

    groups: list[Group]


class GroupCurator(Answer):
    """A curator of a group, by its number on the roster."""

    number: int
    id: str


class CuratorsOfGroup(Answer):
    """A page of a group's curators, by number."""

    curators: list[GroupCurator]
