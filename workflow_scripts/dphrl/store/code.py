"""Digest of the code that a stage runs: Snakemake does not see imported modules, so rules carry this as a param."""

from __future__ import annotations

import ast
import hashlib
import os
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from dphrl.store.catalogue import SCHEMAS

# Not part of any digest. The schemas that a stage writes are in the digest, its slice of the config in the footer.
_OUTSIDE = tuple(f"dphrl.{name}" for name in ("config", "machine", "store"))
_ROOT = Path(__file__).resolve().parents[1]
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
# A script that imports this module makes pages: all templates, style sheets and page scripts are in its digest.
_RENDER = "dphrl.report.render"
_PAGES = (".j2", ".css", ".js")
# The sha256 of all files of the code when the run was planned, for its jobs.
_PLANNED = "DPHRL_PLANNED_CODE"


class CodeChangedError(RuntimeError):
    """The code on disk is not the code that was digested when the DAG was built."""


def project_commit() -> str | None:
    """The commit of this project that is checked out, with "-dirty" if tracked files differ; None where git has none.

    Raises nothing: a copy of the project, a wheel and a machine without git have no commit.
    """
    project = _ROOT.parents[1]
    if not (project / ".git").exists():
        return None
    # Without a tag's name; `status` of another process is not to be locked out.
    describe = ["git", "-C", str(project), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        return subprocess.run(describe, env=environment, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def code_digest(sources: Sequence[str], schemas: Sequence[str] = ()) -> str:
    """Hex digest of `sources`, of all code of this project that they import, directly or not, and of `schemas`.

    Comments, docstrings and formatting of Python are left out: a change there reruns nothing. The graph is static:
    imports inside functions count, imports by computed name do not. The `__init__` of a package counts where a name is
    imported from it. A YAML file beside a module, of its name, is part of it. All templates and assets count for code
    that makes pages.

    Args:
        sources: scripts of `workflow_scripts/stages` ("score.py"), dotted names of modules ("dphrl.hub").
        schemas: names of the table schemas that the stage writes.

    Raises:
        ValueError: there is no such script or module, or one uses a relative import.
    """
    digest = hashlib.sha256()
    names = code_of(sources)
    for name in sorted(names):
        digest.update(f"{name}\n{_code(name)}\n".encode())
    for file in _files(*_PAGES) if _RENDER in names else ():
        digest.update(f"{file.relative_to(_ROOT)}\n{file.read_text(encoding='utf-8')}\n".encode())
    for name in sorted(schemas):
        digest.update(f"{SCHEMAS[name].canonical()}\n".encode())
    return digest.hexdigest()


def code_of(sources: Sequence[str]) -> set[str]:
    """Names of the scripts and modules in the digest of `sources`.

    Raises:
        ValueError: as `code_digest`.
    """
    reached: set[str] = set()
    pending = list(sources)
    while pending:
        name = pending.pop()
        if name not in reached and not name.startswith(_OUTSIDE):
            reached.add(name)
            pending.extend(_needs(name))
    return reached


def leave_to_jobs() -> None:
    """Leave the sha256 of all files of the code in the environment of the jobs that this process starts.

    Call it before the first `code_digest`. A job compares it in 10 ms; parsing the modules again takes up to a second.
    """
    os.environ.setdefault(_PLANNED, _sha256_of_files())


def verify_code(expected: str, sources: Sequence[str], schemas: Sequence[str] = ()) -> None:
    """Raise CodeChangedError unless `code_digest(sources, schemas)` is still `expected`."""
    if os.environ.get(_PLANNED) != _sha256_of_files() and code_digest(sources, schemas) != expected:
        raise CodeChangedError(
            f"the code of {', '.join(sources)} changed after this run's plan was made, so its result would be recorded"
            " under the wrong digest: start snakemake again."
        )


def _sha256_of_files() -> str:
    digest = hashlib.sha256()
    for file in _files(".py", ".yaml", *_PAGES):
        digest.update(f"{file}\n{len(content := file.read_bytes())}\n".encode() + content)
    return digest.hexdigest()


def _files(*endings: str) -> list[Path]:
    return [file for file in sorted(_ROOT.parent.rglob("*")) if file.suffix in endings]


def _path(name: str) -> Path | None:
    """The file of a script or a module of the package; None for anything else, such as another library."""
    parts = name.removesuffix(".py").split(".")
    # Scripts of rules are in `stages`; they import `script.py`, next to the package, by its bare name.
    bases = (_ROOT.parent.joinpath(*parts), _ROOT.parent.joinpath("stages", *parts))
    files = (file for base in bases for file in (base / "__init__.py", base.with_suffix(".py")))
    return next((file for file in files if file.is_file()), None)


@cache
def _needs(name: str) -> tuple[str, ...]:
    """Names of the code that `name` imports directly."""
    names = []
    for node in ast.walk(_tree(name)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise ValueError(f"{name} uses a relative import: this project imports by full name")
            modules = [f"{node.module}.{alias.name}" for alias in node.names]
            names += [module if _path(module) else str(node.module) for module in modules]
    return tuple(used for used in dict.fromkeys(names) if _path(used))


@cache
def _code(name: str) -> str:
    """Python code without comments, docstrings and formatting, and the text of the YAML file beside it."""
    code, data = ast.unparse(_tree(name)), (_path(name) or _ROOT).with_suffix(".yaml")
    return f"{code}\n{data.read_text(encoding='utf-8')}" if data.is_file() else code


@cache
def _tree(name: str) -> ast.Module:
    """The syntax tree of a script or module, without its docstrings."""
    path = _path(name)
    if path is None:
        raise ValueError(f"no script or module {name!r} in {_ROOT.parent}: a rule names code that does not exist")
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return tree
