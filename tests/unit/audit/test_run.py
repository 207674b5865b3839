"""The audit of a run: a sound run passes, and its command and page say so; faults are in test_faults.py."""

import json
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
from faults import failures
from light import WITHOUT_EXTRAS
from raw_tables import flip_byte
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer, decoders, models

from dphrl.artifacts import tables
from dphrl.artifacts.catalogue import SCHEMAS
from dphrl.artifacts.files import remembered_sha256, sha256_file
from dphrl.artifacts.manifest import read_manifest
from dphrl.audit import reference
from dphrl.audit.across import check_rollouts
from dphrl.audit.artifacts import NoRunError, Run
from dphrl.audit.one_artifact import check_artifact
from dphrl.audit.run import AuditError, audit_run, render_page, require_passed, summary
from dphrl.cli import main

PRESAMPLE = "draws/main/rollouts/train.presample"
FINAL, INDEX = "draws/main/partition/final.parquet", "draws/main/reference/index.parquet"


def test_a_sound_run_passes_and_equal_runs_have_equal_audits(small_run: Any, built: Path) -> None:
    table = audit_run(small_run.root)
    assert failures(small_run.root) == {}
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
    (text,) = failures(small_run.root)[str(manifest)]
    assert "lists files that have changed since: model.safetensors" in text


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


def test_a_text_ends_where_its_engine_ended_it(small_run: Any) -> None:
    """`engine.stop` and `engine.stop_token_ids`: the end is among the tokens, and not in the text."""
    path = f"{PRESAMPLE}/0.parquet"

    def failures_of(engine: dict[str, Any], decode: Callable[[list[int]], str]) -> int:
        small_run.change_footer(path, lambda footer: footer["config"].update(engine=engine))
        run = Run(small_run.root)
        check_artifact(run.artifacts[path])
        check_rollouts(run, lambda rows: [decode(ids) for ids in rows])
        return len([text for text in run.artifacts[path].failed if "not the text" in text])

    def letters(ids: list[int]) -> str:
        return "".join("__abcdefgh"[i] for i in ids if i > 1)

    assert failures_of({}, letters) == 0
    assert failures_of({}, lambda ids: letters(ids) + "!") == 1
    assert failures_of({"stop": ["!"]}, lambda ids: letters(ids) + "!.") == 0
    assert failures_of({"stop": ["?"]}, lambda ids: letters(ids) + "!") == 1
    # Most responses end with token 1, here decoded like any other.
    assert failures_of({}, lambda ids: letters(ids) + "E" * (1 in ids)) == 1
    assert failures_of({"stop_token_ids": [1]}, lambda ids: letters(ids) + "E" * (1 in ids)) == 0


def test_a_space_at_the_start_of_a_response_is_kept(small_run: Any) -> None:
    """As in Llama 2, whose tokenizer drops a space at the start of a text."""
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "▁the": 1}, unk_token="a"))
    stripped = [decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(stripped)
    tokenizer.save(str(small_run.root / "policies/base/tokenizer.json"))
    small_run.list_files("policies/base.json")
    run = Run(small_run.root)
    check_artifact(run.artifacts["policies/base.json"])
    decode = reference.decoder(run)
    assert decode is not None
    assert decode([[1], [0, 1], []]) == [" the", "a the", ""]


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
    assert not [text for text in failures(small_run.root).get(path, []) if "whose tokens are not the text" in text]


def test_the_commits_that_made_a_run_are_counted(small_run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    small_run.record()
    main(["audit", str(small_run.root)])
    assert "Made by dphrl 0.5.0 (1 job)." in capsys.readouterr().out


def test_draws_are_checked_each_by_itself(small_run: Any) -> None:
    shutil.copytree(small_run.root / "draws/main", small_run.root / "draws/other")
    for file in (small_run.root / "draws/other").rglob("*.parquet"):
        name = file.relative_to(small_run.root).as_posix()
        footer = json.dumps(small_run.footer(name)).replace("draws/main/", "draws/other/")
        small_run.set_footer(name, json.loads(footer))
    assert failures(small_run.root) == {}
    path = FINAL.replace("main", "other")
    small_run.rewrite(path, small_run.read(path).filter(pl.col("prompt_id") != "train2"))
    found = failures(small_run.root)
    assert f"prompts of prompts/train.parquet that {path} does not have: 1 (prompt_id train2)" in found.pop(path)[0]
    (texts,) = found.values()
    assert list(found) == [INDEX.replace("main", "other")]
    assert any("no reference sample of D_pef: 1 (prompt_id train2" in text for text in texts)
