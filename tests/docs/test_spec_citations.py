"""Every place that cites a specification cites a page, and a section or heading, that exists.

A citation in a docstring or comment has one form, such as `Spec: aggregation, section 7`, with a
heading in quotation marks instead of a number for pages without numbers. It may name several
sections, ranges, several pages joined by `;` or `and`, and a remark in parentheses or a place after
a comma (`step 3`, `check 4`). `docs/spec/README.md` explains it.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
SPEC: Final = ROOT / "docs" / "spec"
_SKIPPED: Final = {".venv", ".venv-generators", ".venv-site", ".git", "build", "dist"}
_LAYOUT: Final = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.INDENT,
    tokenize.DEDENT,
}
_MAY_CITE: Final = re.compile(r"\bspec|\bsection", re.IGNORECASE)

_BEGIN: Final = re.compile(r"\bspec:\s+", re.IGNORECASE)
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
_ODD: Final = re.compile(rf"\b[Ss]pec(?:ification)?(?:,\s+{_WORD}?|\s+)\d")


@dataclass(frozen=True)
class Page:
    """What of a page can be cited."""

    sections: frozenset[str]
    headings: frozenset[str]


@dataclass(frozen=True)
class Citation:
    """One page, with the sections and headings of it that are cited."""

    page: str
    sections: tuple[str, ...] = ()
    headings: tuple[str, ...] = ()

    def problems(self, pages: dict[str, Page]) -> Iterator[str]:
        """Whatever of it does not exist."""
        page = pages.get(self.page)
        if page is None:
            yield f"no page {self.page}"
            return
        for number in self.sections:
            if number not in page.sections:
                yield f"{self.page} has no section {number}"
        for heading in self.headings:
            if heading not in page.headings:
                yield f'{self.page} has no heading "{heading}"'


@dataclass
class Remark:
    """A docstring, or comment lines that follow one another, with the line of each character."""

    text: str = ""
    lines: list[int] = field(default_factory=list)

    def add(self, text: str, line: int) -> None:
        """One more line of it; lines are joined by a blank."""
        self.text += text + " "
        self.lines += [line] * (len(text) + 1)


# ------------------------------------------------------------------------------------------- pages


@cache
def pages_in(directory: Path) -> dict[str, Page]:
    """The pages of a directory by name, without its index."""
    found = {}
    for path in sorted(directory.glob("*.md")):
        text = re.sub(r"^```.*?^```$", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
        sections, headings = set(), set()
        for heading in re.findall(r"^#{2,6} (.+?)\s*$", text, re.MULTILINE):
            numbered = re.match(rf"({_NUMBER})\.?\s+(.+)", heading)
            if numbered:
                sections.add(numbered[1])
            headings.add((numbered[2] if numbered else heading).replace("`", ""))
        if path.stem != "README":
            found[path.stem] = Page(frozenset(sections), frozenset(headings))
    return found


# --------------------------------------------------------------------------------------- citations


def remarks(source: str) -> Iterator[Remark]:
    """The docstrings (of attributes, too) and comments of a module."""
    comment, docstring_may_follow = Remark(), True
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        line = token.start[0]
        if token.type == tokenize.COMMENT:
            if comment.lines and line != comment.lines[-1] + 1:
                yield comment
                comment = Remark()
            comment.add(token.string.lstrip("#: "), line)
        elif token.type == tokenize.STRING and docstring_may_follow:
            docstring = Remark()
            for number, text in enumerate(token.string.splitlines()):
                docstring.add(text.strip(), line + number)
            yield docstring
        if token.type == tokenize.NEWLINE:
            docstring_may_follow = True
        elif token.type not in _LAYOUT:
            docstring_may_follow = False
    if comment.lines:
        yield comment


@cache
def all_remarks() -> tuple[tuple[Path, tuple[Remark, ...]], ...]:
    """Those of every module of the product, its tools and its tests that may cite something."""
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        if not _SKIPPED.intersection(path.relative_to(ROOT).parts):
            source = path.read_text("utf-8")
            if _MAY_CITE.search(source):
                found.append((path, tuple(remarks(source))))
    return tuple(found)


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
            joined = _JOINED.match(text, at)
            more = joined is not None and (joined[1] in names or joined[2] is not None)
            shared = more and not (sections or headings) and text[at] != ";"
            if not shared:
                for name in waiting:
                    yield begin.start(), at, Citation(name, sections, headings)
                waiting = []
            if joined is None or not more:
                break
            at = joined.end()
        else:
            yield begin.start(), at, Citation(text[at : at + 20].split(" ")[0])


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


def wrong_citations(
    found_remarks: Iterable[Remark], pages: dict[str, Page]
) -> list[tuple[int, str]]:
    """(line, what is wrong) of every remark that cites what does not exist, or in another form."""
    names = frozenset(pages)
    page = f"(?:{'|'.join(sorted(names))})"
    bare = re.compile(rf"\b(?:{page}(?:\.md,?\s+{_WORD}|,\s+{_WORD}?)\d|[Ss]pec, {page}\b)")
    wrong = []
    for remark in found_remarks:
        text, understood = remark.text, []
        for start, end, citation in citations(text, names):
            understood.append((start, end))
            wrong += [(remark.lines[start], each) for each in citation.problems(pages)]
            if stray := _STRAY.match(text, end):
                wrong.append((remark.lines[start], f"cited in another form: {stray[0].strip()}"))
        for odd in (*bare.finditer(text), *_ODD.finditer(text)):
            if not any(start <= odd.start() and odd.end() <= end for start, end in understood):
                wrong.append((remark.lines[odd.start()], f"cited in another form: {odd[0]}"))
    return sorted(set(wrong))


# ------------------------------------------------------------------------------------------- tests


def test_every_citation_resolves() -> None:
    pages = pages_in(SPEC)
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {problem}"
        for path, found in all_remarks()
        for line, problem in wrong_citations(found, pages)
    ]
    assert not wrong, "\n" + "\n".join(wrong)


def test_there_are_citations_of_every_page() -> None:
    """A search that finds fewer is broken, and proves nothing."""
    names = frozenset(pages_in(SPEC))
    cited = [
        citation.page
        for _, found in all_remarks()
        for remark in found
        for _, _, citation in citations(remark.text, names)
    ]
    assert len(cited) > 300
    assert set(cited) >= names


PAGES: Final = {
    "alpha": Page(frozenset({"1", "2", "2.1", "2.2", "2.3"}), frozenset({"Start", "End"})),
    "beta-gamma": Page(frozenset({"1"}), frozenset({"One"})),
}


def wrong_in(source: str) -> list[tuple[int, str]]:
    """What is wrong in a module, where there are the two pages above."""
    return wrong_citations(remarks(source), PAGES)


@pytest.mark.parametrize(
    "text",
    [
        "Spec: alpha.",
        "Spec: alpha, section 2.1.",
        "(spec: alpha, sections 1 and 2).",
        "Spec: alpha, sections 1, 2.1 and 2.2, step 3; beta-gamma, section 1.",
        "Spec: alpha, sections 2.1 to 2.3.",
        "Spec: alpha and beta-gamma, section 1. The rest 7.",
        'Spec: alpha, "Start" and "End"; Lu and Shen, section 9.',
        'Spec: alpha, section "End"; beta-gamma, "One" (a remark).',
        "Spec: alpha, section 2 (the second), check 4 (a\nremark); beta-gamma, section\n1.",
    ],
)
def test_a_good_citation_passes(text: str) -> None:
    assert wrong_in(f'"""First.\n\n{text}\n"""\n') == []


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("Spec: delta, section 1.", 3, "no page delta"),
        ("Spec: alpha, section 3.", 3, "alpha has no section 3"),
        ("Spec: alpha, sections 1 and\n2.4.", 3, "alpha has no section 2.4"),
        ("Spec: alpha, sections 2.1 to 2.4.", 3, "alpha has no section 2.4"),
        ("x\ny\nSpec: alpha, section 1; beta-gamma, section 2.", 5, "beta-gamma has no section 2"),
        ("Spec: alpha, section 1; delta, section 2.", 3, "no page delta"),
        ("Spec: alpha and beta-gamma, section 2.", 3, "beta-gamma has no section 2"),
        ('Spec: alpha, "Start" and "Middle".', 3, 'alpha has no heading "Middle"'),
        ("as alpha, section 1, says", 3, "cited in another form: alpha, section 1"),
        ("alpha.md section 1", 3, "cited in another form: alpha.md section 1"),
        ("Spec, check 2.", 3, "cited in another form: Spec, check 2"),
        ("Spec: alpha, section 1; 2, lever 4.", 3, "cited in another form: ; 2"),
        ('Spec: alpha, section 1, "Output".', 3, 'cited in another form: , "'),
    ],
)
def test_a_wrong_citation_is_found(text: str, line: int, problem: str) -> None:
    """In a docstring and in a comment, after a string that only looks like one."""
    assert wrong_in(f'"""First.\n\n{text}\n"""\n') == [(line, problem)]
    lines = "".join(f"# {each}\n" for each in text.splitlines())
    assert wrong_in(f'x = "Spec: nothing, section 1."\n\n{lines}') == [(line, problem)]


def test_only_remarks_are_searched() -> None:
    source = (
        'x = 1\n"""Spec: delta."""\n\n\ndef f() -> str:\n    return "Spec: epsilon, section 1."\n'
    )
    assert wrong_in(source) == [(2, "no page delta")]
