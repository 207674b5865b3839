"""MkDocs hook: the pages under reference/ are made from the code when the site is built."""

import io
import os
import re
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout, suppress
from pathlib import Path

import yaml
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from dphrl.cli import COMMANDS, main
from dphrl.store.catalogue import SCHEMAS
from dphrl.store.kinds import KINDS
from dphrl.store.schema import Schema

PACKAGE = Path("workflow_scripts/dphrl")
RULE = re.compile(r'^( *)rule (\w+):\n +"""(.*?)"""(.*?)(?=^(?:\1)?\S|\Z)', re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    root = Path(config.config_file_path).parent
    pages: dict[str, Callable[[Path], Iterator[str]]] = {
        "artifacts": _artifacts,
        "python": _python,
        "commands": _commands,
        "rules": _rules,
    }
    for name, lines in pages.items():
        files.append(File.generated(config, f"reference/{name}.md", content="\n".join(lines(root)) + "\n"))
    return files


def _artifacts(root: Path) -> Iterator[str]:
    yield "# Tables and their columns\n"
    yield "Each kind of file in `results/<run>` and the columns of its table."
    yield "Rows are sorted by the key. [The files of a run](../artifacts.md) says what is in them.\n"
    for name, kind in KINDS.items():
        yield f"## {name}\n"
        yield f"`{kind.path}`\n"
        if schema := SCHEMAS.get(kind.schema):
            yield from _columns(schema)
        else:
            yield f"No table: {kind.schema}.\n"


def _columns(schema: Schema) -> Iterator[str]:
    yield f"Schema `{schema.name}`, version {schema.version}; key: {', '.join(f'`{name}`' for name in schema.key)}.\n"
    yield from _table("column", "type", "null", "values")
    for name, dtype in schema.columns.items():
        values = ", ".join(f"`{value}`" for value in schema.enums.get(name, ()))
        low, high = schema.bounds.get(name, (None, None))
        yield _row(f"`{name}`", str(dtype), "yes" if name in schema.nullable else "", values or _range(low, high))
    yield ""


def _range(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return ""
    return f"from {low:g}" if high == float("inf") else f"{low:g} to {high:g}"


def _python(root: Path) -> Iterator[str]:
    yield "# Python\n"
    yield "What the packages export. Anything else is imported from its module and may change.\n"
    for init in sorted((root / PACKAGE).glob("*/__init__.py")):
        exported = re.search(r"^__all__ = (\[.*?\])", init.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        names = yaml.safe_load(exported[1]) if exported else []
        yield from [f"## dphrl.{init.parent.name}\n"] if names else []
        yield from (f"::: dphrl.{init.parent.name}.{name}\n" for name in names)


def _commands(root: Path) -> Iterator[str]:
    os.environ["COLUMNS"] = "110"
    yield "# Commands\n"
    for name in COMMANDS:
        text = io.StringIO()
        with redirect_stdout(text), suppress(SystemExit):
            main([*name.split(), "--help"])
        yield f"## dphrl {name}\n\n```text\n{text.getvalue().rstrip()}\n```\n"
    yield "## make\n"
    yield from _table("target", "does")
    for target, text in re.findall(r"^([a-z-]+):.*?## (.*)$", (root / "Makefile").read_text("utf-8"), re.MULTILINE):
        yield _row(f"`make {target}`", text)


def _rules(root: Path) -> Iterator[str]:
    yield "# Rules\n"
    yield "A target can be named on the command line. A stage runs when a target needs its files.\n"
    yield from _table("rule", "file", "kind", "does")
    for path in [root / "Snakefile", *sorted((root / "rules").glob("*.smk"))]:
        for _, name, text, body in RULE.findall(path.read_text(encoding="utf-8")):
            kind = "target" if name in ("all", "report", "audit") or path.name == "targets.smk" else "stage"
            where = "on the submitting machine" if "localrule: True" in body else "a job"
            yield _row(f"`{name}`", f"`{path.relative_to(root)}`", f"{kind}, {where}", " ".join(text.split()))


def _table(*names: str) -> Iterator[str]:
    yield _row(*names)
    yield _row(*["---"] * len(names))


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "&#124;").replace("\n", " ") for cell in cells) + " |"
