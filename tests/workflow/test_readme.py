"""The commands of the README run as they stand, one after another, on a clean clone."""

import os
import re
import subprocess
from operator import add
from pathlib import Path

import pytest
from hub_server import Hub, serve
from runs import ROOT
from tiny_models import write_tiny_policy

pytestmark = [pytest.mark.workflow, pytest.mark.full]

# Commands that need GPUs or hours: on this machine their jobs are only listed.
LISTED = {"make run": " TARGET=--dry-run", ".venv/bin/snakemake --profile profiles/gpu-node": " --dry-run"}
ELSEWHERE = (".venv/bin/snakemake --profile profiles/slurm",)  # tests/slurm


def blocks() -> list[list[str]]:
    """The lines of each indented block, without comments."""
    shown = re.findall(r"(?:^    \S.*\n)+", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    return [[line.partition("  #")[0].strip() for line in block.splitlines()] for block in shown]


def test_the_commands_of_the_readme_run_one_after_another(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    # What a user brings: two files of samples, and questions; the model is one of a hub that this machine answers for.
    for name in ("base", "tuned"):
        (clone / f"{name}.jsonl").write_text((ROOT / "examples/samples.jsonl").read_text())
    (clone / "my.jsonl").write_text("".join(f'{{"question": "{n} + {n}?", "answer": "{2 * n}"}}\n' for n in range(64)))
    model = tmp_path / "model"
    write_tiny_policy(model, max_position_embeddings=131072)
    hub = Hub({"Qwen/Qwen2.5-1.5B": model})
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment["HF_HOME"] = str(tmp_path / "cache")
    run = [[line for line in block if not line.startswith(ELSEWHERE)] for block in blocks()]
    assert sum(map(len, run)) >= 6
    with serve(hub) as server:
        environment["HF_ENDPOINT"] = server.url
        for block in run:
            more = [next((end for start, end in LISTED.items() if line.startswith(start)), "") for line in block]
            # A block is typed into one shell, whose environment its first line may change.
            text = " && ".join(map(add, block, more))
            options = {"shell": True, "cwd": clone, "env": environment, "capture_output": True, "text": True}
            done = subprocess.run(text, check=False, **options)
            # A diagnosis answers by its exit status.
            allowed = (0, 3, 4) if "diagnose" in text else (0,)
            assert done.returncode in allowed, f"{text}\n{done.stdout}{done.stderr}"
