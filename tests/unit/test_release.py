"""Files that belong to a release: they can be read, and they agree with each other."""

import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FORMS = sorted(path for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


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


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_an_issue_form_has_what_github_requires(path: Path) -> None:
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert {"name", "description", "body"} <= form.keys()
    names = [field["id"] for field in form["body"]]
    assert len(set(names)) == len(names)
    for field in form["body"]:
        assert field["type"] in ("textarea", "input", "dropdown", "checkboxes", "markdown")
        assert field["attributes"]["label"]


def test_the_image_is_made_by_the_commands_of_the_readme_and_the_makefile() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    steps = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    once = {name: rest for name, rest in steps if name not in ("ARG", "RUN")}
    oldest = re.search(r'requires-python = ">=(\d+\.\d+)"', (ROOT / "pyproject.toml").read_text())
    assert oldest
    assert once["FROM"] == f"python:{oldest[1]}-slim-bookworm"
    packages, user, install = (rest for name, rest in steps if name == "RUN")
    # A C++ compiler and two libraries, as the README says; git is for `make lint` and Snakemake's modules.
    expected = ["make", "g++", "git", "libnuma1", "libtcmalloc-minimal4"]
    assert re.search(r"--no-install-recommends (.*?) &&", packages)[1].split() == expected
    # Nothing after the packages is done or owned by root.
    names = [name for name, _ in steps]
    assert names.index("USER") < names.index("WORKDIR") < names.index("COPY")
    assert once["COPY"] == f"--chown={once['USER']} . ."
    assert re.search(rf"--home-dir {once['WORKDIR']} {once['USER']}$", user)
    demo = " ".join(json.loads(once["CMD"]))
    for command in (install, demo):
        make, target, *_ = command.split()
        assert make == "make"
        assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE)
    assert demo in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_host_runs_targets_of_the_makefile_on_the_oldest_python_too() -> None:
    jobs = read(".github/workflows/ci.yml")["jobs"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    oldest = project["requires-python"].removeprefix(">=")
    on_oldest = [one["targets"] for one in jobs["test"]["strategy"]["matrix"]["include"] if one["python"] == oldest]
    assert re.search(rf"^test: {' '.join(on_oldest)} ##", MAKEFILE, re.MULTILINE)
    for step in jobs["nightly"]["steps"]:
        for target in re.findall(r"^make ([\w-]+)", step.get("run", "")):
            assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE)


def test_the_page_on_containers_has_the_arguments_and_folders_of_the_image() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    page = (ROOT / "docs/how-to/containers.md").read_text(encoding="utf-8")
    arguments = dict(re.findall(r"^ARG (\w+)=(\w+)$", text, re.MULTILINE))
    assert arguments == {"UID": "1000", "SET": "cpu"}
    assert {*re.findall(r"--build-arg (\w+)=", page + text)} == arguments.keys()
    assert {*re.findall(r"(?<=[ :])/\w+(?=/)", "\n".join(re.findall(r"^ {4}.*", page, re.MULTILINE)))} == {"/dphrl"}
    for line in re.findall(r"^#     (.*)", text, re.MULTILINE):
        assert f"    {line}\n" in page


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


def test_the_image_leaves_out_what_git_ignores() -> None:
    """And the users' models and data, of any size."""
    ignored = {line.strip("/") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").split()}
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert ignored | {".git", "models", "data"} == {line.removeprefix("**/") for line in lines}


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
