"""The Snakefile with odd configurations: texts are no wildcards, and a file that would be read wrong is refused."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
ODD = r"Near $\pi_{ref}$ {x} {wildcards.y} <results> {{z}} %s {0} {"
RECORDED: dict[str, Any] = {
    "run": "odd",
    "datasets": {"aime": {"task": "math", "source": "rows.jsonl", "instruction": ODD, "fields": {"question": ODD}}},
    "train_dataset": "aime",
    "methods": {},
    "evaluate": {"datasets": ["aime"], "styles": {"math": [{"name": ODD, "prefix": ODD}]}},
    "replay": {"base": {"aime": "answers.jsonl"}},
    "report": {"title": ODD, "notes": [ODD]},
}


def dry_run(folder: Path, config: str) -> subprocess.CompletedProcess[str]:
    for name in ("rows.jsonl", "answers.jsonl"):
        (folder / name).touch()
    (folder / "config.yaml").write_text(config, encoding="utf-8")
    given = ["--directory", str(folder), "--configfile", str(folder / "config.yaml")]
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--dry-run", "--quiet", "rules", *given]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)


def test_texts_of_the_configuration_may_hold_braces(tmp_path: Path) -> None:
    done = dry_run(tmp_path, yaml.safe_dump(RECORDED))
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_key_that_a_block_has_twice_is_refused(tmp_path: Path) -> None:
    done = dry_run(tmp_path, yaml.safe_dump(RECORDED) + "run: other\n")
    assert done.returncode == 1
    assert f"{tmp_path / 'config.yaml'}\n  value:   the key 'run' in" in done.stdout + done.stderr
