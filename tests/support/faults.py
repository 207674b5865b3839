"""The table of faults: damage to the files of a run, and the messages of the audit that name it."""

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from raw_tables import flip_byte, write_raw
from safetensors.numpy import load_file, save_file
from small_run import BASE, CANDIDATES, FINAL, INDEX, TENSORS, TRAINED, SmallRun

from dphrl.artifacts.catalogue import SCHEMAS
from dphrl.artifacts.manifest import SUMS, sealed
from dphrl.artifacts.tables import read_footer
from dphrl.audit.run import audit_run

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
MODEL, STATE = f"policies/{BASE}.json", f"states/{TRAINED}.json"
TOKENIZER, ADAPTER = (f"policies/{BASE}/{name}.json" for name in ("tokenizer", "adapter_config"))
ROLLOUTS, VERDICTS = "draws/main/rollouts/train.presample", "draws/main/verdicts/train.presample"
SHARD, REFINED = f"{ROLLOUTS}/0.parquet", "draws/main/rollouts/train.refine/0.parquet"
JUDGED = "draws/main/verdicts/train.refine/0.parquet"
METRICS = f"train/{TRAINED}/metrics.parquet"
GOLD, EVAL = "gold/eval.parquet", "prompts/eval.parquet"
TEXT, FIGURE, TRAINING = "tables/headline.md", "figures/training.json", "tables/training.parquet"
CHANGED, CUT = "it is not the file that was written", "cannot be read: its last line is cut off"
Change = Callable[[Any], Any]


def failures(root: Path) -> dict[str, list[str]]:
    """Failed checks by artifact."""
    return {row["artifact"]: row["failed"] for row in audit_run(root).iter_rows(named=True) if row["failed"]}


# Faults of any file. The second file is its counterpart in another run.


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
    """The same content under the footer of older code; a file without a footer has older content."""
    _with_footer(file, {"code": "0" * 64}, file.read_bytes() + b"\n")


def misshapen(file: Path, other: Path) -> None:
    """A footer of another shape under digests that fit; a file without a footer is an empty list."""
    _with_footer(file, {"inputs": []}, b"[]")


def foreign(file: Path, other: Path) -> None:
    """A copy next to the file under a name that no rule writes."""
    shutil.copyfile(file, file.with_name(f"{FOREIGN}{file.suffix}"))


def _with_footer(file: Path, values: dict[str, object], content: bytes) -> None:
    if file.suffix == ".parquet":
        write_raw(pl.read_parquet(file), file, read_footer(file) | values)
    elif file.with_suffix("").is_dir():
        manifest = {name: value for name, value in json.loads(file.read_text()).items() if name != "footer_sha256"}
        file.write_text(json.dumps(sealed(manifest | values)))
    else:
        file.write_bytes(content)


# No data set, policy or table has this name.
FOREIGN = "a-copy"
OF_A_FILE: dict[str, Callable[[Path, Path], None]] = {
    "flipped byte": flipped,
    "truncated": truncated,
    "of another run": swapped,
    "missing": missing,
    "stale": stale,
    "odd footer": misshapen,
    "foreign file": foreign,
}


# Faults of the small run.


@dataclass(frozen=True)
class Fault:
    """A fault of the small run, the artifacts that the audit names, and a part of a message of each."""

    damage: Callable[[SmallRun], object]
    named: dict[str, str | tuple[str, ...]]
    alone: bool = True
    """The audit names no other artifact."""
    recorded: bool = False
    """The run ended with an audit and `SHA256SUMS` before the fault."""


# Other artifacts are named too, as they follow from the damaged ones.
Followed = partial(Fault, alone=False)
Recorded = partial(Fault, recorded=True)


def put(run: SmallRun, source: str, target: str) -> None:
    """Copy a file of the run to another place of it."""
    (run.root / target).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(run.root / source, run.root / target)


def _put(source: str, target: str) -> Change:
    return lambda run: put(run, source, target)


def _of_file(fault: Callable[[Path, Path], None], path: str) -> Change:
    return lambda run: fault(run.root / path, run.root / path)


def _rows(path: str, change: Callable[[pl.DataFrame], pl.DataFrame]) -> Change:
    """Other rows under digests that fit."""
    return lambda run: run.rewrite(path, change(run.read(path)))


def _lists(path: str, row: int, column: str, change: Callable[[list[Any]], object]) -> Change:
    """Another list in a row of a table of rollouts."""

    def damage(run: SmallRun) -> None:
        rows = run.read(path).to_dicts()
        change(rows[row][column])
        run.rewrite(path, pl.DataFrame(rows, schema=SCHEMAS["rollouts"].columns))

    return damage


def _tensors(change: Callable[[dict[str, Any]], object]) -> Change:
    """Other stored tensors, which the index lists."""

    def damage(run: SmallRun) -> None:
        tensors = load_file(run.root / TENSORS)
        change(tensors)
        save_file(tensors, run.root / TENSORS)
        run.relist(INDEX)

    return damage


def _at(name: str, place: Any, value: float) -> Change:
    return _tensors(lambda tensors: tensors[name].__setitem__(place, value))


def _cut(end: int | None) -> Change:
    return _tensors(lambda tensors: tensors.update({name: array[:end].copy() for name, array in tensors.items()}))


def _footer(path: str, change: Callable[[dict[str, Any]], object]) -> Change:
    """Another footer, or its text, under digests that fit."""
    return lambda run: run.set_footer(path, change(run.footer(path)))


def _key(path: str, value: object, *keys: str) -> Change:
    """Another value under a key of a footer; without a key, another footer."""

    def changed(footer: dict[str, Any]) -> object:
        inner = footer
        for key in keys[:-1]:
            inner = inner[key]
        if keys:
            inner[keys[-1]] = value
        return footer if keys else value

    return _footer(path, changed)


def _without(*names: str) -> Change:
    return lambda footer: {name: value for name, value in footer.items() if name not in names}


def _inputs(change: Change) -> Change:
    return lambda footer: footer | {"inputs": change(footer["inputs"])}


def _file(path: str, content: str | bytes, *, listed: str = "", relist: str = "") -> Change:
    """Another content of a file, which a manifest or a table lists."""

    def damage(run: SmallRun) -> None:
        (run.root / path).write_bytes(content if isinstance(content, bytes) else content.encode())
        if listed:
            run.list_files(listed)
        if relist:
            run.relist(relist)

    return damage


def _all(*changes: Change) -> Change:
    return lambda run: [change(run) for change in changes]


def _sums(change: Callable[[list[bytes]], list[bytes]]) -> Change:
    """Other lines of `SHA256SUMS`, from that of the candidates on."""

    def damage(run: SmallRun) -> None:
        lines = (run.root / SUMS).read_bytes().splitlines(keepends=True)
        first = next(number for number, line in enumerate(lines) if b"candidates.parquet" in line)
        (run.root / SUMS).write_bytes(b"".join(change(lines[first:])))

    return damage


def _swapped_shards(run: SmallRun) -> None:
    first, second, between = (run.root / ROLLOUTS / name for name in ("0.parquet", "1.parquet", "between"))
    for source, target in ((first, between), (second, first), (between, second)):
        source.rename(target)


def _of_another_policy(run: SmallRun) -> None:
    source, target = (run.root / f"rollouts/{name}/eval.evaluate" for name in (BASE, TRAINED))
    shutil.rmtree(target)
    shutil.copytree(source, target)


def _many_rows(run: SmallRun) -> None:
    """A table of one repeated row, which takes few bytes."""
    rows = 3_000_000
    columns = {"step": pl.repeat(1, rows, dtype=pl.Int32), "metric": pl.repeat("loss", rows)}
    frame = pl.select(**columns, value=pl.repeat(0.5, rows))
    write_raw(frame, run.root / METRICS, run.footer(METRICS) | {"rows": rows}, row_group_size=rows)


_UNKNOWN = "{} is not known to this workflow. Move it out of the folder of the run."
_STRAY = "has files in its folder that it does not list: {}"
_LACKS = "does not name inputs that its stage reads: {}"
_BPE = '{"version": "1.0", "model": {"type": "BPE", "vocab": {"a": -1}, "merges": 7}}'
_TRAIN2 = f"prompts of prompts/train.parquet that {FINAL} does not have: 1 (prompt_id train2)"
_OTHER_GOLD = {"paths": ["gold/train.parquet"], "digest": "0" * 64}
_FORGED = {"size": 1, "sha256": ""}
_WRONG = pl.col("prompt_id") == "train3"

FAULTS: dict[str, Fault] = {
    # Bytes.
    **{
        f"flipped byte of {path}": Fault(_of_file(flipped, path), {path: (text, f"Delete {path} and")})
        for path, text in ((FINAL, CHANGED), (SHARD, CHANGED), (MODEL, "no manifest"), (TENSORS, CHANGED))
    },
    "flipped byte of weights": Fault(
        _of_file(flipped, f"policies/{BASE}/model.safetensors"),
        {
            MODEL: f"{MODEL} lists files that have changed since: model.safetensors."
            f" Delete {MODEL} and run snakemake again."
        },
    ),
    **{
        f"truncated {path}": Fault(
            lambda run, path=path: os.truncate(run.root / path, (run.root / path).stat().st_size - 40), {path: CHANGED}
        )
        for path in (FINAL, f"{ROLLOUTS}/1.parquet")
    },
    "no parquet": Fault(_file(FINAL, b"PAR1" + b"\xff" * 100 + b"PAR1"), {FINAL: ()}),
    "no safetensors": Fault(_file(TENSORS, b"\xff" * 8 + b"{}", relist=INDEX), {TENSORS: ()}),
    "manifest nested": Fault(_file(MODEL, "[" * 100_000), {MODEL: ()}),
    "tokenizer": Followed(_file(TOKENIZER, _BPE, listed=MODEL), {MODEL: ()}),
    "rows that take no bytes": Fault(_many_rows, {METRICS: ()}),
    # Files that are missing, left over, in another place or unknown.
    "missing file of a manifest": Fault(
        _of_file(missing, f"states/{TRAINED}/rng.json"), {STATE: "lists files that are missing: rng.json"}
    ),
    "missing manifest": Fault(_of_file(missing, STATE), {STATE: f"{STATE} is missing, only its folder is left."}),
    "missing shard": Fault(
        _of_file(missing, SHARD),
        {
            f"{ROLLOUTS}/1.parquet": f"{ROLLOUTS}: no shard 0. Run snakemake again.",
            f"{VERDICTS}/0.parquet": f"made from 'rollouts', but {SHARD} is not there",
        },
    ),
    "missing last shard": Fault(
        _all(*(_of_file(missing, f"{folder}/1.parquet") for folder in (ROLLOUTS, VERDICTS))),
        {
            SHARD: "missing samples (expected 2 per prompt, 12 in all): 6 (prompt_id train3, sample_index 0;",
            CANDIDATES: f"made from 'verdicts', but {VERDICTS}/1.parquet is not there",
        },
    ),
    "left-over shard": Followed(
        _all(*(_put(f"{folder}/1.parquet", f"{folder}/2.parquet") for folder in (ROLLOUTS, VERDICTS))),
        {
            SHARD: (
                "samples in more than one shard: 6 (prompt_id train3, sample_index 0;",
                "an earlier config left behind",
            )
        },
    ),
    "shard of a large number": Followed(_put(SHARD, SHARD.replace("0.parq", "99999999999.parq")), {SHARD: ()}),
    "swapped shards": Followed(
        _swapped_shards,
        {f"{VERDICTS}/{i}.parquet": ("was made from other 'rollouts'", "without a verdict") for i in (0, 1)},
    ),
    "another kind of table": Fault(_put(EVAL, GOLD), {GOLD: "holds the schema 'prompts', but 'gold' belongs there"}),
    "rollouts of another policy": Followed(
        _of_another_policy,
        {f"rollouts/{TRAINED}/eval.evaluate/0.parquet": f"was written as rollouts/{BASE}/eval.evaluate/0.parquet"},
    ),
    **{
        f"{stray} is not listed": Fault(
            _put(f"policies/{BASE}/model.safetensors", f"{manifest.removesuffix('.json')}/{stray}"),
            {manifest: _STRAY.format(stray)},
        )
        for manifest, stray in (
            (MODEL, "more.safetensors"),
            (MODEL, "adapter_config.json"),
            (f"policies/{TRAINED}.json", "model-00002-of-00002.safetensors"),
            (STATE, "below/more.json"),
        )
    },
    "listed adapter": Fault(
        _file(ADAPTER, "{}", listed=MODEL),
        {MODEL: "lists an adapter, which a trainer would apply and an engine would not: adapter_config.json"},
    ),
    "adapter without weights": Fault(_file(ADAPTER, '{"peft_type": "LORA"}'), {MODEL: ()}),
    **{
        f"unknown {target}": Fault(_put(source, target), {target: _UNKNOWN.format(target)})
        for source, target in (
            (TRAINING, "tables/foreign.parquet"),
            (EVAL, "tables/prompts.parquet"),
            (EVAL, "prompts/a b.parquet"),
            (EVAL, "notes/prompts/eval.parquet"),
            (SHARD, f"{ROLLOUTS}/00.parquet"),
            (SHARD, f"{ROLLOUTS}/\u0661.parquet"),
            (SHARD, "draws/main/rollouts/train.other/0.parquet"),
            (f"policies/{BASE}/model.safetensors", "draws/main/reference/more.safetensors"),
            (SHARD, "rollouts/base/train.presample/0.parquet"),
            (f"policies/{BASE}/model.safetensors", "states/grpo-s1/more.safetensors"),
            (FIGURE, "policies/foreign-s1.json"),
            (TEXT, "prompts/foreign.md"),
            (TEXT, "draws/main/foreign.md"),
        )
    },
    "file name no UTF-8": Fault(_put(EVAL, os.fsdecode(b"prompts/\xff.parquet")), {"prompts/\\udcff.parquet": ()}),
    # Values under digests that fit.
    "altered token": Fault(
        _lists(SHARD, 2, "token_ids", lambda ids: ids.__setitem__(0, 9)),
        {
            SHARD: "samples whose tokens are not the text that was scored: 1 (prompt_id train1, sample_index 0",
            f"{VERDICTS}/0.parquet": (),
        },
    ),
    "infinite and missing log-probs": Followed(
        _all(
            _lists(SHARD, 0, "sampler_logprobs", lambda row: row.__setitem__(1, float("-inf"))),
            _lists(SHARD, 1, "sampler_logprobs", list.pop),
        ),
        {
            SHARD: (
                "other than one log-prob per token: 1 (prompt_id train0, sample_index 1, tokens 3, logprobs 2)",
                "infinite log-probs: 1 (prompt_id train0, sample_index 0)",
            )
        },
    ),
    "altered token of a stored response": Followed(
        _at("token_ids", -1, 6),
        {TENSORS: "rows whose tokens are not those of the prompt and its refined sample: 1 (row 3"},
    ),
    **{
        f"stored log-prob {value}": Followed(
            _at("logprobs", place, value), {TENSORS: f"1 log-probs are not finite and <= 0, first at [{place}]"}
        )
        for place, value in ((0, 0.5), (4, np.nan))
    },
    **{
        f"likeliest token {value}": Followed(
            _at("topk_logprobs", (2, 1), value),
            {TENSORS: ("top-K log-probs of 12 places", "wrong at 1 places, first [2]")},
        )
        for value in (0.5, np.nan, -1e-3, -50.0)
    },
    "tensors that do not fit the index": Followed(
        _cut(-1),
        {TENSORS: ("holds {'logprobs': 11, 'token_ids': 19} values", "expects {'logprobs': 12, 'token_ids': 20}")},
    ),
    "reference without rows": Followed(
        _all(_cut(0), _rows(INDEX, lambda rows: rows[:0])),
        {INDEX: "D_pef prompts that it lacks: 4 (prompt_id train0, sample_index 0;"},
    ),
    "missing row of the partition": Followed(
        _rows(FINAL, lambda rows: rows.filter(pl.col("prompt_id") != "train2")),
        {FINAL: _TRAIN2, INDEX: "no reference sample of D_pef: 1 (prompt_id train2"},
    ),
    "reference sample without a correct verdict": Followed(
        _rows(
            JUDGED,
            lambda rows: rows.with_columns(
                correct=~_WRONG, verdict=pl.when(_WRONG).then(pl.lit("wrong")).otherwise("verdict")
            ),
        ),
        {INDEX: "without a correct verdict of the refine plan: 1 (prompt_id train3"},
    ),
    "prompt without gold": Followed(
        _rows(GOLD, lambda rows: rows.head(2)), {EVAL: f"that {GOLD} does not have: 1 (prompt_id eval2)"}
    ),
    "rows out of order": Fault(
        lambda run: write_raw(run.read(FINAL)[::-1], run.root / FINAL, read_footer(run.root / FINAL)),
        {FINAL: f"{FINAL}: not sorted by prompt_id. Delete {FINAL} and run snakemake again."},
    ),
    "segment that starts elsewhere": Followed(
        _rows(METRICS, lambda rows: rows.filter(step=2)),
        {
            METRICS: f"begins with step 2, but was made from 'policy' {MODEL}, not from "
            f"{TRAINED.replace('grpo', 'policies/grpo').replace('step2', 'step1')}.json"
        },
    ),
    # Footers that do not belong to their place.
    **{
        text: Fault(_footer(path, change), {path: text})
        for path, change, text in (
            (FINAL, lambda footer: footer | {"stage": "score"}, "was made by the stage 'score', expected refine"),
            (STATE, lambda footer: footer | {"stage": ""}, "was made by the stage '', expected train_segment"),
            *((FINAL, _without(key), f"its footer lacks {key}") for key in ("stage", "seed", "code", "made_by")),
            (FINAL, lambda footer: footer | {"rows": 7}, "has 6 rows, its footer says 7"),
            (FINAL, lambda footer: footer | {"version": 9}, "declares schema 'partition' version 9, this code knows v"),
            (FINAL, lambda footer: footer | {"seed": 1}, "has the seed 1, expected None"),
            (STATE, lambda footer: footer | {"seed": 2}, "has the seed 2, expected 1"),
            (SHARD, lambda footer: footer | {"seed": None}, "has the seed None, expected 1"),
            (MODEL, lambda footer: footer | {"seed": 7}, "has the seed 7, expected 1"),
            (FINAL, _inputs(lambda given: {"partition": given["partition"]}), _LACKS.format("ve")),
            (SHARD, _inputs(lambda given: {}), _LACKS.format("prompts")),
            (REFINED, _inputs(_without("partition")), _LACKS.format("partition")),
            (EVAL, _inputs(lambda given: {}), _LACKS.format("source")),
            (
                FINAL,
                _inputs(lambda given: given | {"gold": _OTHER_GOLD}),
                "was made from other 'gold' (000000000000) than gold/train",
            ),
            (FINAL, _inputs(lambda given: given | {"": ""}), "inputs.: Input should be a valid dictionary"),
            (
                FINAL,
                _inputs(lambda given: given | {"gold": _OTHER_GOLD | {"paths": []}}),
                "List should have at least 1 item",
            ),
            (FINAL, lambda footer: footer | {"path": CANDIDATES}, f"was written as {CANDIDATES}"),
            (STATE, _without("path"), "lacks path"),
            (FINAL, lambda footer: footer | {"config": {}}, "config with the keys none, expected on_reject"),
            (
                SHARD,
                lambda footer: footer | {"config": footer["config"] | {"more": 1}},
                "keys engine, more, plan, expe",
            ),
        )
    },
    # Footers and manifests of another shape.
    **{
        name: Fault(_key(path, value, *keys), {path: ()})
        for name, path, value, *keys in (
            ("footer a list", FINAL, []),
            ("footer a number", FINAL, 5),
            ("footer no JSON", FINAL, "{"),
            ("footer nested", FINAL, '{"a":' * 50_000),
            ("footer of a long number", FINAL, '{"rows": ' + "9" * 5000 + "}"),
            ("inputs a list", FINAL, [], "inputs"),
            ("an input a digest", FINAL, "0" * 64, "inputs", "verdicts"),
            ("a digest a number", FINAL, 7, "inputs", "verdicts", "digest"),
            ("paths text", FINAL, FINAL, "inputs", "verdicts", "paths"),
            ("paths outside", FINAL, ["../../etc/passwd", "\0"], "inputs", "verdicts", "paths"),
            ("config text", SHARD, "plan", "config"),
            ("plan a list", REFINED, [3], "config", "plan"),
            ("plan.n text", REFINED, "2", "config", "plan", "n"),
            ("plan.n negative", REFINED, -1, "config", "plan", "n"),
            ("plan.n large", REFINED, 300_000_000, "config", "plan", "n"),
            ("plan.n larger", REFINED, 10**30, "config", "plan", "n"),
            ("libraries text", CANDIDATES, "polars 1", "libraries"),
            ("stage a list", CANDIDATES, ["refine"], "stage"),
            ("code a number", CANDIDATES, 1, "code"),
            ("schema a list", CANDIDATES, ["partition"], "schema"),
            ("version true", CANDIDATES, True, "version"),
            ("dtype a list", INDEX, ["float32"], "config", "dtype"),
            ("manifest a list", f"policies/{TRAINED}.json", []),
            ("files a list", STATE, [], "files"),
            ("a file of text", STATE, "rng.json", "files", "rng.json"),
            ("a size of text", STATE, "2", "files", "rng.json", "size"),
            ("a file outside", STATE, _FORGED, "files", "../../../secret"),
            ("a file of any place", STATE, _FORGED, "files", "/etc/passwd"),
            ("a file name of half a character", STATE, _FORGED, "files", "\ud800"),
            ("a file name with a zero", STATE, _FORGED, "files", "a\0b"),
        )
    },
    # Of a run that ended with its audit.
    "changed text and missing figure": Recorded(
        _all(_file(TEXT, "| of another run |\n"), _of_file(missing, FIGURE)),
        {TEXT: "is not the file that SHA256SUMS lists", FIGURE: "is missing, but SHA256SUMS lists it"},
    ),
    **{
        f"flipped byte of audited {path}": Recorded(
            _of_file(flipped, path),
            {path: (f"{path} is not the file that SHA256SUMS lists (", f"Delete {path} and run snakemake again")},
        )
        for path in (TEXT, FIGURE)
    },
    "missing audited table and folder": Fault(
        _all(_of_file(missing, EVAL), lambda run: shutil.rmtree(run.root / "states/grpo-s1")),
        {path: "is missing, but SHA256SUMS lists it. Name it as" for path in (EVAL, STATE)},
        alone=False,
        recorded=True,
    ),
    "timings and audit": Recorded(
        _all(_of_file(flipped, f"timings/{FINAL}"), _of_file(flipped, "audit/audit.parquet")),
        {f"timings/{FINAL}": (), "audit/audit.parquet": ()},
    ),
    "missing SHA256SUMS": Recorded(
        _of_file(missing, SUMS), {SUMS: "SHA256SUMS is missing, but an audit of this run wrote it"}
    ),
    **{
        f"SHA256SUMS {name}": Fault(_sums(change), {SUMS: text}, alone=name != "of others", recorded=True)
        for name, change, text in (
            ("empty", lambda lines: [], CUT),
            ("cut off", lambda lines: [*lines[:-1], lines[-1][:-9]], CUT),
            ("no sums", lambda lines: [b"#" + lines[0], *lines[1:]], "cannot be read: line 1 is no sha256 with a path"),
            ("of fewer", lambda lines: lines[1:], f"lists other files than the last audit saw: {CANDIDATES}"),
            (
                "of others",
                lambda lines: [b"0" * 64 + line[64:] for line in lines],
                "lists other files than the last audit saw: draws",
            ),
        )
    },
    **{
        f"audit with the config {config}": Recorded(
            _key("audit/audit.parquet", config, "config"), {"audit/audit.parquet": ()}
        )
        for config in ({}, {"stages": {}, "figures": {}}, {"figures": []}, {"figures": {"passk": 1}})
    },
}
