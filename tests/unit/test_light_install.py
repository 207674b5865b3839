"""The light installation: no torch, no snakemake, no scorers."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn
from zipfile import ZipFile

import pytest
from light import EXTRAS, WITHOUT_EXTRAS

from dphrl.cli import COMMANDS, main

ROOT = Path(__file__).resolve().parents[2]
# Packages with nothing to import in a light installation; of the others the modules that need an extra.
HEAVY = ("objective", "policy", "toy", "training")
NEED_AN_EXTRA = (
    *("dphrl.machine.leftovers", "dphrl.report.cards", "dphrl.plan.look"),
    *("dphrl.scoring.math.algebra", "dphrl.scoring.math.judge"),
    *("dphrl.scoring.sql.canonical_form", "dphrl.scoring.sql.row_order"),
)
IMPORT_ALL = f"""
import importlib, pkgutil, sys, dphrl
heavy = tuple(f"dphrl.{{name}}." for name in {HEAVY})
for found in pkgutil.walk_packages(dphrl.__path__, "dphrl.", onerror=lambda name: None):
    if not f"{{found.name}}.".startswith(heavy) and found.name not in {NEED_AN_EXTRA}:
        importlib.import_module(found.name)
print(sorted(name for name in {EXTRAS} if sys.modules.get(name)))
"""


def _python(*command: str, python: str | Path = sys.executable) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(python), *command], capture_output=True, text=True)


def test_light_modules_import_without_the_extras() -> None:
    done = _python("-c", f"{WITHOUT_EXTRAS}\n{IMPORT_ALL}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")


def test_help_acts_on_nothing_and_loads_no_library() -> None:
    libraries = ("altair", "numpy", "polars", "pydantic", "scipy", "torch", "yaml")
    script = f"""
import sys
from dphrl.cli import COMMANDS, main
for name in COMMANDS:
    try:
        main([name, "--help"])
    except SystemExit as end:
        assert end.code == 0, name
print([name for name in {libraries} if name in sys.modules])
"""
    done = _python("-c", script)
    assert done.stdout.count("usage: dphrl ") == len(COMMANDS)
    assert done.stdout.endswith("\n[]\n")


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("math_verify.part", "math_verify is not installed: pip install 'dphrl[math]'"),
        ("torch", "torch is not installed: pip install 'dphrl[workflow]'"),
        ("any", "no module any"),
    ],
)
def test_a_missing_extra_is_named_in_one_line(
    missing: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def show(path: Path) -> NoReturn:
        raise ModuleNotFoundError("no module any", name=missing)

    monkeypatch.setattr("dphrl.report.show.show", show)
    assert main(["show", "file"]) == 2
    assert capsys.readouterr().err == f"dphrl show: {said}\n"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that `make wheel` builds."""
    tree = tmp_path_factory.mktemp("tree")
    for name in ("Makefile", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    ignored = shutil.ignore_patterns("*.egg-info", "__pycache__")
    shutil.copytree(ROOT / "workflow_scripts", tree / "workflow_scripts", ignore=ignored)
    make = ["make", "-s", "-C", str(tree), "-o", "install", f"VENV={ROOT / '.venv'}", "wheel"]
    subprocess.run(make, check=True)
    (built,) = (tree / "dist").glob("*.whl")
    return built


@pytest.mark.full
def test_snakemake_finds_the_logger_plugin_in_the_wheel(wheel: Path, tmp_path: Path) -> None:
    with ZipFile(wheel) as file:
        file.extractall(tmp_path)
    script = """
from snakemake_interface_logger_plugins.registry import LoggerPluginRegistry
import snakemake_logger_plugin_dphrl
print(LoggerPluginRegistry().is_installed("dphrl"), snakemake_logger_plugin_dphrl.__file__)
"""
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    shown = subprocess.check_output([sys.executable, "-c", script], env=environment, cwd=tmp_path, text=True)
    assert shown == f"True {tmp_path}/snakemake_logger_plugin_dphrl/__init__.py\n"


@pytest.mark.full
def test_the_wheel_works_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    light = tmp_path / "light"
    subprocess.run([sys.executable, "-m", "venv", str(light)], check=True)
    python = light / "bin" / "python"
    if _python("-m", "pip", "download", "-q", "--no-deps", "-d", str(tmp_path), "tqdm", python=python).returncode:
        pytest.skip("no package index: pip cannot download tqdm")
    installed = _python("-m", "pip", "install", "-q", str(wheel), python=python)
    assert installed.returncode == 0, installed.stderr
    # Not this tree, which tests have on their path.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    shown = subprocess.check_output([light / "bin" / "dphrl", "--help"], env=environment, cwd=tmp_path, text=True)
    assert shown.startswith("usage: dphrl")
    # As shares of 80 questions: half are solved; half of these are lost; with half of 8 questions nothing is certain.
    half, fewer = {f"q{n}": n < 40 for n in range(80)}, {f"q{n}": n < 20 for n in range(80)}
    samples = {"base": half, "worse": fewer, "few": dict([*half.items()][36:44])}
    for name, solved in samples.items():
        rows = [{"question_id": key, "text": f"{right}", "correct": right} for key, right in solved.items()]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows * 4))
    for code, *files in ((0, "base", "base"), (3, "base", "worse"), (4, "few", "few")):
        command = [light / "bin" / "dphrl", "diagnose", *(f"{name}.jsonl" for name in files)]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout + done.stderr
    for name in ("diagnose_samples", "pass_at_k"):
        subprocess.run([python, ROOT / "examples" / f"{name}.py"], env=environment, cwd=tmp_path, check=True)
    imports = [python, "-c", f"{IMPORT_ALL}\nprint(dphrl.__file__)"]
    extras, where = subprocess.check_output(imports, env=environment, cwd=tmp_path, text=True).splitlines()
    assert extras == "[]"
    assert Path(where).is_relative_to(light)
