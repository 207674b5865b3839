"""A stage: the inputs that it records and writes into every footer, and its timings."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from raw_tables import rows_digest

import dphrl
from dphrl.store.code import CodeChangedError, code_digest, project_commit
from dphrl.store.files import sha256_file
from dphrl.store.manifest import manifest_digest, names_digest, read_manifest, write_manifest
from dphrl.store.parquet import read_footer, read_table, shards_digest, write_table
from dphrl.store.schema import SchemaError
from dphrl.store.stage import V2_RUNNER, Stage, library_version

MODULES, SCHEMAS = ["dphrl.data.partition"], ["metrics"]
METRICS = pl.DataFrame({"step": [1, 2], "metric": ["reward", "reward"], "value": [0.25, 0.5]})


STARTS = """
import subprocess
import sys
from pathlib import Path
from dphrl.store.stage import Stage
stage = Stage(Path(), "train", "c0de", {})
stage.add_timing("before", 1.0)
more = int(stage.timings[0]["max_rss_mib"]) + 100
subprocess.run([sys.executable, "-c", f"b'x' * ({more} << 20)"], check=True)
stage.add_timing("after", 1.0)
print(*(timing["max_rss_mib"] for timing in stage.timings))
"""


def _stage(root: Path = Path()) -> Stage:
    code = code_digest(MODULES, SCHEMAS)
    return Stage(root, "train", code, {"steps": 2}, libraries=("numpy",), seed=7)


def test_every_output_names_its_inputs(tmp_path: Path) -> None:
    run = tmp_path / "run"
    for i in range(2):
        write_table(METRICS[i], "metrics", run / f"train/{i}.parquet", {})
    (run / "policy").mkdir()
    (run / "policy" / "model.safetensors").write_text("weights")
    write_manifest(run / "policy.json", {})
    for name in ("tensors", "vocabulary"):
        (tmp_path / name).write_text(name)

    stage = _stage(run)
    shards = [str(run / f"train/{i}.parquet") for i in range(2)]
    assert stage.read("metrics", shards).equals(METRICS)
    assert stage.read("before", shards[0], "metrics").equals(METRICS[:1])
    assert stage.folder("policy", str(run / "policy.json")) == run / "policy"
    assert stage.file("reference", str(tmp_path / "tensors")) == tmp_path / "tensors"
    digests = stage.files("files", [str(tmp_path / name) for name in ("tensors", "vocabulary")])
    assert digests == {name: sha256_file(tmp_path / name) for name in ("tensors", "vocabulary")}
    stage.write(METRICS, "metrics", str(run / "tables/out.parquet"))

    footer = read_footer(run / "tables/out.parquet")
    of_shards = [rows_digest(METRICS[i], "metrics") for i in range(2)]
    assert sorted(footer) == [
        *("code", "config", "digest", "file_sha256", "inputs", "libraries", "made_by", "path"),
        *("rows", "schema", "seed", "stage", "version"),
    ]
    assert (footer["stage"], footer["config"], footer["seed"]) == ("train", {"steps": 2}, 7)
    assert (footer["path"], footer["made_by"]) == ("tables/out.parquet", f"dphrl {library_version('dphrl')}")
    assert footer["code"] == code_digest(MODULES, SCHEMAS)
    assert footer["inputs"] == {
        "metrics": {"paths": ["train/0.parquet", "train/1.parquet"], "digest": shards_digest(of_shards)},
        "before": {"paths": ["train/0.parquet"], "digest": of_shards[0]},
        "policy": {"paths": ["policy.json"], "digest": manifest_digest(read_manifest(run / "policy.json"))},
        # From outside of the run: nothing that differs between two users.
        "reference": {"paths": ["tensors"], "digest": sha256_file(tmp_path / "tensors")},
        "files": {"paths": ["tensors", "vocabulary"], "digest": names_digest(digests)},
    }
    assert sorted(footer["libraries"]) == ["numpy", "polars"]
    assert str(tmp_path) not in json.dumps(footer)

    stage.write_manifest(str(run / "policy.json"))
    manifest = read_manifest(run / "policy.json")
    assert manifest["path"] == "policy.json"
    assert manifest.items() >= (stage.footer() | {"made_by": footer["made_by"]}).items()
    inputs = {**stage.inputs}
    with pytest.raises(SchemaError, match="holds 'metrics' version 1, expected 'prompts'"):
        stage.read("prompts", shards[0])
    assert stage.inputs == inputs


def test_vllm_is_recorded_with_its_model_runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dphrl.store.stage.library_version", lambda name: f"{name} 1")
    stage = replace(_stage(tmp_path), libraries=["vllm"])
    versions = []
    for runner in ("0", "1"):
        monkeypatch.setenv(V2_RUNNER, runner)
        versions.append(stage.footer()["libraries"]["vllm"])
    assert versions == ["vllm 1", "vllm 1, model runner V2"]


def test_the_files_that_answers_are_judged_with_are_recorded_where_a_job_has_them(tmp_path: Path) -> None:
    (tmp_path / "toy").mkdir()
    write_manifest(tmp_path / "toy.json", {})
    (tmp_path / "mine.py").write_text("")
    stage = _stage(tmp_path)
    assert stage.scoring_files({"databases": [], "world": [], "scorer": []}) is None
    assert stage.inputs == {}
    inputs = {"world": str(tmp_path / "toy.json"), "scorer": str(tmp_path / "mine.py")}
    assert stage.scoring_files(inputs) == inputs["scorer"]
    assert {name: read["paths"] for name, read in stage.inputs.items()} == {
        "world": ["toy.json"],
        "scorer": ["mine.py"],
    }


def test_the_commit_is_in_the_footer_of_timings_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal jobs of two commits write equal tables, so that nothing reruns after them."""
    written = []
    for commit in ("c0ffee", None):
        monkeypatch.setattr("dphrl.store.stage.project_commit", lambda commit=commit: commit)
        _stage(tmp_path).write(METRICS, "metrics", str(tmp_path / "m.parquet"))
        _stage(tmp_path).write_timings(str(tmp_path / "timings/m.parquet"))
        written.append((tmp_path / "m.parquet").read_bytes())
        made_by = read_footer(tmp_path / "timings/m.parquet")["made_by"]
        assert made_by == " ".join(filter(None, [f"dphrl {library_version('dphrl')}", commit]))
    assert written[0] == written[1]


def test_the_commit_is_that_of_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dphrl.store.code._ROOT", tmp_path / "workflow_scripts/dphrl")
    assert project_commit() is None
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    (tmp_path / "file").write_text("1")
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"], ["tag", "v1"]):
        subprocess.run([*git, *command], check=True)
    commit = project_commit()
    assert commit is not None
    assert len(commit) == 40
    (tmp_path / "file").write_text("2")
    assert project_commit() == f"{commit}-dirty"


def test_files_that_were_hashed_while_written_are_not_read_for_their_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    monkeypatch.setattr("dphrl.store.files.sha256_file", lambda path: read.append(path.name) or "read")
    (tmp_path / "policy").mkdir()
    for name in ("model.safetensors", "tokenizer.json"):
        (tmp_path / "policy" / name).write_text("weights")
    _stage().write_manifest(str(tmp_path / "policy.json"), {"model.safetensors": "given", "absent.safetensors": "no"})
    files = read_manifest(tmp_path / "policy.json")["files"]
    assert {name: file["sha256"] for name, file in files.items()} == {
        "model.safetensors": "given",
        "tokenizer.json": "read",
    }
    assert read == ["tokenizer.json"]


def test_a_file_that_a_table_lists_is_compared_with_its_footer(tmp_path: Path) -> None:
    tensors, index = tmp_path / "responses.safetensors", tmp_path / "index.parquet"

    def parts() -> Iterator[pl.DataFrame]:
        yield METRICS
        tensors.write_text("tensors")

    stage = _stage()
    stage.write(parts(), "metrics", str(index), files=[str(tensors)])
    assert read_footer(index)["files"] == {tensors.name: {"size": 7, "sha256": sha256_file(tensors)}}
    assert stage.file("reference", str(tensors), listed_by=str(index)) == tensors
    assert stage.inputs == {"reference": {"paths": [tensors.name], "digest": sha256_file(tensors)}}
    tensors.write_text("Tensors")
    with pytest.raises(
        SchemaError, match=f"{tensors}: it is not the file that was written .* in the footer of index.pa"
    ):
        stage.file("changed", str(tensors), listed_by=str(index))
    write_table(METRICS, "metrics", index, {})
    with pytest.raises(SchemaError, match=f"{tensors}: it is not the file that was written"):
        stage.file("changed", str(tensors), listed_by=str(index))
    assert "changed" not in stage.inputs


def test_a_job_whose_code_is_not_that_of_the_plan_does_not_start() -> None:
    code = {"sources": MODULES, "schemas": SCHEMAS, "digest": code_digest(MODULES)}
    job = SimpleNamespace(config={"run": "run"}, params=SimpleNamespace(code=code))
    with pytest.raises(CodeChangedError, match="start snakemake again"):
        Stage.of_job(job, [], [])


def test_timings_have_a_rate_where_tokens_are_known(tmp_path: Path) -> None:
    stage = _stage()
    with stage.part("generate") as facts:
        facts["tokens"] = 100
    with stage.part("load"):
        pass
    stage.add_timing("push", 2.0, 50)
    stage.write_timings(str(tmp_path / "t.parquet"))
    rows = {row["part"]: row for row in read_table(tmp_path / "t.parquet", "timings").to_dicts()}
    assert rows["push"] | {"max_rss_mib": 0} == {
        "stage": "train", "part": "push", "seconds": 2.0, "tokens": 50, "tokens_per_s": 25.0, "max_rss_mib": 0,
    }  # fmt: skip
    assert (rows["generate"]["tokens"], rows["load"]["tokens"], rows["load"]["tokens_per_s"]) == (100, None, None)
    assert rows["generate"]["tokens_per_s"] == pytest.approx(100 / rows["generate"]["seconds"])
    assert all(row["max_rss_mib"] > 1 for row in rows.values())


def test_memory_is_that_of_the_largest_process_that_a_stage_started_or_is() -> None:
    """In a process of its own: one that has run other tests may have held gigabytes."""
    environment = os.environ | {"PYTHONPATH": str(Path(dphrl.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", STARTS], env=environment, capture_output=True, text=True, check=True)
    before, after = map(float, done.stdout.split())
    assert before + 100 <= after < before + 200
