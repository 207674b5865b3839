"""Peak memory of the stages that read rollouts, by their number: python dev/benchmarks/memory.py

Each stage does the work of its script in a separate process, on generated files. score, find_candidates and
evaluate_policy read eight rollouts or verdicts per prompt; refine and tensorise read one per candidate (4 + 12 tokens,
a model of one layer); rehearse reads stored responses; audit reads a run with sharded pre-samples and the files made
from them, up to the stored responses. `times` is the peak divided by the peak at the first number of rollouts.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from dphrl.artifacts.catalogue import SCHEMAS
from dphrl.artifacts.code import code_digest
from dphrl.artifacts.kinds import kind_of
from dphrl.artifacts.stage import Stage
from dphrl.artifacts.tables import PART, by_prompts
from dphrl.config import slices
from dphrl.config.blocks.evaluation import StyleRule
from dphrl.config.blocks.sampling import Plan
from dphrl.config.blocks.training import PartitionConfig
from dphrl.config.load import load_config
from dphrl.evaluation.per_prompt import evaluate_parts
from dphrl.layout.names import DRAW
from dphrl.scoring import MathScorer
from dphrl.scoring.tables import score_rollouts
from dphrl.tasks.partition import candidates, refine

if TYPE_CHECKING:
    from dphrl.model.logprobs import LogProbs

SAMPLES, PROMPT, RESPONSE, VOCABULARY = 8, 4, 12, 500
SHARDS = 4
STAGE_1 = f"draws/{DRAW}"
# The text of each token.
LETTERS = np.array([chr(0x4E00 + number) for number in range(VOCABULARY)])
STYLES = [StyleRule(name="tens", prefix="#### 1")]
STEPS, REHEARSED, TOKEN_BUDGET = 50, 64, 1 << 14
RULES = PartitionConfig(pef_min_correct=SAMPLES)
# The run that is audited.
SET = {"task": "math", "source": "made"}
CONFIG = load_config(
    {
        "run": "made",
        "toy": {},
        "datasets": {"train": SET, "other": SET},
        "train_dataset": "train",
        "prompts": {"max_tokens": PROMPT},
        "sampling": {"presample": {"n": SAMPLES, "shards": SHARDS}, "refine": {"max_tokens": RESPONSE}},
        "hardware": {"token_budget": TOKEN_BUDGET},
        "train": {"dtype": "float32"},
        "engine": {"dtype": "float32"},
        "methods": {},
        "evaluate": {"datasets": ["other"]},
    }
)
NULLS = ("extracted", "answer_class", "program_class", "detail", "reads_table", "level")
SAME = {
    "finish_reason": "stop",
    "task": "math",
    "messages": '[{"role": "user", "content": "How many are there?"}]',
    "source": "made",
    "verdict": "correct",
    "correct": True,
    "kept": True,
    "reward": 1.0,
    "subset": "pef",
    "reference_sample": 0,
    "n": SAMPLES,
    "c": SAMPLES,
    "ground_truth": '{"answer": "7"}',
    "prompt_length": PROMPT,
    "response_length": RESPONSE,
    "max_sampler_gap": 0.0,
    **dict.fromkeys(NULLS),
}
EVALUATE, REHEARSE, AUDIT = "evaluate_policy", "rehearse", "audit"
WITH_TORCH = ("tensorise", REHEARSE, AUDIT)
# The tables that each stage reads, with the number of rows per prompt.
INPUTS: dict[str, dict[str, int]] = {
    "score": {"rollouts": SAMPLES, "gold": 1},
    "find_candidates": {"verdicts": SAMPLES, "gold": 1},
    "refine": {"partition": 1, "verdicts": 1},
    "tensorise": {"partition": 1, "prompts": 1, "rollouts": 1},
    EVALUATE: {"rollouts": SAMPLES, "verdicts": SAMPLES, "gold": 1, "prompts": 1},
    REHEARSE: {},
    AUDIT: {},
}


def made(schema: str, prompts: int, samples: int, first: int = 0) -> Iterator[pl.DataFrame]:
    """A table with `samples` rows for each prompt, in parts; one in 50 of the rollouts' answers is correct.

    Args:
        first: number of the first prompt.
    """
    columns = SCHEMAS[schema].columns
    same = SAME | {"reason": None if schema == "gold" else "near-perfect"}
    end = (first + prompts) * samples
    for start in range(first * samples, end, PART):
        row = np.arange(start, min(end, start + PART))
        values: dict[str, Any] = {
            "prompt_id": pl.Series(row // samples).cast(pl.String).str.zfill(8),
            "sample_index": row % samples,
            "seed": row,
            "token_ids": tokens(row, RESPONSE),
            "prompt_token_ids": tokens(row, PROMPT),
            "sampler_logprobs": -(row[:, None] % np.arange(1, RESPONSE + 1)) / 16,
            "text": "#### " + pl.Series(row * 7919 % 50).cast(pl.String),
            "source_index": row,
            "row": row,
            "start": row * (PROMPT + RESPONSE),
            "response_start": row * RESPONSE,
        }
        varying = {name: pl.Series(value) for name, value in values.items() if name in columns}
        lists = {name: series.arr.to_list() if series.dtype == pl.Array else series for name, series in varying.items()}
        yield pl.DataFrame(lists).with_columns(
            pl.lit(same[name]).alias(name) for name in columns if name not in varying
        )


def make(stage: str, rows: int, folder: Path) -> None:
    """Write the stage's input files, named after their schemas."""
    prompts = rows // max(INPUTS[stage].values())
    for schema, samples in INPUTS[stage].items():
        job(stage, folder).write_parts(made(schema, prompts, samples), schema, str(folder / f"{schema}.parquet"))


def make_stored(rows: int, folder: Path) -> None:
    """Write that many stored responses."""
    job("tensorise", folder).write_parts(saved(rows, folder), "reference_index", str(folder / "index.parquet"))


def saved(rows: int, folder: Path) -> Iterator[pl.DataFrame]:
    """The index of that many stored responses; their tensors are written while it is read."""
    from dphrl.reference.build import save_tensors

    parts = made("reference_index", rows, 1)
    return save_tensors(((tensors(part["row"].to_numpy()), part) for part in parts), folder / "responses.safetensors")


def tensors(row: np.ndarray) -> dict[str, np.ndarray]:
    """Stored responses of a model to which all tokens are equally probable."""
    both = np.hstack([tokens(row, PROMPT), tokens(row, RESPONSE)])
    logprobs = np.full(len(row) * RESPONSE, -np.log(VOCABULARY), np.float32)
    return {"token_ids": both.astype(np.int32).ravel(), "logprobs": logprobs}


def tokens(row: np.ndarray, length: int) -> np.ndarray:
    """The tokens of prompts or responses, (rows, length)."""
    return (row[:, None] + np.arange(length)) % VOCABULARY


def make_run(rows: int, run: Path) -> None:
    """Write a run without a fault: that many pre-samples in shards, and a refined and stored sample of each prompt."""
    prompts, presamples = rows // SAMPLES, [f"train.presample/{number}.parquet" for number in range(SHARDS)]
    asked, gold, refined = "prompts/train.parquet", "gold/train.parquet", "train.refine/0.parquet"
    rejected, before, after = (
        "prompts/train.rejected.parquet",
        f"{STAGE_1}/partition/candidates.parquet",
        f"{STAGE_1}/partition/final.parquet",
    )
    base = "policies/base.json"

    def add(path: str, parts: Iterable[pl.DataFrame], schema: str, **inputs: list[str]) -> None:
        stage = stage_at(run, path)
        for name, paths in inputs.items():
            stage.scan(name, [str(run / source) for source in paths])
        if schema == "reference_index":
            stage.folder("policy", str(run / base))
        if path in (asked, rejected, gold):
            stage.inputs["source"] = {"paths": ["questions.jsonl"], "digest": "of no file"}
        files = (
            [str(run / path.replace("index.parquet", "responses.safetensors"))] if schema == "reference_index" else []
        )
        stage.write_parts(parts, schema, str(run / path), files)

    def sample(shard: str, samples: int, start: int, end: int, **inputs: list[str]) -> None:
        drawn, judged = (made(schema, end - start, samples, start) for schema in ("rollouts", "verdicts"))
        add(f"{STAGE_1}/rollouts/{shard}", map(spelled, drawn), "rollouts", prompts=[asked], **inputs)
        add(f"{STAGE_1}/verdicts/{shard}", judged, "verdicts", rollouts=[f"{STAGE_1}/rollouts/{shard}"], gold=[gold])

    make_policy(run / "policies" / "base")
    stage_at(run, base).write_manifest(str(run / base))
    add(asked, made("prompts", prompts, 1), "prompts")
    add(rejected, [], "rejected")
    add(gold, made("gold", prompts, 1), "gold", prompts=[asked], rejected=[rejected])
    starts = np.linspace(0, prompts, SHARDS + 1, dtype=int)
    for shard, (start, end) in zip(presamples, pairwise(starts), strict=True):
        sample(shard, SAMPLES, start, end)
    candidates = (part.with_columns(reference_sample=None) for part in made("partition", prompts, 1))
    add(before, candidates, "partition", gold=[gold], verdicts=[f"{STAGE_1}/verdicts/{shard}" for shard in presamples])
    sample(refined, 1, 0, prompts, partition=[before])
    add(
        after,
        made("partition", prompts, 1),
        "partition",
        partition=[before],
        verdicts=[f"{STAGE_1}/verdicts/{refined}"],
    )
    index, of = (
        saved(prompts, run / STAGE_1 / "reference"),
        {"prompts": [asked], "rollouts": [f"{STAGE_1}/rollouts/{refined}"]},
    )
    add(f"{STAGE_1}/reference/index.parquet", index, "reference_index", partition=[after], **of)


def make_policy(folder: Path) -> None:
    """Write a model to which all tokens are equally probable, and a tokenizer that decodes them to `LETTERS`."""
    from tokenizers import Tokenizer, decoders, models
    from torch.nn.init import zeros_
    from transformers import PreTrainedTokenizerFast

    model = policy().model
    zeros_(model.lm_head.weight)
    model.save_pretrained(folder)
    tokenizer = Tokenizer(models.WordLevel({letter: i for i, letter in enumerate(LETTERS)}, unk_token=LETTERS[0]))
    tokenizer.decoder = decoders.Fuse()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)


def spelled(rollouts: pl.DataFrame) -> pl.DataFrame:
    """The rollouts with the text of their tokens."""
    letters = LETTERS[rollouts["token_ids"].list.to_array(RESPONSE).to_numpy()]
    return rollouts.with_columns(text=pl.Series(letters.view(f"<U{RESPONSE}").ravel()))


def job(name: str, root: Path, config: Mapping[str, Any] | None = None) -> Stage:
    """A stage of that name, without code."""
    seed = CONFIG.seed if name in ("sample", "train_base") else None
    return Stage(root, name, [], [], code_digest([]), config or {}, seed=seed)


def stage_at(root: Path, path: str) -> Stage:
    """The stage that makes the artifact at a path of a run."""
    kind = kind_of(path)
    assert kind is not None
    plan: Plan = "refine" if ".refine/" in path else "presample"
    config = slices.sample(CONFIG, "base", "train", plan) if kind.schema == "rollouts" else None
    return job(kind.stage[0], root, config)


def work(stage: str, folder: Path) -> None:
    """Do the work of the stage's script."""
    running, out = job(stage, folder), str(folder / "out.parquet")
    given = {schema: running.scan(schema, str(folder / f"{schema}.parquet")) for schema in INPUTS[stage]}
    tables = by_prompts(*given.values())
    if stage == "score":
        with MathScorer(answer="final") as scorer:
            running.write_parts((score_rollouts(drawn, gold, scorer) for drawn, gold in tables), "verdicts", out)
    elif stage == "find_candidates":
        running.write_parts((candidates(gold, judged, SAMPLES, RULES) for judged, gold in tables), "partition", out)
    elif stage == "refine":
        running.write_parts((refine(divided, judged, RULES) for divided, judged in tables), "partition", out)
    elif stage == EVALUATE:
        running.write_parts(evaluate_parts(**given, styles=STYLES), "evaluation", out)
    else:
        from dphrl.reference.build import reference_rows, save_tensors, tensorise

        parts = tensorise((reference_rows(*three) for three in tables), policy(), TOKEN_BUDGET)
        running.write_parts(save_tensors(parts, folder / "out.safetensors"), "reference_index", out)


def policy() -> LogProbs:
    """A model of one layer."""
    from transformers import LlamaConfig, LlamaForCausalLM

    from dphrl.model.logprobs import LogProbs

    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 1, "num_hidden_layers": 1}
    return LogProbs(LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY, **sizes)))


def audit(run: Path) -> None:
    """Check every artifact."""
    from dphrl.audit.run import audit_run, require_sound

    require_sound(audit_run(run))


def rehearse(folder: Path) -> None:
    """Open the stored responses and read some of them, like each step of training."""
    from dphrl.reference import load

    stored, generator = load(folder / "responses.safetensors"), np.random.default_rng(0)
    for _ in range(STEPS):
        stored.rows(generator.integers(0, len(stored), REHEARSED).tolist())


def measure(stage: str, folder: Path) -> None:
    """Do the work; print this process's peak memory in MiB before and after, and the seconds."""
    if stage in WITH_TORCH:
        import dphrl.reference  # noqa: F401
    before, start = peak(), time.perf_counter()
    {REHEARSE: rehearse, AUDIT: audit}.get(stage, partial(work, stage))(folder)
    print(before, peak(), f"{time.perf_counter() - start:.1f}")


def peak() -> int:
    """Peak memory of this process so far, in MiB; rusage would include the process that started it."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) // 1024 if found else 0


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stages", nargs="+", choices=INPUTS, default=list(INPUTS))
    parser.add_argument("--rollouts", nargs="+", type=int, default=[100_000, 5_000_000])
    parser.add_argument("--measure", type=Path, help="measure one stage on the files in this folder, in this process")
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.stages[0], arguments.measure)
        return
    print("| stage | rollouts | seconds | MiB at the start | peak MiB | times |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for stage in arguments.stages:
        first = None
        for rows in arguments.rollouts:
            with tempfile.TemporaryDirectory() as folder:
                {REHEARSE: make_stored, AUDIT: make_run}.get(stage, partial(make, stage))(rows, Path(folder))
                command = [sys.executable, __file__, "--stages", stage, "--measure", folder]
                result = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            before, after, seconds = result.split()
            first = first or int(after)
            print(f"| {stage} | {rows:,} | {seconds} | {before} | {after} | {int(after) / first:.2f} |", flush=True)


if __name__ == "__main__":
    main()
