"""The documentation: its commands, the messages that it quotes, its Python, and the site that is built from it."""

from __future__ import annotations

import ast
import html
import os
import re
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

from dphrl import scoring
from dphrl.artifacts.catalogue import SCHEMAS
from dphrl.config.keys import known_paths
from dphrl.config.load import load_config

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SITE = [*PAGES, *(ROOT / name for name in ("AGENTS.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"))]

# How each command of the docs is run, by its beginning; the first pattern that fits counts. A test, a script of CI, or:
# gpu, cluster, container: needs one; long: takes minutes; elsewhere: a command of another project, or of the system.
PROGRAMS = r"make|dphrl|snakemake|python[\d.]*|pip|pytest|cp|srun|sqlite3|docker|apptainer"
WORKFLOW, REPLAY = "tests/workflow/test_run.py::", "tests/workflow/test_replay.py::"
PARTS = REPLAY + "test_a_part_of_a_run_is_named_and_forced"
HOW = {
    r"make demo\b": "long",
    r"make demo-full": "long",
    r"make test-slurm": "cluster",
    r"make gpu-check": "gpu",
    r"make (test|schema && make lint)$": ".ci/run",
    r"(make run |dphrl init )": "tests/workflow/test_module.py::test_a_first_configuration_of_fifty_rows_is_planned",
    r"make (trl|install)$": "long",
    r"make accept": REPLAY + "test_results_are_accepted_under_changed_code",
    r"dphrl export": "tests/unit/export/test_export.py::test_stored_responses_are_exact_and_the_same_file_for_all",
    r"python examples/trl/dph_trainer.py": (
        "tests/unit/export/test_trl.py::test_a_training_on_exported_files_writes_a_checkpoint"
    ),
    r"python3 -m verl": "elsewhere",
    r"dphrl diagnose base\.jsonl tuned\.jsonl --task math": (
        "tests/unit/diagnose/test_run.py::test_answers_are_judged_here"
    ),
    r"dphrl diagnose base\.jsonl tuned\.jsonl --task sql": (
        "tests/unit/diagnose/test_run.py::test_sql_is_judged_here_and_programs_are_the_variety"
    ),
    r"dphrl diagnose results/demo/verdicts/": (
        "tests/unit/diagnose/test_run.py::test_the_policies_of_a_run_are_diagnosed_from_its_verdicts"
    ),
    r"dphrl diagnose": "tests/unit/sample_files/test_plain.py::test_recipes_of_the_docs_read_the_files_of_other_tools",
    r"dphrl plan ": "tests/unit/plan/test_work.py::test_the_command_says_what_does_not_fit",
    r"dphrl audit show": ("tests/unit/audit/test_show.py::test_the_command_shows_and_refuses_with_a_hint"),
    r"dphrl audit lineage": (
        "tests/unit/audit/test_lineage.py::test_the_command_prints_the_lineage_and_returns_a_status"
    ),
    r"dphrl audit ": "tests/unit/audit/test_run.py::test_the_exit_status_shows_whether_all_is_well",
    r"dphrl report ": "tests/unit/report/test_pooled.py::test_the_command_writes_a_page_and_tables",
    r"python -m pytest -m gpu": "gpu",
    r"python -m pytest (?=.*tests/)": "itself",
    r"python dev/benchmarks/gpu.py": "gpu",
    r"python dev/benchmarks/": (
        "tests/workflow/test_benchmarks.py::"
        "test_every_documented_benchmark_is_run_with_the_options_that_it_is_documented_with"
    ),
    r"python workflow_scripts/launch.py --profile": "cluster",
    r"python workflow_scripts/launch.py .*--cache": (
        "tests/workflow/test_cluster.py::"
        "test_a_run_with_other_methods_takes_base_prompts_samples_and_reference_from_the_cache"
    ),
    r"python workflow_scripts/launch.py": WORKFLOW + "test_a_run_makes_every_artifact_and_the_audit_passes",
    r"snakemake --profile profiles/gpu-node": "gpu",
    r"snakemake --profile": "cluster",
    r"snakemake --report": WORKFLOW + "test_snakemakes_own_report_holds_the_figures",
    r"snakemake --touch": REPLAY + "test_results_are_accepted_under_changed_code",
    r"snakemake .*examples/custom_scorer/config.yaml": REPLAY + "test_the_worked_example_of_custom_data_and_scorer",
    r"snakemake .*config/experiments/world-2.yaml": (
        "tests/workflow/test_base.py::test_the_shipped_base_can_be_made_again_from_nothing"
    ),
    r"snakemake .*config/(experiments/|config.yaml)": "long",
    r"snakemake .*(--force|--forcerun|presample|partition|figures/)": PARTS,
    r"snakemake .*reference$": WORKFLOW + "test_a_threshold_reruns_the_partition_and_what_follows_but_no_pre_sampling",
    r"(cp config/config.yaml|snakemake .*--dry-run)": WORKFLOW
    + "test_a_threshold_reruns_the_partition_and_what_follows_but_no_pre_sampling",
    r"snakemake": WORKFLOW + "test_a_run_makes_every_artifact_and_the_audit_passes",
    r"(python3 -m venv light|pip install \.$)": (
        "tests/unit/test_light_install.py::test_the_wheel_works_in_an_empty_environment"
    ),
    r"pip install .*envs/slurm.txt": "cluster",
    r"make install SET=gpu": "gpu",
    r"(docker|apptainer) ": "container",
    r"cp -r profiles/slurm": "cluster",
    r"cp -rL results/.* upload": WORKFLOW + "test_every_evaluated_policy_has_a_model_card_that_no_other_stage_reads",
    r"python math_eval.py": "elsewhere",
}

# Of Snakemake and of the operating system.
OTHERS = {"Directory cannot be locked", "No space left on device"}
OTHERS |= {"Nothing to be done", ".snakemake/locks"}


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


def _how(command: str) -> str | None:
    return next((how for pattern, how in HOW.items() if re.match(pattern, command)), None)


def test_every_command_is_run_by_a_test_or_marked() -> None:
    commands = _commands()
    assert len(commands) > 100
    assert [command for command in commands if _how(command) is None] == []
    assert set(HOW.values()) - {_how(command) for command in commands} == set()
    for how in {*HOW.values()} - {"gpu", "cluster", "container", "long", "elsewhere", "itself"}:
        file, _, name = how.partition("::")
        assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8") if name else (ROOT / file).is_file(), how
    for command in commands:
        if _how(command) == "itself":
            assert all((ROOT / path).exists() for path in command.split() if path.startswith("tests/")), command


def test_every_quoted_message_is_one_of_the_code() -> None:
    others = [ROOT / name for name in ("Makefile", "Snakefile", "envs/needs.py")]
    files = [*(ROOT / "workflow_scripts").rglob("*.py"), *others]
    messages = "\n".join(text for file in files for text in _texts(file))
    rows = re.findall(r"^\| (.*?) \| .* \|$", (ROOT / "docs/troubleshooting.md").read_text("utf-8"), re.MULTILINE)
    quoted = {text for row in rows for text in re.findall(r"(?<!`)`([^`]+)`", row)}
    assert len(quoted) > 80
    assert {text for text in quoted - OTHERS if text not in messages} == set()


def _texts(file: Path) -> Iterator[str]:
    """The strings of a module, an ellipsis for each field of an f-string; another file as it is."""
    text = file.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)) if file.suffix == ".py" else ():
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
        elif isinstance(node, ast.Constant):
            yield str(node.value)
    if file.suffix != ".py":
        yield text


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


def test_a_link_to_a_file_outside_of_docs_is_a_page(site: Path) -> None:
    first = (site / "index.html").read_text(encoding="utf-8")
    assert 'href="repository/config/"' in first
    assert 'href="tutorial/"' in first
    assert 'src="images/passk.svg"' in first
    assert 'href="../repository/config/experiments/llama-sql.yaml/"' in (site / "experiments/index.html").read_text()
    shown = (site / "repository/config/experiments/llama-sql.yaml/index.html").read_text(encoding="utf-8")
    assert "<h1" in shown
    assert "train_dataset" in shown


def test_the_site_has_every_key_table_rule_and_public_name(site: Path) -> None:
    def shown(page: str) -> str:
        return (site / "reference" / page / "index.html").read_text(encoding="utf-8")

    assert [key for key in known_paths() if f">{html.escape(key)}<" not in shown("configuration")] == []
    of_files = SCHEMAS.keys() - {"costs"}  # a table of the report page
    assert [name for name in of_files if f"<code>{name}</code>" not in shown("artifacts")] == []
    rules = {name for file in (ROOT / "rules").glob("*.smk") for name in re.findall(r"rule (\w+):", file.read_text())}
    assert {name for name in rules if f"<code>{name}</code>" not in shown("rules")} == set()
    assert all(f'id="dphrl.scoring.{name}"' in shown("python") for name in scoring.__all__)
    assert "exit status: 0 NOT COLLAPSED" in shown("commands")


def test_the_configuration_of_the_page_on_own_data_is_valid() -> None:
    page = (ROOT / "docs/how-to/own-data.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^ {8}run: .*\n(?:^ {8}.*\n)+", page, re.MULTILINE)
    assert set(load_config(yaml.safe_load(textwrap.dedent(block))).methods) == {"grpo", "dph_f"}


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Where the site is served on this machine."""
    handler = partial(SilentHandler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class SilentHandler(SimpleHTTPRequestHandler):
    """Serves files and logs nothing."""

    def log_message(self, format: str, *args: Any) -> None:
        """No line for a request."""


WIDE, NARROW, LONG = (1280, 900), (390, 844), ("diagnose", "methods", "troubleshooting", "worked-example")


@pytest.mark.parametrize(
    ("page", "width", "height"),
    [
        ("", *WIDE),
        ("", *NARROW),
        ("tutorial/", *NARROW),
        # In `make test-full` only: the other long pages, and all of them wide.
        *(pytest.param(f"{page}/", *NARROW, id=f"{page}-narrow", marks=pytest.mark.full) for page in LONG),
        *(pytest.param(f"{page}/", *WIDE, id=f"{page}-wide", marks=pytest.mark.full) for page in ("tutorial", *LONG)),
    ],
)
def test_the_site_in_a_browser(
    browser: Any, resize: Any, serious: Any, address: str, page: str, width: int, height: int
) -> None:
    resize(width, height)
    browser.get(f"{address}/{page}")
    assert browser.find_element("css selector", "h1").text
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert serious() == []
    assert browser.get_log("browser") == []
