"""The audit of a run: a sound run passes, and its command says so; faults are in test_audit_faults.py."""

import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from light import WITHOUT_EXTRAS
from raw_tables import flip_byte
from small_run import FINAL, FURTHER, INDEX, SmallRun

from dphrl.cli import main
from dphrl.report.audit import audit_run, summary
from dphrl.store.files import visible_files
from dphrl.store.manifest import read_sums, verified_manifest


def test_a_sound_run_passes_before_and_after_its_end(small_run: SmallRun) -> None:
    files = [*visible_files(small_run.root)]
    for listed in (None, files):
        run = audit_run(small_run.root, listed)
        assert run.faults == {}
        assert run.root / "policies/base/model.safetensors" in run.hashes
    assert f"All {len(files)} files are as they were written" in summary(run)
    small_run.finish()
    run = audit_run(small_run.root)
    assert (run.faults, run.listed) == ({}, read_sums(small_run.root))


def test_a_flipped_byte_under_an_unchanged_time_is_named_by_the_audit_alone(
    small_run: SmallRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs read the content of a large file once; the audit always does. A failing disk changes bytes, but no time."""
    monkeypatch.chdir(small_run.root)
    Path(".snakemake").mkdir()
    manifest, weights = Path("policies/base.json"), Path("policies/base/model.safetensors")
    verified_manifest(manifest)
    before = str(weights.stat().st_ctime_ns)
    flip_byte(weights)
    for entry in Path(".snakemake/dphrl-sha256").iterdir():
        entry.write_text(entry.read_text().replace(before, str(weights.stat().st_ctime_ns)))
    verified_manifest(manifest)
    (text,) = audit_run(small_run.root).faults[str(weights)]
    assert text == (f"{weights}: not the file that {manifest} lists; delete {manifest} and run snakemake again")


def test_a_job_may_remove_policies_and_states_that_others_were_made_from(small_run: SmallRun) -> None:
    """Before the end of a run nothing says that they should be there."""
    for manifest in ("policies/grpo-s1/step2.json", "states/grpo-s1/step2.json"):
        (small_run.root / manifest).unlink()
        shutil.rmtree(small_run.root / manifest.removesuffix(".json"))
    assert audit_run(small_run.root).faults == {}


def test_an_input_from_outside_may_have_any_name(small_run: SmallRun) -> None:
    path = "train/grpo-s1/step2/metrics.parquet"
    outside = {"function_0": {"paths": ["questions.parquet"], "digest": "0" * 64}}
    small_run.change_footer(path, lambda footer: footer["inputs"].update(outside))
    assert audit_run(small_run.root).faults == {}


def test_a_missing_file_comes_with_the_command_that_makes_it_again(
    finished: SmallRun, capsys: pytest.CaptureFixture[str]
) -> None:
    (finished.root / FINAL).unlink()
    assert main(["audit", str(finished.root)]) == 1
    out = capsys.readouterr().out
    assert f"FAILED  {FINAL}: missing, but SHA256SUMS lists it; name it as a target of snakemake\n" in out
    assert f"with the configuration of the run: .venv/bin/snakemake --cores 2 {finished.root / FINAL}\n" in out
    assert out.endswith("1 fault.\n")


def test_the_exit_status_shows_whether_all_is_well(
    small_run: SmallRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", str(small_run.root)]) == 0
    out = capsys.readouterr().out
    assert "Not finished: without SHA256SUMS" in out
    assert "(1 job)." in out
    assert out.endswith("files are as they were written, and fit together.\n")
    flip_byte(small_run.root / FINAL)
    assert main(["audit", str(small_run.root)]) == 1
    (tmp_path / "empty").mkdir()
    for folder, problem in (("empty", "no artifact of this workflow in it"), ("nowhere", "no such folder")):
        assert main(["audit", str(tmp_path / folder)]) == 2
        assert f"{folder}: {problem}; name the folder of a run" in capsys.readouterr().err


def test_a_light_installation_suffices(finished: SmallRun) -> None:
    script = f"{WITHOUT_EXTRAS}\nfrom dphrl.cli import main\nsys.exit(main())"
    command = [sys.executable, "-c", script, "audit", str(finished.root)]
    assert "fit together." in subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_draws_are_checked_each_by_itself(small_run: SmallRun) -> None:
    shutil.copytree(small_run.root / "draws/main", small_run.root / "draws/other")
    for file in (small_run.root / "draws/other").rglob("*.parquet"):
        path = file.relative_to(small_run.root).as_posix()

        def of_other(footer: dict, path: str = path) -> None:
            footer["path"] = path
            for source in footer["inputs"].values():
                source["paths"] = [name.replace("draws/main/", "draws/other/") for name in source["paths"]]

        small_run.change_footer(path, of_other)
    assert audit_run(small_run.root).faults == {}
    path, *stored = (name.replace("main", "other") for name in (FINAL, INDEX, FURTHER))
    small_run.rewrite(path, small_run.read(path).filter(pl.col("prompt_id") != "train2"))
    found = audit_run(small_run.root).faults
    assert found.keys() == {path, *stored}
    for number, index in enumerate(stored, 1):
        text = f"questions with a number of rows that is not theirs: 1 (prompt_id train2, rows {number})"
        assert any(text in fault for fault in found[index])


def test_a_set_with_pre_samples_passes_and_its_faults_are_named(small_run: SmallRun) -> None:
    rows = small_run.read(FURTHER)
    assert rows["prompt_id"].to_list() == [name for name in ("train0", "train2", "train3", "train5") for _ in range(2)]

    def faults_of(changed: pl.DataFrame) -> str:
        small_run.rewrite(FURTHER, changed)
        return "\n".join(audit_run(small_run.root).faults[FURTHER])

    def other(row: int, column: str, value: object) -> pl.DataFrame:
        values = pl.when(pl.col("row") == row).then(pl.lit(value)).otherwise(column)
        return rows.with_columns(values.alias(column))

    assert "questions whose number of rows it lacks: 1 (prompt_id train5, rows 2)" in faults_of(rows[:-1])
    of_wrong = faults_of(other(7, "prompt_id", "train4"))
    assert "a number of rows that is not theirs: 2 (prompt_id train4, rows 1; " in of_wrong
    for row, sample, prompt in ((1, 2, "train0"), (2, 1, "train2")):
        text = f"rows that were not judged right: 1 (prompt_id {prompt}, sample_index {sample})"
        assert text in faults_of(other(row, "sample_index", sample))
    small_run.change_footer(FURTHER, lambda footer: footer["config"].update(rehearse="boundary"))
    assert "a number of rows that is not theirs: 4 " in faults_of(rows)
