"""Damage under digests that fit: the audit names it, whatever its shape, and still sees every other damage."""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import polars as pl
import pytest
from raw_tables import flip_byte, write_raw

from dphrl.audit.run import AuditError, audit_run, require_passed, summary
from dphrl.cli import main

FINAL, CANDIDATES = "draws/main/partition/final.parquet", "draws/main/partition/candidates.parquet"
BASE, TRAINED = "policies/base", "policies/grpo-s1/step2"
STATE = "states/grpo-s1/step2.json"
SHARD, REFINED = "draws/main/rollouts/train.presample/0.parquet", "draws/main/rollouts/train.refine/0.parquet"
# Another fault, which must be named too.
OTHER = "tables/training.parquet"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def failures(run: Any) -> dict[str, list[str]]:
    """Failed checks by artifact."""
    table = audit_run(run.root)
    return {row["artifact"]: row["failed"] for row in table.iter_rows(named=True) if row["failed"]}


def put(run: Any, source: str, target: str) -> None:
    """Copy a file of the run to another place of it."""
    (run.root / target).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(run.root / source, run.root / target)


@pytest.mark.parametrize(
    ("manifest", "name"),
    [
        (f"{BASE}.json", "more.safetensors"),
        (f"{BASE}.json", "adapter_config.json"),
        (f"{TRAINED}.json", "model-00002-of-00002.safetensors"),
        (STATE, "below/more.json"),
    ],
)
def test_a_file_that_a_manifest_does_not_list_is_named(small_run: Any, manifest: str, name: str) -> None:
    stray = f"{manifest.removesuffix('.json')}/{name}"
    put(small_run, f"{BASE}/model.safetensors", stray)
    found = failures(small_run)
    assert any(f"has files in its folder that it does not list: {name}" in text for text in found[manifest])
    assert list(found) == [manifest]


def test_an_adapter_that_a_manifest_lists_is_named(small_run: Any) -> None:
    path = f"{BASE}.json"
    (small_run.root / BASE / "adapter_config.json").write_text("{}")
    small_run.list_files(path)
    (text,) = failures(small_run)[path]
    assert "lists an adapter, which a trainer would apply and an engine would not: adapter_config.json" in text


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("tables/training.parquet", "tables/foreign.parquet"),
        ("prompts/eval.parquet", "tables/prompts.parquet"),
        ("prompts/eval.parquet", "prompts/a b.parquet"),
        ("prompts/eval.parquet", "notes/prompts/eval.parquet"),
        (SHARD, "draws/main/rollouts/train.presample/00.parquet"),
        (SHARD, "draws/main/rollouts/train.presample/\u0661.parquet"),
        (SHARD, "draws/main/rollouts/train.other/0.parquet"),
        (f"{BASE}/model.safetensors", "draws/main/reference/more.safetensors"),
        (SHARD, "rollouts/base/train.presample/0.parquet"),
        (f"{BASE}/model.safetensors", "states/grpo-s1/more.safetensors"),
        ("figures/training.json", "policies/foreign-s1.json"),
        ("tables/headline.md", "prompts/foreign.md"),
        ("tables/headline.md", "draws/main/foreign.md"),
    ],
)
def test_a_file_that_no_rule_makes_is_named(small_run: Any, source: str, target: str) -> None:
    put(small_run, source, target)
    assert failures(small_run)[target] == [
        f"{target} is not known to this workflow. Move it out of the folder of the run."
    ]


def test_what_people_keep_in_a_run_is_not_checked(small_run: Any) -> None:
    for name in ("notes.md", "logs/score.log", "tables/mine.csv", "notebooks/plot.ipynb"):
        (small_run.root / name).parent.mkdir(exist_ok=True)
        (small_run.root / name).write_text("mine")
    put(small_run, FINAL, "tracking/offline/files/media/table.parquet")
    put(small_run, FINAL, "logs/copy.parquet")
    put(small_run, FINAL, "draws/main/partition/.ab12.tmp/0.parquet")
    put(small_run, FINAL, "draws/main/rollouts/train.presample/.0.parquet.parts/0.parquet")
    assert failures(small_run) == {}


def _without(*names: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda footer: {name: value for name, value in footer.items() if name not in names}


def _inputs(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda footer: footer | {"inputs": change(footer["inputs"])}


GOLD = {"paths": ["gold/train.parquet"], "digest": "0" * 64}
FOOTERS: list[tuple[str, Callable[[dict[str, Any]], dict[str, Any]], str]] = [
    (FINAL, lambda footer: footer | {"stage": "score"}, "was made by the stage 'score', expected refine"),
    (STATE, lambda footer: footer | {"stage": ""}, "was made by the stage '', expected train_segment"),
    (FINAL, _without("stage"), "its footer lacks stage"),
    (FINAL, _without("seed"), "its footer lacks seed"),
    (FINAL, _without("code"), "its footer lacks code"),
    (FINAL, lambda footer: footer | {"seed": 1}, "has the seed 1, expected None"),
    (STATE, lambda footer: footer | {"seed": 2}, "has the seed 2, expected 1"),
    (SHARD, lambda footer: footer | {"seed": None}, "has the seed None, expected 1"),
    (f"{BASE}.json", lambda footer: footer | {"seed": 7}, "has the seed 7, expected 1"),
    (FINAL, _inputs(lambda given: {"partition": given["partition"]}), "does not name inputs that its stage reads: ve"),
    (SHARD, _inputs(lambda given: {}), "does not name inputs that its stage reads: prompts"),
    (
        REFINED,
        _inputs(lambda given: {name: given[name] for name in ("prompts", "policy")}),
        "does not name inputs that its stage reads: partition",
    ),
    ("prompts/eval.parquet", _inputs(lambda given: {}), "does not name inputs that its stage reads: source"),
    (FINAL, _inputs(lambda given: given | {"gold": GOLD}), "was made from other 'gold' (000000000000) than gold/train"),
    (FINAL, _inputs(lambda given: given | {"": ""}), "inputs.: Input should be a valid dictionary"),
    (FINAL, _inputs(lambda given: given | {"gold": GOLD | {"paths": []}}), "List should have at least 1 item"),
    (FINAL, lambda footer: footer | {"path": CANDIDATES}, f"was written as {CANDIDATES}"),
    (STATE, _without("path"), "lacks path"),
    (FINAL, _without("made_by"), "its footer lacks made_by"),
    (FINAL, lambda footer: footer | {"config": {}}, "config with the keys none, expected on_reject"),
    (SHARD, lambda footer: footer | {"config": footer["config"] | {"more": 1}}, "keys engine, more, plan, expe"),
]


@pytest.mark.parametrize(("path", "change", "expected"), FOOTERS, ids=[text[:40] for *_, text in FOOTERS])
def test_a_footer_that_does_not_belong_to_its_place_is_named(
    small_run: Any, path: str, change: Callable[[dict[str, Any]], dict[str, Any]], expected: str
) -> None:
    small_run.set_footer(path, change(small_run.footer(path)))
    found = failures(small_run)
    assert any(expected in text for text in found[path]), found
    assert {other for other in found if other != path} <= {path.replace("rollouts", "verdicts")}


@pytest.mark.parametrize("config", [{}, {"stages": {}, "figures": {}}, {"figures": []}, {"figures": {"passk": 1}}])
def test_an_audit_that_recorded_no_figures_is_named(small_run: Any, config: dict[str, Any]) -> None:
    small_run.record()
    path = "audit/audit.parquet"
    small_run.set_footer(path, small_run.footer(path) | {"config": config})
    assert list(failures(small_run)) == [path]


def _deep(run: Any) -> str:
    (run.root / f"{BASE}.json").write_text("[" * 100_000)
    return f"{BASE}.json"


def _of_another_type(path: str, value: object, *keys: str) -> Callable[[Any], str]:
    """Another value under a key of a footer; without a key, another footer."""

    def damage(run: Any) -> str:
        footer = run.footer(path)
        inner = footer
        for key in keys[:-1]:
            inner = inner[key]
        if keys:
            inner[keys[-1]] = value
        run.set_footer(path, footer if keys else value)
        return path

    return damage


def _tokenizer(run: Any) -> str:
    text = '{"version": "1.0", "model": {"type": "BPE", "vocab": {"a": -1}, "merges": 7}}'
    (run.root / BASE / "tokenizer.json").write_text(text)
    path = f"{BASE}.json"
    run.list_files(path)
    return path


def _no_utf8(run: Any) -> str:
    name = os.fsdecode(b"prompts/\xff.parquet")
    put(run, "prompts/eval.parquet", name)
    return "prompts/\\udcff.parquet"


def _adapter(run: Any) -> str:
    (run.root / BASE / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    return f"{BASE}.json"


def _shard_number(run: Any) -> str:
    put(run, SHARD, SHARD.replace("0.parquet", "99999999999.parquet"))
    return SHARD


def _rows(rows: int) -> Callable[[Any], str]:
    """A table of one repeated row, which takes few bytes."""

    def damage(run: Any) -> str:
        path = "train/grpo-s1/step2/metrics.parquet"
        row = pl.select(
            step=pl.repeat(1, rows, dtype=pl.Int32, eager=False),
            metric=pl.repeat("loss", rows, eager=False),
            value=pl.repeat(0.5, rows, eager=False),
        )
        footer = run.footer(path) | {"rows": rows}
        write_raw(row, run.root / path, footer, row_group_size=rows)
        return path

    return damage


def _not_parquet(run: Any) -> str:
    (run.root / FINAL).write_bytes(b"PAR1" + b"\xff" * 100 + b"PAR1")
    return FINAL


def _not_safetensors(run: Any) -> str:
    path = "draws/main/reference/responses.safetensors"
    (run.root / path).write_bytes(b"\xff" * 8 + b"{}")
    run.relist("draws/main/reference/index.parquet")
    return path


DAMAGES: dict[str, Callable[[Any], str]] = {
    "footer a list": _of_another_type(FINAL, []),
    "footer a number": _of_another_type(FINAL, 5),
    "footer no JSON": _of_another_type(FINAL, "{"),
    "footer nested": _of_another_type(FINAL, '{"a":' * 50_000),
    "footer of a long number": _of_another_type(FINAL, '{"rows": ' + "9" * 5000 + "}"),
    "inputs a list": _of_another_type(FINAL, [], "inputs"),
    "an input a digest": _of_another_type(FINAL, "0" * 64, "inputs", "verdicts"),
    "a digest a number": _of_another_type(FINAL, 7, "inputs", "verdicts", "digest"),
    "paths text": _of_another_type(FINAL, FINAL, "inputs", "verdicts", "paths"),
    "paths outside": _of_another_type(FINAL, ["../../etc/passwd", "\0"], "inputs", "verdicts", "paths"),
    "config text": _of_another_type(SHARD, "plan", "config"),
    "plan a list": _of_another_type(REFINED, [3], "config", "plan"),
    "plan.n text": _of_another_type(REFINED, "2", "config", "plan", "n"),
    "plan.n negative": _of_another_type(REFINED, -1, "config", "plan", "n"),
    "plan.n large": _of_another_type(REFINED, 300_000_000, "config", "plan", "n"),
    "plan.n larger": _of_another_type(REFINED, 10**30, "config", "plan", "n"),
    "libraries text": _of_another_type(CANDIDATES, "polars 1", "libraries"),
    "stage a list": _of_another_type(CANDIDATES, ["refine"], "stage"),
    "code a number": _of_another_type(CANDIDATES, 1, "code"),
    "schema a list": _of_another_type(CANDIDATES, ["partition"], "schema"),
    "version true": _of_another_type(CANDIDATES, True, "version"),
    "dtype a list": _of_another_type("draws/main/reference/index.parquet", ["float32"], "config", "dtype"),
    "manifest a list": _of_another_type(f"{TRAINED}.json", []),
    "manifest nested": _deep,
    "files a list": _of_another_type(STATE, [], "files"),
    "a file of text": _of_another_type(STATE, "rng.json", "files", "rng.json"),
    "a size of text": _of_another_type(STATE, "2", "files", "rng.json", "size"),
    "a file outside": _of_another_type(STATE, {"size": 1, "sha256": ""}, "files", "../../../secret"),
    "a file of any place": _of_another_type(STATE, {"size": 1, "sha256": ""}, "files", "/etc/passwd"),
    "a file name of half a character": _of_another_type(STATE, {"size": 1, "sha256": ""}, "files", "\ud800"),
    "a file name with a zero": _of_another_type(STATE, {"size": 1, "sha256": ""}, "files", "a\0b"),
    "tokenizer": _tokenizer,
    "adapter without weights": _adapter,
    "file name no UTF-8": _no_utf8,
    "shard of a large number": _shard_number,
    "rows that take no bytes": _rows(3_000_000),
    "no parquet": _not_parquet,
    "no safetensors": _not_safetensors,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_of_any_shape_is_named_and_hides_no_other(small_run: Any, damage: str) -> None:
    damaged = DAMAGES[damage](small_run)
    flip_byte(small_run.root / OTHER)
    table = audit_run(small_run.root)
    found = {row["artifact"]: row["failed"] for row in table.iter_rows(named=True) if row["failed"]}
    assert damaged in found, found
    assert f"{OTHER}: it is not the file that was written" in found[OTHER][0]
    assert not CONTROL.search(summary(table))
    # The rows of each sound artifact were still counted.
    assert dict(table.select("artifact", "rows").iter_rows())["evaluation/base/eval.parquet"] == 3


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_of_any_shape_can_be_shown(small_run: Any, damage: str, capfd: pytest.CaptureFixture[str]) -> None:
    damaged = DAMAGES[damage](small_run)
    for command in ("show", "lineage"):
        for path in (damaged, STATE, "evaluation/base/eval.parquet"):
            assert main(["audit", command, str(small_run.root / path)]) in (0, 2)
    assert not CONTROL.search("".join(capfd.readouterr()))


HOSTILE = "\x1b]52;c;aGk=\x07\x1b[2J\x9b31m\u202egnp\x7f\u2066\x00\rFAILED  nothing"


def hostile_runs(run: Any) -> Iterator[str]:
    """Put a hostile text into each place of a run that is printed, one by one; yield the files that hold it."""
    rows = run.read(SHARD).with_columns(text=pl.lit(HOSTILE), prompt_id=pl.format("{}" + HOSTILE, "prompt_id"))
    run.rewrite(SHARD, rows)
    yield SHARD
    hostile = {"paths": [HOSTILE], "digest": HOSTILE}
    footer = run.footer(FINAL)
    run.set_footer(FINAL, footer | {"stage": HOSTILE, "inputs": footer["inputs"] | {HOSTILE: hostile}})
    yield FINAL
    footer = run.footer(STATE)
    run.set_footer(STATE, footer | {"config": {HOSTILE: HOSTILE}, "libraries": {HOSTILE: HOSTILE}})
    yield STATE
    run.set_footer(f"{TRAINED}.json", footer | {"files": {HOSTILE: {"size": 1, "sha256": HOSTILE}}})
    yield f"{TRAINED}.json"
    (run.root / "tables/headline.md").write_text(HOSTILE)
    yield "tables/headline.md"
    name = f"prompts/{HOSTILE.replace(chr(0), '').replace('/', '')}.parquet"
    put(run, "prompts/eval.parquet", name)
    yield name
    put(run, "tables/headline.md", "prompts/\udcff\x9b.md")
    yield "prompts/\udcff\x9b.md"


def test_no_text_of_a_run_reaches_the_terminal_as_a_command(small_run: Any, capfd: pytest.CaptureFixture[str]) -> None:
    for file in hostile_runs(small_run):
        for arguments in (["show", f"{small_run.root}/{file}"], ["lineage", f"{small_run.root}/{file}"]):
            main(["audit", *arguments])
            printed = "".join(capfd.readouterr())
            assert not CONTROL.search(printed), (arguments, CONTROL.findall(printed))
    assert main(["audit", str(small_run.root)]) == 1
    printed = capfd.readouterr().out
    assert not CONTROL.search(printed)
    # A line break of a text does not begin a line of the audit.
    assert not re.search(r"^FAILED  nothing", printed, re.MULTILINE)
    assert "␛" in printed
    with pytest.raises(AuditError) as error:
        require_passed(audit_run(small_run.root))
    assert not CONTROL.search(str(error.value))
