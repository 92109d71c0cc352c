"""The mutants of a module: cosmic-ray's operators, applied to its source one place at a time."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator


@dataclass(frozen=True)
class Mutant:
    """One changed source; `line` and `becomes` are the changed lines, stripped."""

    operator: str
    at: int
    line: str
    becomes: str
    source: str

    @property
    def key(self) -> str:
        """SHA-256 of the changed source, in hex."""
        return hashlib.sha256(self.source.encode()).hexdigest()


def mutants(source: str, operators: Sequence[str]) -> Iterator[Mutant]:
    """Every mutant that compiles and differs in more than type annotations, each once."""
    seen = {_behaviour(source)}
    for name in operators:
        for changed in _applied(source, name):
            try:
                behaviour = _behaviour(changed)
            except SyntaxError:
                continue
            if behaviour in seen:
                continue
            seen.add(behaviour)
            at, line, becomes = _difference(source, changed)
            yield Mutant(name, at, line, becomes, changed)


def _applied(source: str, name: str) -> Iterator[str]:
    occurrence = 0
    while changed := mutate_code(source, get_operator(f"core/{name}")(), occurrence):
        yield changed
        occurrence += 1


class _WithoutAnnotations(ast.NodeTransformer):
    """Annotations, and which arguments go by position, are the type checker's to judge."""

    def visit_arguments(self, node: ast.arguments) -> ast.AST:
        # cosmic-ray takes a bare `*` between arguments for a multiplication.
        node.args = [*node.posonlyargs, *node.args, *node.kwonlyargs]
        node.defaults += [default for default in node.kw_defaults if default is not None]
        node.posonlyargs, node.kwonlyargs, node.kw_defaults = [], [], []
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)


def _behaviour(source: str) -> str:
    return ast.dump(_WithoutAnnotations().visit(ast.parse(source)))


def _difference(source: str, changed: str) -> tuple[int, str, str]:
    """Number of the first changed line, counted from 1, and both texts of what changed."""
    before, after = source.splitlines(), changed.splitlines()
    start = 0
    while before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    return start + 1, *("\n".join(map(str.strip, x[start : len(x) - end])) for x in (before, after))
