"""Every fault in every kind of artifact of a real run is named by the audit: the matrix of docs/audit.md.

The next run names a damaged file too, and its remedy gives the same bytes.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from faults import FOREIGN, OF_A_FILE, failures
from runs import Workflow

pytestmark = [pytest.mark.workflow, pytest.mark.full]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "audit.md"
# The kinds of artifact, one file of each; a file of a folder is named by the manifest of the folder.
KINDS = {
    "toy world": "toy.json",
    "base policy": "policies/base.json",
    "weights of a model": "policies/base/model.safetensors",
    "prompts": "prompts/in_domain.parquet",
    "rejected rows": "prompts/in_domain.rejected.parquet",
    "gold": "gold/in_domain.parquet",
    "overlap": "gold/overlap.parquet",
    "rollouts": "draws/main/rollouts/train.presample/1.parquet",
    "verdicts": "draws/main/verdicts/train.presample/1.parquet",
    "partition": "draws/main/partition/final.parquet",
    "index of the reference": "draws/main/reference/index.parquet",
    "tensors of the reference": "draws/main/reference/responses.safetensors",
    "trained policy": "policies/grpo-s1/step4.json",
    "state of the optimizer": "states/grpo-s1/step4.json",
    "metrics": "train/grpo-s1/step2/metrics.parquet",
    "evaluation": "evaluation/grpo-s1/step4/in_domain.parquet",
    "table": "tables/headline.parquet",
    "table as text": "tables/headline.csv",
    "figure": "figures/passk.json",
    "drawing": "figures/passk.svg",
}
# The matrix's name of a finding, and a part of its message.
FINDINGS = {
    "seal": "it is not the file that was written|no manifest",
    "manifest": r"not the file that \S+\.(json|parquet) lists",
    "list": "not the file that SHA256SUMS lists",
    "missing": "missing, but ",
    "unknown": "no rule of this workflow writes it|not listed in |was written as ",
}
# A copy of these under another name may be a file that somebody keeps there.
KEPT = ("toy world", "table as text", "figure", "drawing")


@dataclass
class Runs:
    """A finished run that is damaged and restored, another run, and the findings of the audit."""

    root: Path
    other: Path
    matrix: dict[str, dict[str, str]] = field(default_factory=dict)


@pytest.fixture(scope="module")
def runs(pristine: Workflow, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    other = Workflow(pristine.project, tmp_path_factory.mktemp("other"), pristine.config).configured(
        seed=2, toy={"seed": 2}
    )
    other.run()
    mine = pristine.copied(tmp_path_factory.mktemp("mine") / "run")
    return Runs(mine.results, other.results)


@pytest.fixture
def restored(runs: Runs, tmp_path: Path) -> Iterator[None]:
    """Restore the run after the test."""
    before = runs.root.with_name("before")
    shutil.copytree(runs.root, before, symlinks=True)
    yield
    shutil.rmtree(runs.root)
    before.rename(runs.root)


def test_a_finished_run_has_no_fault(runs: Runs) -> None:
    assert failures(runs.root) == {}


@pytest.mark.parametrize("fault", OF_A_FILE)
@pytest.mark.parametrize("kind", KINDS)
def test_every_fault_is_named_with_a_remedy(runs: Runs, restored: None, kind: str, fault: str) -> None:
    path = KINDS[kind]
    file, other = runs.root / path, runs.other / path
    assert other.read_bytes() != file.read_bytes()
    OF_A_FILE[fault](file, other)
    found = failures(runs.root)
    if fault == "foreign file" and kind in KEPT:
        assert found == {}
        runs.matrix.setdefault(kind, {})[fault] = "kept"
        return
    (named,) = [path] if fault != "foreign file" else [f"{path.rpartition('/')[0]}/{FOREIGN}{file.suffix}"]
    messages = found[named]
    assert all(re.search("snakemake|move it out", text) for text in messages)
    findings = [name for name, pattern in FINDINGS.items() if any(re.search(pattern, text) for text in messages)]
    assert findings, messages
    runs.matrix.setdefault(kind, {})[fault] = findings[0]


def test_the_matrix_is_that_of_the_docs(runs: Runs) -> None:
    """Print the matrix; docs/audit.md must contain it."""
    assert {(kind, fault) for kind, row in runs.matrix.items() for fault in row} == {
        (kind, fault) for kind in KINDS for fault in OF_A_FILE
    }
    lines = [f"| artifact | {' | '.join(OF_A_FILE)} |", f"| --- |{' --- |' * len(OF_A_FILE)}"]
    kinds: dict[str, list[str]] = {}  # by row: kinds whose faults are found alike share a line
    for kind, row in runs.matrix.items():
        kinds.setdefault(" | ".join(row[fault] for fault in OF_A_FILE), []).append(kind)
    lines += [f"| {', '.join(alike)} | {cells} |" for cells, alike in kinds.items()]
    print("\n".join(lines))
    assert "\n".join(lines) in PAGE.read_text()


# The files that the next run reads, by a stage or by its audit.
READ_AGAIN = (
    "prompts/train.parquet",
    "gold/in_domain.parquet",
    "draws/main/rollouts/train.presample/0.parquet",
    "draws/main/verdicts/train.presample/1.parquet",
    "draws/main/partition/final.parquet",
    "draws/main/reference/index.parquet",
    "draws/main/reference/responses.safetensors",
    "policies/base/model.safetensors",
    "policies/grpo-s1/step4/model.safetensors",
    "train/grpo-s1/step4/metrics.parquet",
    "evaluation/base/maths.parquet",
    "tables/passk.parquet",
)


@pytest.mark.parametrize("name", READ_AGAIN)
@pytest.mark.parametrize("fault", ["flipped byte", "truncated"])
def test_the_next_run_names_a_damaged_file_and_without_it_ends_in_the_same_bytes(
    pristine: Workflow, tmp_path: Path, name: str, fault: str
) -> None:
    run = pristine.copied(tmp_path / "run")
    OF_A_FILE[fault](run.results / name, run.results / name)
    shutil.rmtree(run.results / "audit")
    assert run.start().wait() != 0
    assert name in run.output()
    for path in _to_delete(run):
        path.unlink()
    run.run()
    assert run.digests() == pristine.digests()
    assert not list(run.results.rglob(".*.tmp"))
    shutil.rmtree(run.folder)


def _to_delete(run: Workflow) -> set[Path]:
    """The files that the output of a failed run says to delete, by their paths or as "it" after their paths."""
    output = run.output()
    named = re.findall(r"delete (\S+) and run snakemake again", output)
    for line in re.findall(r".*; delete it and run snakemake again", output):
        named += re.split(": |FAILED  ", line)
    paths = {base / name for base in (run.folder, run.results) for name in named}
    found = {path for path in paths if path.is_file()}
    assert found, output[-3000:]
    return found
