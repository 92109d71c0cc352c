"""Every place that cites a specification cites a page, and a section or heading, that exists.

A citation in a docstring or comment has one form, such as `Spec: aggregation, section 7`, with a
heading in quotation marks instead of a number for pages without numbers. It may name several
sections, ranges, several pages joined by `;` or `and`, and a remark in parentheses or a place after
a comma (`step 3`, `check 4`). `docs/spec/README.md` explains it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).parents[2]
FOLDERS: Final = (ROOT / "docs" / "spec", ROOT / "docs" / "algorithms")
_SKIPPED: Final = {".venv", ".venv-generators", ".venv-site", ".git", "build", "dist"}

_BEGIN: Final = re.compile(r"\b[Ss]pec:\s+(?=[a-z])")
_PAGE: Final = re.compile(r"[a-z]+(?:-[a-z]+)*\b")
_REMARK: Final = r"(?:\s+\([^()]*\)(?:\s+and\s+\([a-z]\))?)?"
_NUMBER: Final = r"\d+(?:\.\d+)*"
_QUOTED: Final = r'"[^"]+"'
_NUMBERED: Final = rf"{_NUMBER}(?:\s+to\s+{_NUMBER})?{_REMARK}"
_NAMED: Final = rf"{_QUOTED}{_REMARK}"
_NEXT: Final = r"(?:,\s+and|,|\s+and)\s+"
_SECTIONS: Final = re.compile(rf",\s+sections?\s+({_NUMBERED}(?:{_NEXT}{_NUMBERED})*)")
_HEADINGS: Final = re.compile(rf",\s+(?:sections?\s+)?({_NAMED}(?:{_NEXT}{_NAMED})*)")
_PLACE: Final = re.compile(
    rf",\s+(?:step|check|point|lever)s?\s+{_NUMBER}(?:(?:,|\s+and|\s+to)\s+{_NUMBER})*{_REMARK}"
)
_JOINED: Final = re.compile(r"(?:;|\s+and)\s+(?=([a-z]+(?:-[a-z]+)*)\b(,\s+(?:sections?\s|\"))?)")
_WORD: Final = r"(?:(?:sections?|checks?|acceptance|steps?|points?)\s+)"
_STRAY: Final = re.compile(rf"(?:,|;|\s+and)\s+{_WORD}*(?:\d|\")")
"""After the end of a citation: a place that was not understood."""
_ODD: Final = re.compile(rf"\b[Ss]pec(?:ification)?(?:,\s+{_WORD}?|\s+)\d|\bSpec:\s+\d")


class Page(NamedTuple):
    """What of a page can be cited."""

    sections: frozenset[str]
    headings: frozenset[str]


@cache
def spec_pages() -> dict[str, Page]:
    """The pages by name, without their index."""
    found = {}
    for path in (page for folder in FOLDERS for page in sorted(folder.glob("*.md"))):
        text = re.sub(r"^```.*?^```$", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
        sections, headings = set(), set()
        for heading in re.findall(r"^#{2,6} (.+?)\s*$", text, re.MULTILINE):
            numbered = re.match(rf"({_NUMBER})\.?\s+(.+)", heading)
            if numbered:
                sections.add(numbered[1])
            headings.add((numbered[2] if numbered else heading).replace("`", ""))
        if path.stem not in ("README", "privacy-check"):  # what it computes: trajectory-kcl
            found[path.stem] = Page(frozenset(sections), frozenset(headings))
    return found


@cache
def sources() -> dict[str, str]:
    """The modules of the product, its tools and its tests that may cite something, by place: lines
    are joined by a blank, as prose goes on in the next one."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        if not _SKIPPED.intersection(path.relative_to(ROOT).parts) and path != Path(__file__):
            text = path.read_text("utf-8")
            if re.search(r"\bspec\b", text, re.IGNORECASE):
                found[str(path.relative_to(ROOT))] = joined(text)
    return found


def joined(source: str) -> str:
    return re.sub(r"[ \t]*\n\s*(?:#+:? ?)?", " ", source)


Citation = tuple[str, tuple[str, ...], tuple[str, ...]]
"""A page, with the sections and headings of it that are cited."""


def citations(text: str, names: frozenset[str]) -> Iterator[tuple[int, int, Citation]]:
    """Where each citation of a text begins and ends, and what it cites.

    A page may be unknown: what follows `Spec:` is one, and what follows `;` or `and` if a section
    or heading comes after it. Pages joined by `and` share the section after the last of them.
    """
    for begin in _BEGIN.finditer(text):
        at, waiting = begin.end(), []
        while page := _PAGE.match(text, at):
            at = page.end()
            waiting.append(page[0])
            sections, headings, at = _located(text, at)
            more = _JOINED.match(text, at)
            if more is not None and more[1] not in names and more[2] is None:
                more = None
            if more is None or sections or headings or text[at] == ";":
                for name in waiting:
                    yield begin.start(), at, (name, sections, headings)
                waiting = []
            if more is None:
                break
            at = more.end()


def _located(text: str, at: int) -> tuple[tuple[str, ...], tuple[str, ...], int]:
    """Sections and headings after the name of a page, and where they end."""
    sections: list[str] = []
    headings: list[str] = []
    found = _SECTIONS.match(text, at) or _HEADINGS.match(text, at)
    if found:
        at = found.end()
        cited = re.sub(r"\s+\([^()]*\)", "", found[1])
        headings = re.findall(r'"([^"]+)"', cited)
        if not headings:
            for first, last in re.findall(rf"({_NUMBER})(?:\s+to\s+({_NUMBER}))?", cited):
                sections += _range(first, last or first)
    if place := _PLACE.match(text, at):
        at = place.end()
    return tuple(sections), tuple(headings), at


def _range(first: str, last: str) -> list[str]:
    """`3.7`, `3.10`: 3.7, 3.8, 3.9, 3.10."""
    above, _, start = first.rpartition(".")
    over, _, end = last.rpartition(".")
    if above != over or int(start) > int(end):
        return [first, f"{first} to {last}"]
    return [f"{above}.{n}" if above else str(n) for n in range(int(start), int(end) + 1)]


def wrong_in(text: str, pages: dict[str, Page]) -> set[str]:
    """What cites something that does not exist, or in another form."""
    names = frozenset(pages)
    page = f"(?:{'|'.join(sorted(names))})"
    bare = re.compile(rf"\b(?:{page}(?:\.md,?\s+{_WORD}|,\s+{_WORD})\d|[Ss]pec, {page}\b)")
    wrong, understood = set(), []
    for start, end, (name, sections, headings) in citations(text, names):
        understood.append((start, end))
        if name not in pages:
            wrong.add(f"no page {name}")
            continue
        wrong |= {f"{name} has no section {each}" for each in {*sections} - pages[name].sections}
        wrong |= {f'{name} has no heading "{each}"' for each in {*headings} - pages[name].headings}
        if stray := _STRAY.match(text, end):
            wrong.add(f"cited in another form: {stray[0].strip()}")
    for odd in (*bare.finditer(text), *_ODD.finditer(text)):
        if not any(start <= odd.start() and odd.end() <= end for start, end in understood):
            wrong.add(f"cited in another form: {odd[0]}")
    return wrong


def test_every_citation_resolves() -> None:
    pages = spec_pages()
    wrong = {place: found for place, text in sources().items() if (found := wrong_in(text, pages))}
    assert wrong == {}


def test_there_are_citations_of_every_page() -> None:
    """A search that finds fewer is broken, and proves nothing."""
    names = frozenset(spec_pages())
    cited = [found[0] for text in sources().values() for _, _, found in citations(text, names)]
    assert len(cited) > 300
    assert set(cited) >= names


PAGES: Final = {
    "alpha": Page(frozenset({"1", "2", "2.1", "2.2", "2.3"}), frozenset({"Start", "End"})),
    "beta-gamma": Page(frozenset({"1"}), frozenset({"One"})),
}


@pytest.mark.parametrize(
    "text",
    [
        "Spec: alpha, sections 1, 2.1 and 2.2, step 3; beta-gamma, section 1.",
        "Spec: alpha, sections 2.1 to 2.3.",
        "Spec: alpha and beta-gamma, section 1. The rest 7.",
        'Spec: alpha, section "End"; beta-gamma, "One" (a remark).',
        "Spec: alpha, section 2 (the second), check 4 (a\nremark); beta-gamma, section\n1.",
    ],
)
def test_a_good_citation_passes(text: str) -> None:
    assert wrong_in(joined(f'"""First.\n\n{text}\n"""\n'), PAGES) == set()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Spec: delta, section 1.", "no page delta"),
        ("Spec: alpha, sections 1 and\n# 2.4.", "alpha has no section 2.4"),
        ("Spec: alpha, sections 2.1 to 2.4.", "alpha has no section 2.4"),
        ("Spec: alpha, section 1; delta, section 2.", "no page delta"),
        ("Spec: alpha and beta-gamma, section 2.", "beta-gamma has no section 2"),
        ('Spec: alpha, "Start" and "Middle".', 'alpha has no heading "Middle"'),
        ("as alpha, section 1, says", "cited in another form: alpha, section 1"),
        ("alpha.md section 1", "cited in another form: alpha.md section 1"),
        ("Spec: 2.", "cited in another form: Spec: 2"),
        ("Spec, check 2.", "cited in another form: Spec, check 2"),
        ("Spec: alpha, section 1; 2, lever 4.", "cited in another form: ; 2"),
        ('Spec: alpha, section 1, "Output".', 'cited in another form: , "'),
    ],
)
def test_a_wrong_citation_is_found(text: str, problem: str) -> None:
    assert wrong_in(joined(f"x = 1\n\n# {text}\n"), PAGES) == {problem}
