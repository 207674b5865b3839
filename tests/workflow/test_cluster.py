"""Files that runs on a cluster share: a cache of outputs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from runs import TINY, Workflow

SHARED = ("policies/base", "prompts", "draws/main/rollouts/train.presample", "draws/main/reference")


@pytest.mark.full
@pytest.mark.workflow
def test_a_run_with_other_methods_takes_base_prompts_samples_and_reference_from_the_cache(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    monkeypatch.setenv("SNAKEMAKE_OUTPUT_CACHE", str(cache))
    config = yaml.safe_load(TINY.read_text())
    config["engine"]["name"] = "transformers"
    # Two datasets of one schema, and two shards: jobs that differ in their wildcards only.
    config["evaluate"]["datasets"] = ["in_domain"]
    runs, ran = [], []
    for method in ("grpo", "dph_js"):
        folder = tmp_path / method
        folder.mkdir()
        runs.append(Workflow.of(project, folder, {**config, "methods": {method: config["methods"][method]}}))
        runs[-1].run("--cache", "--", "reference", "results/tiny/prompts/in_domain.parquet")
        # A job that is taken from the cache runs no script, which would leave a log.
        logs = "".join(path.read_text(errors="replace") for path in runs[-1].results.rglob("logs/**/*.log"))
        ran.append(set(re.findall(r"^(\w+).*: done in", logs, re.MULTILINE)))
    cached = {"train_base", "prepare_prompts", "sample_draw", "tensorise"}
    assert ran[0] - ran[1] == cached

    first, second = runs
    assert first.digests() == second.digests()
    for part in SHARED:
        # Of a folder, its files are links.
        files = [path for path in (second.results / part).rglob("[!.]*") if path.is_file()]
        assert all(path.is_symlink() for path in files), files
        assert len({path.resolve() for path in files}) == len(files) > 0
    timings = list((second.results / "timings").rglob("*.parquet"))
    assert timings
    assert "Nothing to be done" in second.run("--cache", "--", "reference")
    assert "Nothing to be done" in second.run("reference")
