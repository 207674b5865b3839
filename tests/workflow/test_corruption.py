"""The next run names a damaged file, and without that file it ends in the same bytes.

That the audit names damage to any file: tests/unit/report/test_audit_faults.py.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from raw_tables import flip_byte
from runs import Workflow

pytestmark = [pytest.mark.workflow, pytest.mark.full]

# The files that the next run reads, by a stage or by its audit.
READ_AGAIN = (
    "prompts/train.parquet",
    "draws/main/reference/responses.safetensors",
    "policies/grpo-s1/step4/model.safetensors",
    "tables/passk.parquet",
)


@pytest.mark.parametrize("name", READ_AGAIN)
def test_the_next_run_names_a_damaged_file_and_without_it_ends_in_the_same_bytes(
    pristine: Workflow, tmp_path: Path, name: str
) -> None:
    run = pristine.copied(tmp_path / "run")
    flip_byte(run.results / name)
    (run.results / "SHA256SUMS").unlink()
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
