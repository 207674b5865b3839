"""Every fault in every kind of artifact is named by the audit: the matrix of docs/audit.md."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
import pytest
from raw_tables import flip_byte, write_raw
from runs import Workflow

from dphrl.artifacts.footer import sealed
from dphrl.artifacts.tables import read_footer
from dphrl.audit.run import audit_run

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
    "table as text": "tables/headline.md",
    "figure": "figures/passk.json",
    "drawing": "figures/passk.svg",
}
# The matrix's name of a finding, and the message of the failed check.
FINDINGS = {
    "bytes": r"is not the file that was written|lists files that have changed",
    "missing": r"is missing|no shard|is not there|lists files that are missing",
    "unreadable": r"cannot be read|not a readable parquet file|a damaged footer|no manifest",
    "unknown": r"is not known to this workflow|has files in its folder that it does not list",
    "inputs": r"was made from other",
    "rows": r"prompts of |samples |rows ",
    "last audit": r"is not the file that SHA256SUMS lists",
}


def flipped(file: Path, other: Path) -> None:
    """One byte in the middle is another."""
    flip_byte(file)


def truncated(file: Path, other: Path) -> None:
    """The second half is gone."""
    os.truncate(file, file.stat().st_size // 2)


def swapped(file: Path, other: Path) -> None:
    """The file of another run."""
    shutil.copyfile(other, file)


def missing(file: Path, other: Path) -> None:
    """The file is gone."""
    file.unlink()


def stale(file: Path, other: Path) -> None:
    """An intact file of the same content with the footer of older code; if it has no footer, with older content."""
    with_footer(file, {"code": "0" * 64}, file.read_bytes() + b"\n")


def misshapen(file: Path, other: Path) -> None:
    """An intact file with a footer of another shape, under digests that fit; without a footer, an empty list."""
    with_footer(file, {"inputs": []}, b"[]")


def with_footer(file: Path, values: dict[str, object], content: bytes) -> None:
    """Change values of a footer, so that digests fit; a file without a footer gets that content."""
    if file.suffix == ".parquet":
        write_raw(pl.read_parquet(file), file, read_footer(file) | values)
    elif file.with_suffix("").is_dir():
        manifest = {name: value for name, value in json.loads(file.read_text()).items() if name != "footer_sha256"}
        file.write_text(json.dumps(sealed(manifest | values)))
    else:
        file.write_bytes(content)


def foreign(file: Path, other: Path) -> None:
    """A copy next to the file under a name that no rule writes; of a model, more weights."""
    shutil.copyfile(file, file.with_name(f"{FOREIGN}{file.suffix}"))


# No name of a data set, a policy or a table is like this.
FOREIGN = "a-copy"
# Of these a copy under another name may be a file that somebody keeps there.
KEPT = ("toy world", "table as text", "figure", "drawing")
FAULTS: dict[str, Callable[[Path, Path], None]] = {
    "flipped byte": flipped,
    "truncated": truncated,
    "of another run": swapped,
    "missing": missing,
    "stale": stale,
    "odd footer": misshapen,
    "foreign file": foreign,
}


@dataclass
class Runs:
    """A finished run that is damaged and restored, another run, and the findings of the audit."""

    root: Path
    other: Path
    matrix: dict[str, dict[str, str]] = field(default_factory=dict)

    def failures(self) -> dict[str, list[str]]:
        """Failed checks by artifact."""
        table = audit_run(self.root)
        return {row["artifact"]: row["failed"] for row in table.iter_rows(named=True) if row["failed"]}


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
    assert runs.failures() == {}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_fault_is_named_with_a_remedy(runs: Runs, restored: None, kind: str, fault: str) -> None:
    path = KINDS[kind]
    file, other = runs.root / path, runs.other / path
    assert other.read_bytes() != file.read_bytes()
    FAULTS[fault](file, other)
    found = runs.failures()
    if fault == "foreign file" and kind in KEPT:
        assert found == {}
        runs.matrix.setdefault(kind, {})[fault] = "kept"
        return
    folder = re.escape(path.rpartition("/")[0])
    named = _named(path) if fault != "foreign file" else f"{folder}(/|.json has files .*: ){FOREIGN}"
    messages = [text for texts in found.values() for text in texts if re.search(named, text)]
    assert messages, found
    assert all(re.search("snakemake|Move (it|them) out", text) for text in messages)
    findings = [name for name, pattern in FINDINGS.items() if any(re.search(pattern, text) for text in messages)]
    assert findings, messages
    runs.matrix.setdefault(kind, {})[fault] = findings[0]


def test_the_matrix_is_that_of_the_docs(runs: Runs) -> None:
    """Print the matrix; docs/audit.md must contain it."""
    assert {(kind, fault) for kind, row in runs.matrix.items() for fault in row} == {
        (kind, fault) for kind in KINDS for fault in FAULTS
    }
    lines = [f"| artifact | {' | '.join(FAULTS)} |", f"| --- |{' --- |' * len(FAULTS)}"]
    kinds: dict[str, list[str]] = {}  # by row: kinds whose faults are found alike share a line
    for kind, row in runs.matrix.items():
        kinds.setdefault(" | ".join(row[fault] for fault in FAULTS), []).append(kind)
    lines += [f"| {', '.join(alike)} | {cells} |" for cells, alike in kinds.items()]
    print("\n".join(lines))
    assert "\n".join(lines) in PAGE.read_text()


def _named(path: str) -> str:
    """A pattern for an artifact in a message: its path, the folder of a shard, or the manifest of a file."""
    folder, _, name = path.rpartition("/")
    return "|".join(re.escape(text) for text in (path, f"{folder}: ", f"{folder}.json lists")) + (
        f".*{re.escape(name)}" if name == "model.safetensors" else ""
    )
