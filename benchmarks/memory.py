"""Peak memory of the stages that read rollouts, by their number: python benchmarks/memory.py

Each stage does what its script does, in a process of its own, on made-up files: a shard of rollouts to score and the
verdicts to divide by, eight for each prompt; one for each candidate to settle and to tensorise (4 + 12 tokens, a model
of one layer), and as many stored responses to rehearse. `times` is the peak as a multiple of that of the first number.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from dphrl.artifacts import SCHEMAS, Stage, code_digest
from dphrl.artifacts.streams import PART, by_prompts, scan, write_parts
from dphrl.config.partition import PartitionConfig
from dphrl.partition import candidates, refine
from dphrl.scoring import MathScorer, score_rollouts

if TYPE_CHECKING:
    from dphrl.model import LogProbs

SAMPLES, PROMPT, RESPONSE, VOCABULARY = 8, 4, 12, 500
STEPS, REHEARSED, TOKEN_BUDGET = 50, 64, 1 << 14
RULES = PartitionConfig(pef_min_correct=SAMPLES)
NULLS = ("extracted", "answer_class", "program_class", "detail", "level")
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
REHEARSE = "rehearse"
WITH_TORCH = ("tensorise", REHEARSE)
# By stage its tables, each with the number of rows per prompt.
INPUTS: dict[str, dict[str, int]] = {
    "score": {"rollouts": SAMPLES, "gold": 1},
    "find_candidates": {"verdicts": SAMPLES, "gold": 1},
    "refine": {"partition": 1, "verdicts": 1},
    "tensorise": {"partition": 1, "prompts": 1, "rollouts": 1},
    REHEARSE: {},
}


def made(schema: str, prompts: int, samples: int) -> Iterator[pl.DataFrame]:
    """A table with `samples` rows for each prompt, in parts; of the rollouts' answers one in 50 is right."""
    columns = SCHEMAS[schema].columns
    same = SAME | {"reason": None if schema == "gold" else "near-perfect"}
    for start in range(0, prompts * samples, PART):
        row = np.arange(start, min(prompts * samples, start + PART))
        values: dict[str, Any] = {
            "prompt_id": pl.Series(row // samples).cast(pl.String).str.zfill(8),
            "sample_index": row % samples,
            "seed": row,
            "token_ids": (row[:, None] + np.arange(RESPONSE)) % VOCABULARY,
            "prompt_token_ids": (row[:, None] + np.arange(PROMPT)) % VOCABULARY,
            "sampler_logprobs": -(row[:, None] % np.arange(1, RESPONSE + 1)) / 16,
            "text": "#### " + pl.Series(row * 7919 % 50).cast(pl.String),
            "source_index": row,
            "row": row,
            "start": row * (PROMPT + RESPONSE),
            "response_start": row * RESPONSE,
        }
        own = {name: pl.Series(value) for name, value in values.items() if name in columns}
        lists = {name: series.arr.to_list() if series.dtype == pl.Array else series for name, series in own.items()}
        yield pl.DataFrame(lists).with_columns(pl.lit(same[name]).alias(name) for name in columns if name not in own)


def make(stage: str, rows: int, folder: Path) -> None:
    """The stage's input files, named after their schemas."""
    prompts = rows // max(INPUTS[stage].values())
    for schema, samples in INPUTS[stage].items():
        write_parts(job(stage), made(schema, prompts, samples), schema, str(folder / f"{schema}.parquet"))


def make_stored(rows: int, folder: Path) -> None:
    """As many stored responses."""
    from dphrl.reference import save_parts

    index = save_parts(
        ((zeros(part.height), part) for part in made("reference_index", rows, 1)), folder / "responses.safetensors"
    )
    write_parts(job("tensorise"), index, "reference_index", str(folder / "index.parquet"))


def zeros(rows: int) -> dict[str, np.ndarray]:
    """The tensors of that many stored responses."""
    return {
        "token_ids": np.zeros(rows * (PROMPT + RESPONSE), np.int32),
        "logprobs": np.zeros(rows * RESPONSE, np.float32),
    }


def job(name: str) -> Stage:
    """A stage of that name, of no code and no config."""
    return Stage(name, [], [], code_digest([]), "{}")


def work(stage: str, folder: Path) -> None:
    """What the stage's script does."""
    own, out = job(stage), str(folder / "out.parquet")
    tables = by_prompts(*(scan(own, schema, str(folder / f"{schema}.parquet")) for schema in INPUTS[stage]))
    if stage == "score":
        with MathScorer(answer="final") as scorer:
            write_parts(own, (score_rollouts(drawn, gold, scorer) for drawn, gold in tables), "verdicts", out)
    elif stage == "find_candidates":
        write_parts(own, (candidates(gold, judged, SAMPLES, RULES) for judged, gold in tables), "partition", out)
    elif stage == "refine":
        write_parts(own, (refine(divided, judged, RULES) for divided, judged in tables), "partition", out)
    else:
        from dphrl.reference import reference_rows, save_parts, tensorise_parts

        parts = tensorise_parts((reference_rows(*three) for three in tables), policy(), TOKEN_BUDGET)
        write_parts(own, save_parts(parts, folder / "out.safetensors"), "reference_index", out)


def policy() -> LogProbs:
    """A model of one layer."""
    from transformers import LlamaConfig, LlamaForCausalLM

    from dphrl.model import LogProbs

    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 1, "num_hidden_layers": 1}
    return LogProbs(LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY, **sizes)))


def rehearse(folder: Path) -> None:
    """Open the stored responses and read some, as training does at each step."""
    from dphrl.reference import load

    stored, generator = load(folder / "responses.safetensors"), np.random.default_rng(0)
    for _ in range(STEPS):
        stored.rows(generator.integers(0, len(stored), REHEARSED).tolist())


def measure(stage: str, folder: Path) -> None:
    """Do the work and print the peak of this process, MiB, before and after, and the seconds."""
    if stage in WITH_TORCH:
        import dphrl.reference  # noqa: F401
    before, start = peak(), time.perf_counter()
    rehearse(folder) if stage == REHEARSE else work(stage, folder)
    print(before, peak(), f"{time.perf_counter() - start:.1f}")


def peak() -> int:
    """Peak memory of this process so far, MiB; rusage would count the process that started it too."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) // 1024 if found else 0


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stages", nargs="+", choices=INPUTS, default=list(INPUTS))
    parser.add_argument("--rollouts", nargs="+", type=int, default=[100_000, 5_000_000])
    parser.add_argument("--measure", type=Path, help="do the one stage on the files of this folder, in this process")
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
                make_stored(rows, Path(folder)) if stage == REHEARSE else make(stage, rows, Path(folder))
                command = [sys.executable, __file__, "--stages", stage, "--measure", folder]
                result = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            before, after, seconds = result.split()
            first = first or int(after)
            print(f"| {stage} | {rows:,} | {seconds} | {before} | {after} | {int(after) / first:.2f} |", flush=True)


if __name__ == "__main__":
    main()
