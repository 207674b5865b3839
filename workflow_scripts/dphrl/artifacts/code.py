"""Digest of the code that a stage runs: Snakemake does not see imported modules, so rules carry this as a param."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from dphrl.artifacts.schemas import SCHEMAS

_PACKAGE = "dphrl"
# Not part of any digest: how files are written counts by the schemas that a stage writes, and how a config is read by
# the slice of it that the stage gets.
_OUTSIDE = ("dphrl.artifacts", "dphrl.config")
_ROOT = Path(__file__).resolve().parents[1]


class CodeChangedError(RuntimeError):
    """The code on disk is not the code that was digested when the DAG was built."""


def code_digest(modules: Sequence[str], schemas: Sequence[str] = ()) -> str:
    """Hex digest of `modules`, all modules of this package that it imports, directly or not, and `schemas`.

    Comments, docstrings and formatting are left out: a change there reruns nothing.
    The graph is static: imports inside functions count, imports by computed name do not.

    Args:
        modules: dotted names such as "dphrl.scoring"; a package stands for its `__init__`.
        schemas: names of the table schemas that the stage writes.
    """
    seen: set[str] = set()
    pending = list(modules)
    while pending:
        name = pending.pop()
        if name not in seen and not name.startswith(_OUTSIDE):
            seen.add(name)
            pending.extend(_imports(name))
    digest = hashlib.sha256()
    for name in sorted(seen):
        digest.update(f"{name}\n{_normalised_source(name)}\n".encode())
    for name in sorted(schemas):
        digest.update(f"{SCHEMAS[name].canonical()}\n".encode())
    return digest.hexdigest()


def verify_code(expected: str, modules: Sequence[str], schemas: Sequence[str] = ()) -> None:
    """Raise CodeChangedError unless `code_digest(modules, schemas)` is still `expected`."""
    if code_digest(modules, schemas) != expected:
        raise CodeChangedError(
            f"the code of {', '.join(modules)} changed after this run's plan was made, so its result would be recorded"
            " under the wrong digest: start snakemake again."
        )


def _path(module: str) -> Path | None:
    """The file of a module of this package, or None if the dotted name is not one."""
    parts = module.split(".")
    if parts[0] != _PACKAGE:
        return None
    base = _ROOT.joinpath(*parts[1:])
    for candidate in (base / "__init__.py", base.with_suffix(".py")):
        if candidate.is_file() and (len(parts) > 1 or candidate.name == "__init__.py"):
            return candidate
    return None


def _tree(module: str) -> ast.Module:
    path = _path(module)
    if path is None:
        raise ValueError(f"no module {module!r} in package {_PACKAGE!r}: a rule names code that does not exist")
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@cache
def _imports(module: str) -> tuple[str, ...]:
    """Modules of this package that `module` needs: its parents and all it imports."""
    parts = module.split(".")
    found = {".".join(parts[:i]) for i in range(1, len(parts))}
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise ValueError(f"{module} uses a relative import: this package imports by full name")
            names = [f"{node.module}.{alias.name}" for alias in node.names] + [str(node.module)]
        else:
            continue
        found.update(name for name in names if _path(name) is not None)
    return tuple(sorted(found))


@cache
def _normalised_source(module: str) -> str:
    tree = _tree(module)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)
