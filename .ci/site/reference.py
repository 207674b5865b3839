"""MkDocs hook: the pages under reference/ are made from the code when the site is built."""

import io
import os
import re
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

import yaml
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from dphrl.cli import COMMANDS, main
from dphrl.config.keys import SCHEMA, Node, block_in, known_keys, resolve
from dphrl.store.catalogue import SCHEMAS
from dphrl.store.kinds import KINDS
from dphrl.store.schema import Schema

PACKAGE = Path("workflow_scripts/dphrl")
RULE = re.compile(r'^( *)rule (\w+):\n +"""(.*?)"""(.*?)(?=^(?:\1)?\S|\Z)', re.MULTILINE | re.DOTALL)
BOUNDS = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    root = Path(config.config_file_path).parent
    pages: dict[str, Callable[[Path], Iterator[str]]] = {
        "configuration": _configuration,
        "artifacts": _artifacts,
        "python": _python,
        "commands": _commands,
        "rules": _rules,
    }
    for name, lines in pages.items():
        files.append(File.generated(config, f"reference/{name}.md", content="\n".join(lines(root)) + "\n"))
    return files


def _configuration(root: Path) -> Iterator[str]:
    yield "# Keys of the configuration\n"
    yield "`<name>` is a name of your choice, `[]` a place in a list. A key without a default is required."
    yield "[config/README.md](../repository/config/README.md) explains the blocks.\n"
    for block, node in SCHEMA["properties"].items():
        yield f"## {block}\n"
        if block_in(node) is not None:
            yield f"{node.get('description') or resolve(node)['description']}\n"
        yield from _table("key", "value", "default", "meaning")
        for key, inner in [(block, node)] if block_in(node) is None else known_keys(node, block):
            # The keys of an inner block have rows, so the block itself has no value.
            value = "block" if block_in(inner) else _values(inner)
            default = f"`{_flow(inner['default'])}`" if "default" in inner and not block_in(inner) else ""
            yield _row(f"`{key}`", value, default, inner.get("description") or resolve(inner).get("description", ""))
        yield ""


def _values(node: Node) -> str:
    """What is allowed at a key, from its schema."""
    if "anyOf" in node:
        return " or ".join(_values(option) for option in node["anyOf"])
    node = resolve(node)
    if choices := node.get("enum", [node["const"]] if "const" in node else None):
        return ", ".join(f"`{choice}`" for choice in choices)
    if node.get("type") == "array" and "items" in node:
        return f"list of {_values(node['items'])}"
    limits = [f"{sign} {node[bound]}" for bound, sign in BOUNDS.items() if bound in node]
    return " ".join([node.get("type", "any"), *limits])


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


def _flow(value: Any) -> str:
    data = list(value) if isinstance(value, tuple) else value
    return yaml.safe_dump(data, default_flow_style=True, width=10_000).removesuffix("...\n").strip()
