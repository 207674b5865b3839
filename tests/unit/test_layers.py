"""The layers of the package: which may import which, who may import torch and Snakemake, how large a file may be."""

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "workflow_scripts"
PACKAGE = SCRIPTS / "dphrl"
LAYERS = (
    ("model_config", "text"),
    ("hub", "machine"),
    ("config",),
    ("store",),
    ("evaluation", "objective"),
    ("data",),
    ("policy", "scoring"),
    ("training",),
    ("toy",),
    ("plan", "report"),
    ("diagnose",),
    ("cli",),
    ("__main__",),
)
LAYER = {package: number for number, packages in enumerate(LAYERS) for package in packages}
# `plan` multiplies a matrix where torch is installed.
WITH_TORCH = {"objective", "plan", "policy", "training", "toy"}
MODULES = sorted(PACKAGE.rglob("*.py"))
PLUGIN = sorted((SCRIPTS / "snakemake_logger_plugin_dphrl").glob("*.py"))
RULE_SCRIPTS = sorted([*SCRIPTS.glob("*.py"), *SCRIPTS.glob("stages/*.py")])


def _package(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@cache
def _imports(path: Path) -> list[str]:
    """Dotted names of all that a file imports, inside functions too."""
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} uses a relative import"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def _libraries(path: Path) -> set[str]:
    return {name.split(".")[0] for name in _imports(path)}


def _lines(path: Path) -> int:
    """Lines of a file; of a Snakefile those that say something: snakefmt spreads its rules with blank ones."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return len(lines) if path.suffix else sum(bool(line.strip()) for line in lines)


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_every_package_has_a_layer() -> None:
    assert {_package(path) for path in MODULES} == {*LAYER, "__init__"}


@pytest.mark.parametrize("path", [path for path in MODULES if _package(path) != "__init__"], ids=_name)
def test_a_package_imports_only_from_lower_layers(path: Path) -> None:
    package = _package(path)
    imported = {name.split(".")[1] for name in _imports(path) if name.startswith("dphrl.")}
    assert {other for other in imported - {package} if LAYER[other] >= LAYER[package]} == set()


def test_the_logger_plugin_imports_only_from_the_lowest_layers() -> None:
    names = [name for path in PLUGIN for name in _imports(path) if name.startswith("dphrl.")]
    assert {name.split(".")[1] for name in names} <= {name for layer in LAYERS[:3] for name in layer}


@pytest.mark.parametrize("library", ["torch", "deepspeed", "vllm"])
def test_only_some_packages_import_the_engines(library: str) -> None:
    assert {_package(path) for path in MODULES if library in _libraries(path)} <= WITH_TORCH


def test_only_scripts_know_snakemake() -> None:
    assert [_name(path) for path in MODULES if "snakemake" in _libraries(path)] == []


def test_the_config_package_exports_nothing() -> None:
    """Blocks, checks and slices are imported from their modules."""
    body = ast.parse((PACKAGE / "config" / "__init__.py").read_text(encoding="utf-8")).body
    assert len(body) == 1
    assert isinstance(body[0], ast.Expr)


@pytest.mark.parametrize("package", sorted(LAYER))
def test_a_package_declares_what_it_exports(package: str) -> None:
    path = PACKAGE / package / "__init__.py"
    tree = ast.parse(path.read_text(encoding="utf-8")) if path.exists() else ast.Module([], [])
    given = {alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    declared = {name for node in tree.body if isinstance(node, ast.Assign) for name in ast.literal_eval(node.value)}
    assert declared == given - {"annotations"}


def test_files_stay_small() -> None:
    limits = [
        *((path, 400) for path in [*MODULES, *PLUGIN]),
        *((path, 40) for path in RULE_SCRIPTS),
        *((path, 150) for path in sorted((ROOT / "rules").glob("*.smk"))),
        (ROOT / "Snakefile", 48),
    ]
    assert [
        f"{_name(path)}: {_lines(path)} lines, at most {most}" for path, most in limits if _lines(path) > most
    ] == []
