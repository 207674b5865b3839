"""The digest of a stage's code: edits that change it, and edits that do not."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dphrl.store import code
from dphrl.store.catalogue import SCHEMAS
from dphrl.store.code import CodeChangedError, code_digest, leave_to_jobs, verify_code

# A project with the layout of the real one: digests are of text alone, so nothing of it ever runs.
FILES = {
    "stages/run.py": "from shared import start\n\nfrom dphrl.stage import Stage\n\nstart(Stage)\n",
    "shared.py": "def start(stage):\n    return stage\n",
    "dphrl/__init__.py": '"""The package."""\n',
    "dphrl/store/__init__.py": "WIDTH = 1\n",
    "dphrl/config/__init__.py": "",
    "dphrl/config/train.py": "LR = 1\n",
    "dphrl/machine.py": "ROOT = 1\n",
    "dphrl/alone.py": "X = 1\n",
    "dphrl/far.py": "FAR = 1\n",
    "dphrl/near/__init__.py": "from dphrl.near.other import OTHER\n",
    "dphrl/near/inside.py": "import dphrl.far\n\n\ndef inside():\n    return dphrl.far.FAR\n",
    "dphrl/near/other.py": "OTHER = 1\n",
    "dphrl/drawn/__init__.py": "from dphrl.drawn.named import NAMES\n",
    "dphrl/drawn/named.py": "NAMES = 1\n",
    "dphrl/drawn/named.yaml": "names: 1\n",
    "dphrl/alone.yaml": "x: 1\n",
    "dphrl/report/render.py": "PAGE = 1\n",
    "dphrl/report/templates/page.html.j2": "<html>",
    "dphrl/report/assets/page.css": "p {}",
    "dphrl/stage.py": '''"""A stage."""

import dphrl.config.train
from dphrl import machine
from dphrl.store import WIDTH
from dphrl.drawn import NAMES


class Stage:
    """What it is."""

    def run(self, x):
        """Run it."""
        from dphrl.near.inside import inside  # late

        return inside() + x * 2

    async def later(self):
        """Only a docstring."""
''',
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(code, "_ROOT", tmp_path / "dphrl")
    _forget()
    return tmp_path


def _forget() -> None:
    """As in a new process."""
    for cached in (code._tree, code._needs, code._code):
        cached.cache_clear()


@pytest.fixture(autouse=True)
def _forget_afterwards() -> object:
    yield
    _forget()


def _edit(project: Path, name: str, old: str, new: str) -> None:
    text = (project / name).read_text()
    assert old in text
    (project / name).write_text(text.replace(old, new))
    _forget()


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("dphrl/stage.py", "# late", "# still late"),
        ("dphrl/stage.py", "What it is.", "What it was."),
        ("dphrl/stage.py", '"""A stage."""\n', ""),
        ("dphrl/stage.py", '        """Run it."""\n', ""),
        ("dphrl/stage.py", '        """Only a docstring."""\n', "        pass\n"),
        ("dphrl/stage.py", "x * 2", "(x\n                * 2)"),
        ("dphrl/__init__.py", "The package.", "A package."),
        ("dphrl/alone.py", "1", "2"),
        ("dphrl/alone.yaml", "1", "2"),
        ("dphrl/near/other.py", "1", "2"),
        ("dphrl/near/__init__.py", "OTHER", "OTHER as other"),
        ("dphrl/store/__init__.py", "1", "2"),
        ("dphrl/config/train.py", "1", "2"),
        ("dphrl/machine.py", "1", "2"),
        ("dphrl/report/templates/page.html.j2", "html", "body"),
    ],
)
def test_what_cannot_change_the_result_does_not_change_the_digest(project: Path, name: str, old: str, new: str) -> None:
    before = code_digest(["run.py"])
    _edit(project, name, old, new)
    assert code_digest(["run.py"]) == before


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("stages/run.py", "start(Stage)", "start(Stage, 2)"),
        ("shared.py", "return stage", "return stage()"),
        ("dphrl/stage.py", "x * 2", "x * 3"),
        ("dphrl/stage.py", "def run(self, x)", "def run(self, x, y=1)"),
        ("dphrl/near/inside.py", "FAR", "FAR + 0"),
        ("dphrl/far.py", "1", "2"),
        ("dphrl/drawn/__init__.py", "NAMES", "NAMES as named"),
        ("dphrl/drawn/named.py", "1", "2"),
        ("dphrl/drawn/named.yaml", "1", "2"),
    ],
)
def test_what_can_change_the_result_changes_the_digest(project: Path, name: str, old: str, new: str) -> None:
    before = code_digest(["run.py"])
    _edit(project, name, old, new)
    assert code_digest(["run.py"]) != before


@pytest.mark.parametrize("name", ["templates/page.html.j2", "assets/page.css"])
def test_a_template_or_asset_changes_the_digest_of_code_that_makes_pages(project: Path, name: str) -> None:
    _edit(project, "stages/run.py", "start(Stage)", "import dphrl.report.render")
    before = code_digest(["run.py"])
    _edit(project, f"dphrl/report/{name}", "{}" if name.endswith("css") else "html", "body")
    assert code_digest(["run.py"]) != before


def test_the_digest_is_of_a_set_of_modules(project: Path) -> None:
    assert code_digest(["run.py", "dphrl.alone"]) == code_digest(["dphrl.alone", "run.py", "dphrl.far"])
    assert code_digest(["run.py", "dphrl.alone"]) != code_digest(["run.py"])


def test_a_schema_that_the_stage_writes_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    alone, metrics = code_digest(["dphrl.data.partition"]), code_digest(["dphrl.data.partition"], ["metrics"])
    assert alone != metrics
    assert code_digest(["dphrl.data.partition"], ["gold", "metrics"]) == code_digest(
        ["dphrl.data.partition"], ["metrics", "gold"]
    )
    monkeypatch.setitem(SCHEMAS, "metrics", replace(SCHEMAS["metrics"], bounds={"step": (0, 9)}))
    assert code_digest(["dphrl.data.partition"], ["metrics"]) != metrics
    assert code_digest(["dphrl.data.partition"]) == alone


@pytest.mark.parametrize("name", ["dphrl.nothing", "dphrl.near.nothing", "numpy", "nothing.py"])
def test_code_that_does_not_exist_is_an_error(project: Path, name: str) -> None:
    with pytest.raises(ValueError, match=f"no script or module '{name}'"):
        code_digest([name])


def test_a_relative_import_is_an_error(project: Path) -> None:
    _edit(project, "dphrl/near/inside.py", "import dphrl.far", "from . import far")
    with pytest.raises(ValueError, match=r"dphrl\.near\.inside uses a relative import"):
        code_digest(["run.py"])


@pytest.mark.parametrize("in_environment", [True, False])
def test_a_change_after_the_plan_was_made_stops_the_stage(
    project: Path, in_environment: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job compares the files of the code with those in its environment; where they differ it parses them."""
    monkeypatch.setattr(os, "environ", os.environ.copy())
    if in_environment:
        leave_to_jobs()
    planned = code_digest(["run.py"], ["metrics"])
    verify_code(planned, ["run.py"], ["metrics"])
    _edit(project, "stages/run.py", "from shared", "# A remark.\nfrom shared")
    verify_code(planned, ["run.py"], ["metrics"])
    _edit(project, "dphrl/far.py", "1", "2")
    with pytest.raises(CodeChangedError, match=r"the code of run\.py changed .* start snakemake again"):
        verify_code(planned, ["run.py"], ["metrics"])


def test_scripts_have_digests_that_other_processes_agree_on() -> None:
    package, names = code._ROOT, ["find_overlap.py"]
    script = f"from dphrl.store.code import code_digest\nprint([code_digest([n]) for n in {names}])"
    environment = {"PYTHONPATH": str(package.parent), "PYTHONHASHSEED": "1"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == str([code_digest([name]) for name in names])
