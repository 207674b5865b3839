"""The sampling stage against vLLM's own `LLM.generate`: same prompts, one process, alternating, as a Markdown table.

python dev/benchmarks/sampling.py results/demo

`seeded` asks for what the stage records: a seed for each response and the log-probs of its tokens, without texts.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import polars as pl

from dphrl.artifacts.tables import read_footer, read_table
from dphrl.config.blocks.sampling import EngineConfig, HardwareConfig, PlanConfig
from dphrl.rollout.engine import Engine, make_engine
from dphrl.rollout.requests import Request, SamplingPlan, shard
from dphrl.rollout.sampling import Parts

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("run", type=Path, help="folder of a finished run, e.g. results/demo")
parser.add_argument("--prompts", type=int, default=100, help="number of prompts of the first evaluation set")
parser.add_argument("--repeats", type=int, default=5)
given = parser.parse_args()


def requests_of(run: Path) -> tuple[EngineConfig, list[Request]]:
    """The engine block and the requests of the base policy on an evaluation set, without the greedy ones."""
    table = next(iter(sorted((run / "rollouts/base").glob("*.evaluate/0.parquet"))), None)
    if table is None:
        raise SystemExit(f"{run}: no samples of the base policy in it; give the folder of a finished run")
    config = read_footer(table)["config"]
    dataset = table.parent.name.partition(".")[0]
    prompts = read_table(run / f"prompts/{dataset}.parquet", "prompts").head(given.prompts)
    plan = PlanConfig(**config["plan"]).model_copy(update={"greedy": False})
    return EngineConfig(**config["engine"]), SamplingPlan("evaluate", plan, 1).requests(shard(prompts, 0, 1))


def stage(engine: Engine, requests: Sequence[Request]) -> Callable[[], int]:
    """What the sampling stage does between the start of its engine and its end; the result is the tokens drawn."""

    def draw() -> int:
        with tempfile.TemporaryDirectory() as folder:
            parts, tokens = Parts(requests, Path(folder, "rollouts.parquet"), {}), 0
            for number in parts.missing():
                completions = engine.generate(parts.requests[number], "benchmark")
                tokens += sum(len(completion.token_ids) for completion in completions)
                parts.write(number, completions)
            return tokens

    return draw


def vllm(llm: Any, requests: Sequence[Request], ends: list[int], seeded: bool, **options: Any) -> Callable[[], int]:
    """`LLM.generate` on prompts and parameters that are made before."""
    from vllm import SamplingParams, TokensPrompt

    prompts = [TokensPrompt(prompt_token_ids=list(one.prompt_token_ids)) for one in requests]
    shared = {**options, "stop_token_ids": ends}
    params = [
        SamplingParams(
            temperature=one.temperature,
            top_p=one.top_p,
            max_tokens=one.max_tokens,
            seed=one.seed if seeded else None,
            **shared,
        )
        for one in requests
    ]

    def draw() -> int:
        outputs = llm.generate(prompts, params, use_tqdm=False)
        return sum(len(output.outputs[0].token_ids) for output in outputs)

    return draw


def measure(draws: dict[str, Callable[[], int]]) -> pl.DataFrame:
    """Tokens per second of each, alternating; by the clock, and by the CPU time of this process."""
    rows = []
    for repeat in range(given.repeats + 1):
        for name, draw in draws.items():
            wall, cpu = time.perf_counter(), time.process_time()
            tokens = draw()
            seconds = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
            if repeat:  # the first of each warms up
                rows.append({"name": name, **{clock: tokens / spent for clock, spent in seconds.items()}})
    return pl.DataFrame(rows)


block, requests = requests_of(given.run)
folder, hardware = given.run / "policies/base", HardwareConfig(kv_cache_gib=1)
engines: dict[str, Any] = {
    name: make_engine(folder, block.model_copy(update={"name": name}), hardware) for name in ("vllm", "transformers")
}
llm, ends = engines["vllm"]._llm, sorted(engines["vllm"]._ends)
recorded = {"logprobs": 0, "flat_logprobs": True, "detokenize": False}
rates = measure(
    {
        "this, vllm": stage(engines["vllm"], requests),
        "LLM.generate, seeded": vllm(llm, requests, ends, seeded=True, **recorded),
        "LLM.generate, bare without texts": vllm(llm, requests, ends, seeded=False, detokenize=False),
        "LLM.generate, bare": vllm(llm, requests, ends, seeded=False),
        "this, transformers": stage(engines["transformers"], requests),
    }
)
first = rates.filter(name="this, vllm")
print(f"{len(requests)} responses, {given.repeats} repeats, medians; ratios are of repeats next to each other\n")
print("| variant | tokens/s | tokens per CPU second | this / variant | by CPU time |")
print("| --- | ---: | ---: | ---: | ---: |")
for (name,), found in rates.group_by("name", maintain_order=True):
    speeds = [median(found[clock]) for clock in ("wall", "cpu")]
    ratios = [median((first[clock] / found[clock]).to_list()) for clock in ("wall", "cpu")]
    print(f"| {name} | {speeds[0]:.0f} | {speeds[1]:.0f} | {ratios[0]:.3f} | {ratios[1]:.3f} |")
