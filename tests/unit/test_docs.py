"""The documentation: its commands, its Python, and the site that is built from it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml
from markdown import Markdown
from markdown_it import MarkdownIt
from mkdocs.config import load_config as site_config
from small_run import build

from dphrl.cli import COMMANDS, main
from dphrl.config.load import load_config

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SITE = [*PAGES, *(ROOT / name for name in ("AGENTS.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"))]

PROGRAMS = r"make|dphrl|snakemake|python[\d.]*|pytest|cp"
FOLDERS = ("config", "dev", "docs", "envs", "examples", "profiles", "rules", "tests", "workflow_scripts")
# Files that the reader makes.
OF_THE_READER = r"config/(mine|other|my|strict)\.yaml|profiles/(here|mine)|config/experiments/<name>\.yaml"


def _commands() -> list[str]:
    """The command lines in code blocks, without comments, variables and the folder of the environment."""
    found = []
    for page in PAGES:
        text = re.sub(r"\\\n *", "", page.read_text(encoding="utf-8"))
        blocks = re.findall(r"^ *```\n(.*?)```|((?:^ {4}.*\n)+)", text, re.MULTILINE | re.DOTALL)
        for line in "\n".join(fenced + indented for fenced, indented in blocks).splitlines():
            command = re.fullmatch(
                rf" *(?:[A-Z_]+=\S+ )*(?:\.venv(?:-trl)?/bin/)?((?:{PROGRAMS}) .*?)(?:  +#.*)?", line
            )
            found += [command[1].strip()] if command else []
    return found


def test_every_command_names_files_and_targets_that_exist() -> None:
    commands = _commands()
    assert len(commands) > 100
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in commands:
        program, *words = shlex.split(command)
        paths = [word for word in words if word.partition("/")[0] in FOLDERS and not re.fullmatch(OF_THE_READER, word)]
        assert all((ROOT / path).exists() for path in paths), command
        if program == "make":
            target = next(word for word in words if "=" not in word)
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), command


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_dphrl_has_the_options_that_the_docs_give_it(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([name, "--help"])
    shown = capsys.readouterr().out
    for command in _commands():
        words = command.split()
        if words[:2] == ["dphrl", name]:
            assert all(word.partition("=")[0] in shown for word in words if word.startswith("--")), command


@pytest.mark.parametrize("page", ["AGENTS.md", "CONTRIBUTING.md"])
def test_every_file_of_the_map_exists(page: str) -> None:
    named = re.findall(r"`((?:\w[\w-]*/)+(?:[\w.-]+\.\w+)?)`", (ROOT / page).read_text(encoding="utf-8"))
    assert len(named) > 10
    folders = [ROOT, ROOT / "workflow_scripts", ROOT / "workflow_scripts/dphrl"]
    made = ("results", "site", "reference")
    assert [
        path
        for path in named
        if path.partition("/")[0] not in made and not any((folder / path).exists() for folder in folders)
    ] == []


@pytest.mark.parametrize("page", ["tutorial", "how-to/own-scorer", "how-to/own-divergence", "how-to/debug"])
def test_the_python_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "results").mkdir()
    build(tmp_path / "results/demo")
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"^ *```python\n(.*?)```", (ROOT / f"docs/{page}.md").read_text("utf-8"), re.M | re.S)
    exec(compile(textwrap.dedent(code), page, "exec"), {})


@pytest.fixture(scope="module")
def renderer() -> Markdown:
    """Markdown with the extensions of the site."""
    config = site_config(str(ROOT / "mkdocs.yml"))
    return Markdown(extensions=config.markdown_extensions, extension_configs=config.mdx_configs)


@pytest.mark.parametrize("page", SITE, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_has_the_same_lists_tables_and_blocks_on_the_site_and_on_the_source_host(
    page: Path, renderer: Markdown
) -> None:
    text = page.read_text(encoding="utf-8")
    on_site, on_host = renderer.reset().convert(text), MarkdownIt("commonmark").enable("table").render(text)
    for tag in ("li", "table", "pre", "ol", "ul", "h2", "h3"):
        assert (tag, len(re.findall(f"<{tag}\\b", on_site))) == (tag, len(re.findall(f"<{tag}\\b", on_host)))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site; a warning fails its build, though not with --quiet, which counts none."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "workflow_scripts")}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (built.returncode, "WARNING" in built.stderr) == (0, False), built.stderr
    return folder


def test_the_site_loads_nothing_from_another_host(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 60
    loaded = re.compile(r"<(?:script|img|iframe|source|link)\b[^>]*?\b(?:src|href)=[\"']?((?:https?:)?//[^\"' >]+)")
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert loaded.findall(text) == [], page
        # Of these Material would load a library, or the stars of a repository.
        assert not re.search(r'class="[^"]*\bmermaid\b|data-md-component="source"', text), page
    for style in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import )[\"']?(?:https?:)?//", style.read_text(encoding="utf-8")), style


@pytest.mark.parametrize("page", ["docs/how-to/own-data.md", "config/README.md"])
def test_the_configuration_of_a_page_is_valid(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    block = re.findall(r"^( *)(run: (?:shop|bird).*\n(?:^\1\w.*\n|^\1 +.*\n)+)", text, re.MULTILINE)[0]
    assert {"grpo", "dph_js"} <= set(load_config(yaml.safe_load(textwrap.dedent("".join(block)))).methods)


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Where the site is served on this machine."""
    handler = partial(SilentHandler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class SilentHandler(SimpleHTTPRequestHandler):
    """Serves files and logs nothing."""

    def log_message(self, format: str, *args: Any) -> None:
        """No line for a request."""


def test_the_site_on_a_telephone(browser: Any, resize: Any, serious: Any, address: str) -> None:
    width = 390
    resize(width, 844)
    browser.get(address)
    assert browser.find_element("css selector", "h1").text
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert serious() == []
    assert browser.get_log("browser") == []
