"""Files that belong to a release: they can be read, and they agree with each other."""

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def released() -> tuple[str, str]:
    """The newest version of the changelog with its date."""
    versions = r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)$"
    found = re.findall(versions, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert found == sorted(found, key=lambda one: [*map(int, one[0].split("."))], reverse=True)
    newest: tuple[str, str] = found[0]
    return newest


def test_the_version_is_the_newest_of_the_changelog() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == released()[0]
    assert project["license"] == read("CITATION.cff")["license"]
    module = (ROOT / "docs/module.md").read_text(encoding="utf-8")
    assert {*re.findall(r"\bv(\d+\.\d+\.\d+)\b", module)} == {released()[0]}


def test_the_citation_has_the_required_keys_and_the_released_version() -> None:
    citation = read("CITATION.cff")
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= citation.keys()
    assert (citation["version"], str(citation["date-released"])) == released()
    paper = citation["preferred-citation"]
    assert {"type", "title", "authors"} <= paper.keys()
    assert paper["identifiers"] == [{"type": "other", "value": "arXiv:2509.07430"}]
    for author in [*citation["authors"], *paper["authors"]]:
        assert author.keys() in ({"name"}, {"family-names", "given-names"})


def made(*variables: str) -> "subprocess.CompletedProcess[str]":
    """What `make run` would start."""
    command = ["make", "-s", "-n", "-o", "install", "run", *variables]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_make_run_starts_the_launcher_with_the_configuration_of_the_user() -> None:
    assert made("CONFIG=my.yaml").stdout.endswith("workflow_scripts/launch.py --cores 2  --configfile my.yaml\n")
    assert made("CONFIG=a.yaml b.yaml").stdout.endswith(" --configfile a.yaml b.yaml\n")
    printed = made("CONFIG=my.yaml", "TARGET=presample", "CORES=4").stdout
    assert printed.endswith("workflow_scripts/launch.py --cores 4 presample --configfile my.yaml\n")
    without = subprocess.run(
        ["make", "-s", "-o", "install", "run"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert without.returncode
    assert "make run needs a configuration: make run CONFIG=my.yaml" in without.stderr


def installs(folder: Path, *variables: str) -> "subprocess.CompletedProcess[str]":
    """What `make install` would do with an environment that is older than the files of pins."""
    command = ["make", "-s", "-n", "-W", "pyproject.toml", "install", f"VENV={folder}", *variables]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_an_environment_for_gpus_is_never_overwritten_by_the_packages_for_cpus(tmp_path: Path) -> None:
    cpu, gpu = installs(tmp_path).stdout, installs(tmp_path, "SET=gpu").stdout
    assert "-r envs/cpu.txt -r envs/dev.txt" in cpu
    assert "torch==" in cpu
    assert "-r envs/gpu.txt -r envs/dev.txt" in gpu
    assert "torch==" not in gpu
    (tmp_path / ".installed").write_text("gpu\n")
    assert installs(tmp_path).stdout == gpu
    assert f"{tmp_path} has the set gpu, not cpu" in installs(tmp_path, "SET=cpu").stderr
    # Of an earlier version, which did not write the name of the set.
    (tmp_path / ".installed").write_text("")
    assert installs(tmp_path).stdout == cpu
    assert f"{tmp_path} has the set cpu, not gpu" in installs(tmp_path, "SET=gpu").stderr
