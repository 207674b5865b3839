"""The audit of a run: a sound run passes, and each fault is named with its file, its rows and a remedy."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from light import WITHOUT_EXTRAS
from raw_tables import flip_byte, write_raw
from safetensors.numpy import load_file, save_file

from dphrl.artifacts import tables
from dphrl.artifacts.catalogue import SCHEMAS
from dphrl.artifacts.files import remembered_sha256, sha256_file, write_text
from dphrl.artifacts.manifest import SUMS, read_manifest
from dphrl.artifacts.tables import read_footer, write_table
from dphrl.audit import reference
from dphrl.audit.across import check_rollouts
from dphrl.audit.artifacts import NoRunError, Run
from dphrl.audit.one_artifact import check_artifact
from dphrl.audit.run import AuditError, audit_run, render_page, require_passed, summary
from dphrl.cli import main

PRESAMPLE = "draws/main/rollouts/train.presample"
FINAL, INDEX = "draws/main/partition/final.parquet", "draws/main/reference/index.parquet"


def failures(run: Any) -> dict[str, list[str]]:
    """Failed checks by artifact."""
    table = audit_run(run.root)
    return {row["artifact"]: row["failed"] for row in table.iter_rows(named=True) if row["failed"]}


def test_a_sound_run_passes_and_equal_runs_have_equal_audits(small_run: Any, built: Path) -> None:
    table = audit_run(small_run.root)
    assert failures(small_run) == {}
    assert table.equals(audit_run(built))
    assert SCHEMAS["audit"].conform(table, "audit").equals(table)
    assert {path.split("/")[0] for path in table["artifact"]} == {
        *("policies", "states", "train", "prompts", "gold", "draws", "rollouts", "verdicts", "evaluation"),
        *("tables", "figures"),
    }
    assert not [path for path in table["artifact"] if path.endswith(("rng.json", "tokenizer.json"))]
    row = table.row(by_predicate=pl.col("artifact") == FINAL, named=True)
    assert (row["schema"], row["rows"], row["sha256"]) == ("partition", 6, sha256_file(small_run.root / FINAL))
    rows = dict(table.select("artifact", "digest").iter_rows())
    assert rows["policies/base.json"] != rows["policies/grpo-s1/step2.json"]
    assert "All" in summary(table)
    require_passed(table)


@pytest.mark.parametrize(
    "path",
    [
        FINAL,
        "policies/base.json",
        "draws/main/reference/responses.safetensors",
        f"{PRESAMPLE}/0.parquet",
    ],
)
def test_a_flipped_byte_is_named_and_nothing_follows_from_it(small_run: Any, path: str) -> None:
    flip_byte(small_run.root / path)
    assert list(failures(small_run)) == [path]
    (text,) = failures(small_run)[path]
    assert re.search("is not the file that was written|its values are not those that were written|no manifest", text)
    assert f"Delete {path} and" in text


def test_a_flipped_byte_in_a_file_of_a_manifest_is_named(small_run: Any) -> None:
    flip_byte(small_run.root / "policies/base/model.safetensors")
    assert failures(small_run) == {
        "policies/base.json": [
            "policies/base.json lists files that have changed since: model.safetensors."
            " Delete policies/base.json and run snakemake again."
        ]
    }


def test_a_flipped_byte_under_an_unchanged_time_is_named_by_the_audit_alone(
    small_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs read the content of a large file once; the audit always does. A failing disk changes bytes, but no time."""
    monkeypatch.chdir(small_run.root)
    Path(".snakemake").mkdir()
    manifest, weights = Path("policies/base.json"), Path("policies/base/model.safetensors")
    read_manifest(manifest, digest=remembered_sha256)
    before = str(weights.stat().st_ctime_ns)
    flip_byte(weights)
    for entry in Path(".snakemake/dphrl-sha256").iterdir():
        entry.write_text(entry.read_text().replace(before, str(weights.stat().st_ctime_ns)))
    read_manifest(manifest, digest=remembered_sha256)
    (text,) = failures(small_run)[str(manifest)]
    assert "lists files that have changed since: model.safetensors" in text


def test_a_file_of_a_manifest_that_is_gone_is_named(small_run: Any) -> None:
    (small_run.root / "states/grpo-s1/step2/rng.json").unlink()
    found = failures(small_run)
    assert list(found) == ["states/grpo-s1/step2.json"]
    assert "lists files that are missing: rng.json" in found["states/grpo-s1/step2.json"][0]


@pytest.mark.parametrize("path", [FINAL, f"{PRESAMPLE}/1.parquet"])
def test_a_truncated_table_is_named(small_run: Any, path: str) -> None:
    file = small_run.root / path
    os.truncate(file, file.stat().st_size - 40)
    found = failures(small_run)
    assert list(found) == [path]
    assert "is not the file that was written" in found[path][0]


def test_a_missing_shard_is_named(small_run: Any) -> None:
    (small_run.root / PRESAMPLE / "0.parquet").unlink()
    found = failures(small_run)
    assert f"{PRESAMPLE}: no shard 0. Run snakemake again." in found[f"{PRESAMPLE}/1.parquet"]
    assert "made from 'rollouts', but draws/main/rollouts/train.presample/0.parquet is not there" in str(found)


def test_a_missing_last_shard_is_named_by_its_samples(small_run: Any) -> None:
    for folder in (PRESAMPLE, PRESAMPLE.replace("rollouts", "verdicts")):
        (small_run.root / folder / "1.parquet").unlink()
    found = failures(small_run)
    (text,) = found[f"{PRESAMPLE}/0.parquet"]
    assert "missing samples (expected 2 per prompt, 12 in all): 6 (prompt_id train3, sample_index 0;" in text
    where = "draws/main/verdicts/train.presample/1.parquet is not there"
    assert f"made from 'verdicts', but {where}" in found["draws/main/partition/candidates.parquet"][0]


def test_a_left_over_shard_is_named(small_run: Any) -> None:
    for kind in ("rollouts", "verdicts"):
        folder = small_run.root / f"draws/main/{kind}/train.presample"
        shutil.copyfile(folder / "1.parquet", folder / "2.parquet")
    (text, *_) = failures(small_run)[f"{PRESAMPLE}/0.parquet"]
    assert "samples in more than one shard: 6 (prompt_id train3, sample_index 0;" in text
    assert "an earlier config left behind" in text


def test_swapped_files_are_named(small_run: Any) -> None:
    a, b, between = (small_run.root / f"{PRESAMPLE}/{name}" for name in ("0.parquet", "1.parquet", "between"))
    a.rename(between)
    b.rename(a)
    between.rename(b)
    found = failures(small_run)
    for number in (0, 1):
        texts = found[f"draws/main/verdicts/train.presample/{number}.parquet"]
        assert any("was made from other 'rollouts'" in text for text in texts)
        assert any("without a verdict" in text for text in texts)


def test_a_table_in_the_place_of_another_kind_is_named(small_run: Any) -> None:
    shutil.copyfile(small_run.root / "prompts/eval.parquet", small_run.root / "gold/eval.parquet")
    assert "holds the schema 'prompts', but 'gold' belongs there" in failures(small_run)["gold/eval.parquet"][0]


def test_the_rollouts_of_another_policy_are_named(small_run: Any) -> None:
    source, target = (small_run.root / f"rollouts/{name}/eval.evaluate" for name in ("base", "grpo-s1/step2"))
    shutil.rmtree(target)
    shutil.copytree(source, target)
    texts = failures(small_run)["rollouts/grpo-s1/step2/eval.evaluate/0.parquet"]
    assert any("was written as rollouts/base/eval.evaluate/0.parquet" in text for text in texts)


def test_an_altered_token_is_named(small_run: Any) -> None:
    path = f"{PRESAMPLE}/0.parquet"
    rows = small_run.read(path).to_dicts()
    rows[2]["token_ids"][0] = 9
    small_run.rewrite(path, pl.DataFrame(rows, schema=SCHEMAS["rollouts"].columns))
    found = failures(small_run)
    (text,) = found[path]
    assert "samples whose tokens are not the text that was scored: 1 (prompt_id train1, sample_index 0" in text
    assert list(found) == [path, path.replace("rollouts", "verdicts")]


def test_a_character_that_the_last_token_cuts_is_no_difference(small_run: Any) -> None:
    run = Run(small_run.root)
    for artifact in run.artifacts.values():
        check_artifact(artifact)
    for ending, failed in (("\ufffd", 0), ("x", 1)):
        check_rollouts(
            run,
            lambda rows, ending=ending: ["".join("__abcdefgh"[i] for i in ids if i > 1) + ending for ids in rows],
        )
        assert len(run.artifacts[f"{PRESAMPLE}/0.parquet"].failed) == failed


def test_an_altered_token_of_a_stored_response_is_named(small_run: Any) -> None:
    file = small_run.root / "draws/main/reference/responses.safetensors"
    tensors = load_file(file)
    tensors["token_ids"][-1] = 6
    save_file(tensors, file)
    small_run.relist(INDEX)
    texts = failures(small_run)["draws/main/reference/responses.safetensors"]
    assert any(
        "rows whose tokens are not those of the prompt and its refined sample: 1 (row 3" in text for text in texts
    )


@pytest.mark.parametrize(
    ("place", "value", "expected"),
    [
        (0, 0.5, "1 log-probs are not finite and <= 0, first at [0]"),
        (4, np.nan, "1 log-probs are not finite and <= 0, first at [4]"),
    ],
)
def test_an_altered_reference_logprob_is_named(small_run: Any, place: int, value: float, expected: str) -> None:
    file = small_run.root / "draws/main/reference/responses.safetensors"
    tensors = load_file(file)
    tensors["logprobs"][place] = value
    save_file(tensors, file)
    small_run.relist(INDEX)
    texts = failures(small_run)["draws/main/reference/responses.safetensors"]
    assert any(expected in text for text in texts), texts


@pytest.mark.parametrize("value", [0.5, np.nan, -1e-3, -50.0])
def test_an_altered_likeliest_token_is_named(small_run: Any, value: float) -> None:
    file = small_run.root / "draws/main/reference/responses.safetensors"
    tensors = load_file(file)
    tensors["topk_logprobs"][2, 1] = value
    save_file(tensors, file)
    small_run.relist(INDEX)
    texts = failures(small_run)["draws/main/reference/responses.safetensors"]
    assert any("top-K log-probs of 12 places" in text and "wrong at 1 places, first [2]" in text for text in texts), (
        texts
    )


def test_tensors_that_do_not_fit_the_index_are_named(small_run: Any) -> None:
    file = small_run.root / "draws/main/reference/responses.safetensors"
    save_file({name: array[:-1] for name, array in load_file(file).items()}, file)
    small_run.relist(INDEX)
    text = failures(small_run)["draws/main/reference/responses.safetensors"][0]
    assert "holds {'logprobs': 11, 'token_ids': 19} values" in text
    assert "expects {'logprobs': 12, 'token_ids': 20}" in text


def test_a_removed_partition_row_is_named(small_run: Any) -> None:
    small_run.rewrite(FINAL, small_run.read(FINAL).filter(pl.col("prompt_id") != "train2"))
    found = failures(small_run)
    assert f"prompts of prompts/train.parquet that {FINAL} does not have: 1 (prompt_id train2)" in found[FINAL][0]
    assert any("no reference sample of D_pef: 1 (prompt_id train2" in text for text in found[INDEX])


def test_a_reference_sample_without_a_correct_verdict_is_named(small_run: Any) -> None:
    path = "draws/main/verdicts/train.refine/0.parquet"
    rows = small_run.read(path)
    wrong = pl.col("prompt_id") == "train3"
    rows = rows.with_columns(correct=~wrong, verdict=pl.when(wrong).then(pl.lit("wrong")).otherwise("verdict"))
    small_run.rewrite(path, rows)
    texts = failures(small_run)["draws/main/reference/index.parquet"]
    assert any("without a correct verdict of the refine plan: 1 (prompt_id train3" in text for text in texts)


def test_a_prompt_without_gold_is_named(small_run: Any) -> None:
    small_run.rewrite("gold/eval.parquet", small_run.read("gold/eval.parquet").head(2))
    texts = failures(small_run)["prompts/eval.parquet"]
    assert "that gold/eval.parquet does not have: 1 (prompt_id eval2)" in texts[0]


def test_infinite_and_missing_logprobs_are_named(small_run: Any) -> None:
    path = f"{PRESAMPLE}/0.parquet"
    rows = small_run.read(path).to_dicts()
    rows[0]["sampler_logprobs"][1] = float("-inf")
    rows[1]["sampler_logprobs"].pop()
    small_run.rewrite(path, pl.DataFrame(rows, schema=SCHEMAS["rollouts"].columns))
    counted, infinite = failures(small_run)[path]
    assert "other than one log-prob per token: 1 (prompt_id train0, sample_index 1, tokens 3, logprobs 2)" in counted
    assert "infinite log-probs: 1 (prompt_id train0, sample_index 0)" in infinite


def test_a_broken_footer_is_named(small_run: Any) -> None:
    path = small_run.root / FINAL
    footer = {name: value for name, value in read_footer(path).items() if name not in ("code", "schema", "rows")}
    write_table(pl.read_parquet(path), "partition", path, {**footer, "rows": 7, "version": 9})
    assert "declares schema 'partition' version 9, this code knows version 1" in failures(small_run)[FINAL][0]
    write_table(pl.read_parquet(path), "partition", path, {**footer, "rows": 7, "version": 1})
    lacks, rows = failures(small_run)[FINAL]
    assert "its footer lacks code" in lacks
    assert "has 6 rows, its footer says 7" in rows


def test_a_reference_without_rows_lacks_the_prompts_of_the_partition(small_run: Any) -> None:
    path, file = INDEX, small_run.root / "draws/main/reference/responses.safetensors"
    save_file({name: array[:0] for name, array in load_file(file).items()}, file)
    small_run.rewrite(path, small_run.read(path)[:0])
    found = failures(small_run)
    assert "D_pef prompts that it lacks: 4 (prompt_id train0, sample_index 0;" in found.pop(path)[0]
    assert all("was made from other 'reference'" in text for texts in found.values() for text in texts)


def test_rows_out_of_order_are_named_and_nothing_follows_from_them(small_run: Any) -> None:
    path = small_run.root / FINAL
    write_raw(small_run.read(FINAL)[::-1], path, read_footer(path))
    assert failures(small_run) == {
        FINAL: [f"{FINAL}: not sorted by prompt_id. Delete {FINAL} and run snakemake again."]
    }


def test_what_is_found_does_not_depend_on_the_parts(small_run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults in tables, shards and tensors, found in one piece, and a row at a time."""
    path, file = f"{PRESAMPLE}/0.parquet", small_run.root / "draws/main/reference/responses.safetensors"
    rows = small_run.read(path).to_dicts()
    rows[2]["token_ids"][0] = 9
    rows[5]["sampler_logprobs"][1] = float("-inf")
    small_run.rewrite(path, pl.DataFrame(rows[1:], schema=SCHEMAS["rollouts"].columns))
    small_run.rewrite(
        "draws/main/verdicts/train.refine/0.parquet", small_run.read("draws/main/verdicts/train.refine/0.parquet")[1:]
    )
    small_run.rewrite("gold/train.parquet", small_run.read("gold/train.parquet")[:-2])
    small_run.rewrite(FINAL, small_run.read(FINAL)[1:])
    tensors = load_file(file)
    tensors["token_ids"][[0, -1]] = 6
    tensors["logprobs"][[2, 5, 6, 7]] = 0.5
    tensors["topk_logprobs"][[1, 8], 1] = np.nan
    save_file(tensors, file)
    small_run.relist(INDEX)
    whole = audit_run(small_run.root)
    assert whole["failed"].list.len().sum() > 15
    monkeypatch.setattr(tables, "PART", 1)
    monkeypatch.setattr(reference, "_CHUNK", 3)
    assert audit_run(small_run.root).equals(whole)


def test_require_passed_and_the_page_name_every_failed_check(small_run: Any) -> None:
    assert "all passed" in render_page(audit_run(small_run.root))
    small_run.rewrite(FINAL, small_run.read(FINAL).filter(pl.col("prompt_id") != "train2"))
    table = audit_run(small_run.root)
    with pytest.raises(AuditError, match="prompt_id train2"):
        require_passed(table)
    page = render_page(table)
    assert "prompt_id train2" in page
    assert "<script" not in page
    assert "http" not in page


def test_a_missing_file_comes_with_the_command_that_makes_it_again(
    small_run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small_run.record()
    (small_run.root / FINAL).unlink()
    assert main(["audit", str(small_run.root)]) == 1
    snakemake = ".venv/bin/snakemake --cores 2"
    out = capsys.readouterr().out
    assert f"To make what is missing or deleted again: {snakemake} {small_run.root / FINAL} --configfile FILE" in out
    assert f"if it is not the same as before: {snakemake} --configfile FILE" in out
    assert "is missing, but SHA256SUMS lists it. Name it as a target of snakemake." in out


def test_the_exit_status_shows_whether_all_is_well(
    small_run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", str(small_run.root)]) == 0
    assert "checks passed" in capsys.readouterr().out
    flip_byte(small_run.root / FINAL)
    assert main(["audit", str(small_run.root)]) == 1
    assert f"FAILED  {FINAL}: it is not the file that was written" in capsys.readouterr().out
    (tmp_path / "empty").mkdir()
    for folder, problem in (("empty", "no artifact of this workflow in it"), ("nowhere", "no such folder")):
        assert main(["audit", str(tmp_path / folder)]) == 2
        assert f"{folder}: {problem}; name the folder of a run" in capsys.readouterr().err
        with pytest.raises(NoRunError, match=problem):
            audit_run(tmp_path / folder)


def test_the_command_says_why_it_makes_more_checks_than_the_audit_of_the_run(
    small_run: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", str(small_run.root)]) == 0
    assert "at the end of the run" not in capsys.readouterr().out
    small_run.record()
    own = int(pl.read_parquet(small_run.root / "audit/audit.parquet")["passed"].sum())
    assert main(["audit", str(small_run.root)]) == 0
    out = capsys.readouterr().out
    assert f"The audit at the end of the run made {own:,} checks. Here are more: the timings, the pages" in out
    now = re.search(r"([\d,]+) checks passed", out)
    assert now is not None
    assert int(now[1].replace(",", "")) > own


def test_without_torch_the_audit_checks_tensors_and_texts_too(small_run: Any) -> None:
    script = f"{WITHOUT_EXTRAS}\nfrom dphrl.cli import main\nsys.exit(main())"
    command = [sys.executable, "-c", script, "audit", str(small_run.root)]
    whole = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"All {audit_run(small_run.root)['passed'].sum()} checks passed." in whole
    assert "Not compared" not in whole
    (small_run.root / "policies/base/tokenizer.json").unlink()
    small_run.list_files("policies/base.json")
    partly = subprocess.run(command, capture_output=True, text=True).stdout
    assert "Not compared: texts with their tokens (the base policy has no tokenizer.json)." in partly


def test_special_tokens_that_only_the_settings_name_are_left_out_of_texts(small_run: Any) -> None:
    tokenizer = json.loads((small_run.root / "policies/base/tokenizer.json").read_text())
    for token in tokenizer["added_tokens"]:
        token["special"] = False
    (small_run.root / "policies/base/tokenizer.json").write_text(json.dumps(tokenizer))
    small_run.list_files("policies/base.json")
    path = f"{PRESAMPLE}/0.parquet"
    assert not [text for text in failures(small_run).get(path, []) if "whose tokens are not the text" in text]


def test_the_commits_that_made_a_run_are_counted(small_run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    small_run.record()
    main(["audit", str(small_run.root)])
    assert "Made by dphrl 0.5.0 (1 job)." in capsys.readouterr().out


def test_what_the_last_audit_saw_is_there_and_the_same(small_run: Any) -> None:
    small_run.record()
    assert failures(small_run) == {}
    write_text(small_run.root / "tables/headline.md", "| of another run |\n")
    (small_run.root / "figures/training.json").unlink()
    found = failures(small_run)
    assert "is not the file that SHA256SUMS lists" in found.pop("tables/headline.md")[0]
    assert "is missing, but SHA256SUMS lists it" in found.pop("figures/training.json")[0]
    assert found == {}


@pytest.mark.parametrize("path", ["tables/headline.md", "figures/training.json"])
def test_a_flipped_byte_in_a_text_is_named_once_it_was_audited(small_run: Any, path: str) -> None:
    small_run.record()
    flip_byte(small_run.root / path)
    (text,) = failures(small_run).pop(path)
    assert text.startswith(f"{path} is not the file that SHA256SUMS lists (")
    assert f"Delete {path} and run snakemake again" in text


def test_a_table_or_a_folder_that_was_audited_and_is_missing_is_named(small_run: Any) -> None:
    small_run.record()
    (small_run.root / "tables/training.parquet").unlink()
    shutil.rmtree(small_run.root / "states/grpo-s1")
    found = failures(small_run)
    assert sorted(found) == ["states/grpo-s1/step2.json", "tables/training.parquet"]
    assert all("is missing, but SHA256SUMS lists it. Name it as" in text for (text,) in found.values())


def test_a_folder_without_its_manifest_is_named(small_run: Any) -> None:
    (small_run.root / "states/grpo-s1/step2.json").unlink()
    (text,) = failures(small_run)["states/grpo-s1/step2.json"]
    assert text.startswith("states/grpo-s1/step2.json is missing, only its folder is left.")


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda lines: [], "cannot be read: its last line is cut off"),
        (lambda lines: [*lines[:-1], lines[-1][:-9]], "cannot be read: its last line is cut off"),
        (lambda lines: [b"#" + lines[0], *lines[1:]], "cannot be read: line 1 is no sha256 with a path"),
        (lambda lines: lines[1:], "lists other files than the last audit saw: draws/main/partition/candidates.parquet"),
        (lambda lines: [b"0" * 64 + line[64:] for line in lines], "lists other files than the last audit saw: draws"),
    ],
)
def test_damage_of_sha256sums_is_named(
    small_run: Any, damage: Callable[[list[bytes]], list[bytes]], expected: str
) -> None:
    small_run.record()
    file = small_run.root / SUMS
    lines = file.read_bytes().splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines) if b"candidates.parquet" in line)
    file.write_bytes(b"".join(damage(lines[first:])))
    assert expected in failures(small_run)[SUMS][-1]
    file.unlink()
    assert "SHA256SUMS is missing, but an audit of this run wrote it" in failures(small_run)[SUMS][0]


def test_what_people_changed_after_the_audit_is_not_compared(small_run: Any) -> None:
    (small_run.root / "notes.md").write_text("mine")
    small_run.record()
    (small_run.root / "notes.md").write_text("mine too")
    assert failures(small_run) == {}


def test_draws_are_checked_each_by_itself(small_run: Any) -> None:
    shutil.copytree(small_run.root / "draws/main", small_run.root / "draws/other")
    for file in (small_run.root / "draws/other").rglob("*.parquet"):
        name = file.relative_to(small_run.root).as_posix()
        footer = json.dumps(small_run.footer(name)).replace("draws/main/", "draws/other/")
        small_run.set_footer(name, json.loads(footer))
    assert failures(small_run) == {}
    path = FINAL.replace("main", "other")
    small_run.rewrite(path, small_run.read(path).filter(pl.col("prompt_id") != "train2"))
    found = failures(small_run)
    assert f"prompts of prompts/train.parquet that {path} does not have: 1 (prompt_id train2)" in found.pop(path)[0]
    (texts,) = found.values()
    assert list(found) == [INDEX.replace("main", "other")]
    assert any("no reference sample of D_pef: 1 (prompt_id train2" in text for text in texts)


def test_what_is_written_last_is_checked_in_a_finished_run(small_run: Any) -> None:
    small_run.record()
    flip_byte(small_run.root / "timings/draws/main/partition/final.parquet")
    assert list(failures(small_run)) == ["timings/draws/main/partition/final.parquet"]
    flip_byte(small_run.root / "audit/audit.parquet")
    assert list(failures(small_run)) == ["audit/audit.parquet", "timings/draws/main/partition/final.parquet"]


def test_a_segment_that_does_not_start_where_the_one_before_ended_is_named(small_run: Any) -> None:
    path = "train/grpo-s1/step2/metrics.parquet"
    small_run.rewrite(path, small_run.read(path).filter(step=2))
    texts = failures(small_run)[path]
    expected = "begins with step 2, but was made from 'policy' policies/base.json, not from policies/grpo-s1/step1.json"
    assert expected in texts[0]
