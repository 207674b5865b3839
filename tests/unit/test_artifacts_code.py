"""The digest of a stage's code: what changes it, what does not."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dphrl.artifacts import SCHEMAS, CodeChangedError, code, code_digest, verify_code

# A package with the layout of the real one: digests are of text alone, so nothing of it ever runs.
FILES = {
    "__init__.py": '"""The package."""\n',
    "artifacts/__init__.py": "WIDTH = 1\n",
    "config/__init__.py": "",
    "config/train.py": "LR = 1\n",
    "alone.py": "X = 1\n",
    "far.py": "FAR = 1\n",
    "near/__init__.py": "from dphrl.near.inside import inside\n",
    "near/inside.py": "import dphrl.far\n\n\ndef inside():\n    return dphrl.far.FAR\n",
    "near/other.py": "OTHER = 1\n",
    "stage.py": '''"""A stage."""

import dphrl.config.train
from dphrl.artifacts import WIDTH


class Stage:
    """What it is."""

    def run(self, x):
        """Run it."""
        from dphrl.near import inside  # late

        return inside() + x * 2

    async def later(self):
        """Only a docstring."""
''',
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(code, "_ROOT", tmp_path)
    _forget()
    return tmp_path


def _forget() -> None:
    """As in a new process."""
    code._imports.cache_clear()
    code._normalised_source.cache_clear()


@pytest.fixture(autouse=True)
def _forget_afterwards() -> object:
    yield
    _forget()


def _edit(package: Path, name: str, old: str, new: str) -> None:
    text = (package / name).read_text()
    assert old in text
    (package / name).write_text(text.replace(old, new))
    _forget()


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("stage.py", "# late", "# still late"),
        ("stage.py", "What it is.", "What it was."),
        ("stage.py", '"""A stage."""\n', ""),
        ("stage.py", '        """Run it."""\n', ""),
        ("stage.py", '        """Only a docstring."""\n', "        pass\n"),
        ("stage.py", "x * 2", "(x\n                * 2)"),
        ("__init__.py", "The package.", "A package."),
        ("alone.py", "1", "2"),
        ("near/other.py", "1", "2"),
        ("artifacts/__init__.py", "1", "2"),
        ("config/train.py", "1", "2"),
    ],
)
def test_what_cannot_change_the_result_does_not_change_the_digest(package: Path, name: str, old: str, new: str) -> None:
    before = code_digest(["dphrl.stage"])
    _edit(package, name, old, new)
    assert code_digest(["dphrl.stage"]) == before


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("stage.py", "x * 2", "x * 3"),
        ("stage.py", "def run(self, x)", "def run(self, x, y=1)"),
        ("near/__init__.py", "inside\n", "inside\n\nN = 1\n"),
        ("near/inside.py", "FAR", "FAR + 0"),
        ("far.py", "1", "2"),
        ("__init__.py", '"""The package."""', "import dphrl.alone"),
    ],
)
def test_what_can_change_the_result_changes_the_digest(package: Path, name: str, old: str, new: str) -> None:
    before = code_digest(["dphrl.stage"])
    _edit(package, name, old, new)
    assert code_digest(["dphrl.stage"]) != before


def test_the_digest_is_of_a_set_of_modules(package: Path) -> None:
    assert code_digest(["dphrl.stage", "dphrl.alone"]) == code_digest(["dphrl.alone", "dphrl.stage", "dphrl.far"])
    assert code_digest(["dphrl.stage", "dphrl.alone"]) != code_digest(["dphrl.stage"])


def test_a_schema_that_the_stage_writes_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    alone, metrics = code_digest(["dphrl.partition"]), code_digest(["dphrl.partition"], ["metrics"])
    assert alone != metrics
    assert code_digest(["dphrl.partition"], ["gold", "metrics"]) == code_digest(
        ["dphrl.partition"], ["metrics", "gold"]
    )
    monkeypatch.setitem(SCHEMAS, "metrics", replace(SCHEMAS["metrics"], bounds={"step": (0, 9)}))
    assert code_digest(["dphrl.partition"], ["metrics"]) != metrics
    assert code_digest(["dphrl.partition"]) == alone


@pytest.mark.parametrize("module", ["dphrl.nothing", "dphrl.near.nothing", "numpy"])
def test_a_module_that_does_not_exist_is_an_error(package: Path, module: str) -> None:
    with pytest.raises(ValueError, match=f"no module '{module}'"):
        code_digest([module])


def test_a_relative_import_is_an_error(package: Path) -> None:
    _edit(package, "near/__init__.py", "dphrl.near.inside", ".inside")
    with pytest.raises(ValueError, match=r"dphrl\.near uses a relative import"):
        code_digest(["dphrl.stage"])


def test_a_change_after_the_plan_was_made_stops_the_stage(package: Path) -> None:
    planned = code_digest(["dphrl.stage"], ["metrics"])
    verify_code(planned, ["dphrl.stage"], ["metrics"])
    _edit(package, "far.py", "1", "2")
    with pytest.raises(CodeChangedError, match=r"the code of dphrl\.stage changed .* start snakemake again"):
        verify_code(planned, ["dphrl.stage"], ["metrics"])


def test_every_module_of_the_package_has_a_digest_that_other_processes_agree_on() -> None:
    package = code._ROOT
    names = sorted(
        ".".join(["dphrl", *path.relative_to(package).with_suffix("").parts]).removesuffix(".__init__")
        for path in package.rglob("*.py")
    )
    script = f"from dphrl.artifacts import code_digest\nprint([code_digest([n]) for n in {names}])"
    environment = {"PYTHONPATH": str(package.parent), "PYTHONHASHSEED": "1"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == str([code_digest([name]) for name in names])
