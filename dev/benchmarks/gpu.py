"""What one GPU does with a real architecture, as Markdown tables: python dev/benchmarks/gpu.py [--engine transformers]

The model has the sizes of Qwen2.5-0.5B (or 1.5B) and random weights in bfloat16; nothing is downloaded. Whole GRPO
steps run as in a training job: push, canary, generate, sleep, update. Then the same update without prompt sharing, the
reference log-probs, and saving and loading the state.

1. Device memory at the peak of each phase, next to what `dphrl plan` plans.
2. Seconds and tokens per second, of the engine's start too; of the updates also the share of the device's own bfloat16
   matrix-product rate, with the definition below the table.

Without a GPU the memory is left out and --small is needed: it only shows that the program runs.
"""

import argparse
import os
import random
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM
from word_tokenizer import write_word_tokenizer

from dphrl.config.blocks.sampling import EngineConfig, HardwareConfig
from dphrl.config.blocks.training import MethodConfig, TrainConfig
from dphrl.plan.memory import GB, ModelShape, Setting, phases
from dphrl.policy.batch import Row
from dphrl.policy.collectives import start_process_group
from dphrl.policy.engine import Engine
from dphrl.policy.engines import make_engine
from dphrl.policy.logprobs import LogProbs, device_of_job, load_model, response_logprobs
from dphrl.policy.requests import Completion, Request
from dphrl.training.canary import Canary, WeightSync
from dphrl.training.loss import Example
from dphrl.training.trainer import Trainer

# The definition is also in docs/gpu.md.
SHARE = (
    "Share: six operations per parameter and token of an update, prompts included, divided by its seconds and by the"
    " measured matrix-product rate. Products in attention and recomputed ones are not counted."
)
METHOD, LR = MethodConfig(rollout_on="all"), 1e-6
# Of transformers' configuration class; the biases of q, k and v are those of every Qwen2.
_QWEN = {"vocab_size": 151_936, "tie_word_embeddings": True, "num_key_value_heads": 2, "max_position_embeddings": 4096}
MODELS = {
    "0.5B": {"hidden_size": 896, "num_hidden_layers": 24, "num_attention_heads": 14, "intermediate_size": 4864},
    "1.5B": {"hidden_size": 1536, "num_hidden_layers": 28, "num_attention_heads": 12, "intermediate_size": 8960},
    "small": {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128},
}


class Shape(NamedTuple):
    """A step: prompts, responses per prompt, tokens per prompt and per response, tokens of a pass."""

    prompts: int
    responses: int
    prompt: int
    response: int
    budget: int


@dataclass
class Meter:
    """Seconds, tokens and the peak of the device's memory in use, by part."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    tokens: dict[str, int] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    @contextmanager
    def part(self, name: str, tokens: int = 0) -> Iterator[None]:
        """Measure a part; a part that comes several times has the median of its seconds."""
        ended = threading.Event()
        watch = threading.Thread(target=self._watch, args=(name, ended))
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
            watch.start()
        started = time.perf_counter()
        try:
            yield
        finally:
            if torch.cuda.is_available():
                torch.cuda.synchronize()
                ended.set()
                watch.join()
        self.seconds[name].append(time.perf_counter() - started)
        self.tokens[name] = tokens
        print(f"{name}: {self.seconds[name][-1]:.2f} s, {self.bytes[name] / GB:.1f} GB", file=sys.stderr, flush=True)

    def _watch(self, name: str, ended: threading.Event) -> None:
        while not ended.wait(0.005):
            # Of the whole device: an engine's own allocator, the context and the caching allocator's blocks count.
            free, total = torch.cuda.mem_get_info()
            self.bytes[name] = max(self.bytes[name], total - free)


def write_policy(folder: Path, size: str) -> Qwen2Config:
    """Write the model and its tokenizer."""
    config = Qwen2Config(**{**_QWEN, **MODELS[size]}, bos_token_id=None, eos_token_id=None, dtype="bfloat16")
    torch.manual_seed(0)
    Qwen2ForCausalLM(config).bfloat16().save_pretrained(folder)
    write_word_tokenizer(folder, config.vocab_size)
    return config


def matmul_rate(size: int) -> float:
    """Floating-point operations per second of a square matrix product in bfloat16."""
    square = torch.randn(size, size, dtype=torch.bfloat16, device=device_of_job())
    for _ in range(3):
        square @ square
    repeats = 20
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(repeats):
        square @ square
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return repeats * 2 * size**3 / (time.perf_counter() - started)


def examples(prompts: list[list[int]], completions: list[Completion], shape: Shape) -> list[Example]:
    """The drawn responses with advantages of both signs."""
    rows = [Row(prompts[i // shape.responses], completion.token_ids) for i, completion in enumerate(completions)]
    sampled = [torch.tensor(completion.logprobs) for completion in completions]
    return [
        Example(row, old=logprobs, sampler=logprobs, advantage=1.0 - 2.0 * (i % 2))
        for i, (row, logprobs) in enumerate(zip(rows, sampled, strict=True))
    ]


def train(
    folder: Path,
    engine: Engine,
    hardware: HardwareConfig,
    prompts: list[list[int]],
    shape: Shape,
    steps: int,
    meter: Meter,
) -> None:
    """Whole steps, the update without sharing, and the state to disk and back."""
    config = TrainConfig(
        prompts_per_step=shape.prompts, rollouts_per_prompt=shape.responses, mini_batches=1, max_tokens=shape.response
    )
    start = Canary.of(prompts, config.dtype, engine.max_model_len).of_engine(engine)
    engine.sleep()
    with meter.part("start"):
        trainer = Trainer(load_model(folder, config.dtype), config, hardware, METHOD)
    sync = WeightSync(trainer, engine, None, prompts, start)
    for step in range(1, steps + 1):
        with meter.part("push and canary"):
            sync.push(step)
        requests = [
            Request(str(i), sample, tokens, 1000 * i + sample, 1.0, 1.0, shape.response)
            for i, tokens in enumerate(prompts)
            for sample in range(shape.responses)
        ]
        with meter.part("generating", len(requests) * shape.response):
            completions = engine.generate(requests)
        engine.sleep()
        batch = examples(prompts, completions, shape)
        with meter.part("training", len(batch) * shape.response):
            trainer.update(batch, LR)
    trainer.hardware = hardware.model_copy(update={"prompt_sharing": "off"})
    for _ in range(2):
        with meter.part("training, prompts not shared", len(batch) * shape.response):
            trainer.update(batch, LR)
    with meter.part("saving"):
        trainer.save_policy(folder / "saved")
        trainer.save_state(folder / "state")
    del trainer, sync
    with meter.part("loading"):
        Trainer(load_model(folder / "saved", config.dtype), config, hardware, METHOD, state=folder / "state")


def memory_table(meter: Meter, shape: ModelShape, hardware: HardwareConfig) -> None:
    """Print table 1."""
    planned = {phase.name: phase.total for phase in phases(shape, Setting(hardware))}
    planned["training"] = max(planned["training"], planned.pop("optimizer step"))
    print("| memory of the device, GB | planned | measured | measured / planned |")
    print("| --- | ---: | ---: | ---: |")
    for name, expected in planned.items():
        measured = meter.bytes.get(name)
        cells = f"{measured / GB:.1f} | {measured / expected:.2f}" if measured else "- | -"
        print(f"| {name} | {expected / GB:.1f} | {cells} |")


def speed_table(meter: Meter, shape: ModelShape, rate: float, computed: dict[str, int]) -> None:
    """Print table 2 and the definition of its shares."""
    print("\n| part | seconds | tokens per second | share of the matrix-product rate |")
    print("| --- | ---: | ---: | ---: |")
    for name, times in meter.seconds.items():
        seconds, tokens = sorted(times)[len(times) // 2], meter.tokens[name]
        share = 6 * shape.parameters * computed[name] / seconds / rate if name in computed else None
        cells = [f"{tokens / seconds:,.0f}" if tokens else "-", f"{share:.0%}" if share else "-"]
        print(f"| {name} | {seconds:.2f} | {' | '.join(cells)} |")
    print(f"\n{SHARE}")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=["vllm", "transformers"], default="vllm")
    parser.add_argument("--model", choices=["0.5B", "1.5B"], default="0.5B", help="sizes of Qwen2.5 (default 0.5B)")
    parser.add_argument("--small", action="store_true", help="a tiny model, only to see that the program runs")
    parser.add_argument("--steps", type=int, default=3, help="GRPO steps (default 3); a table has the median")
    options = parser.parse_args()
    if not (options.small or torch.cuda.is_available()):
        parser.error("no CUDA device, and a CPU would take hours: --small shows that the program runs")
    shape = Shape(2, 2, 24, 8, 256) if options.small else Shape(8, 16, 2000, 400, 32384)
    os.environ["HF_HUB_OFFLINE"] = "1"
    hardware = HardwareConfig(token_budget=shape.budget, kv_cache_gib=0.1 if options.small else 24)
    meter, chance = Meter(), random.Random(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = write_policy(folder, "small" if options.small else options.model)
        sizes = ModelShape.from_config(size.to_dict())
        if torch.cuda.is_available():
            planned = max(phase.total for phase in phases(sizes, Setting(hardware)))
            checkpointing = planned > torch.cuda.mem_get_info()[1]
            hardware = hardware.model_copy(update={"gradient_checkpointing": checkpointing})
        prompts = [chance.choices(range(size.vocab_size), k=shape.prompt) for _ in range(shape.prompts)]
        start_process_group()
        device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
        rate = matmul_rate(256 if options.small else 8192)
        print(f"{device}, torch {torch.__version__}, {options.engine}, {rate / 1e12:.3g} TFLOP/s in bfloat16")
        print(f"gradient checkpointing: {hardware.gradient_checkpointing}\n")
        module = LogProbs(load_model(folder, "bfloat16").to(device_of_job()))
        rows = [Row(tokens, tokens[: shape.response]) for tokens in prompts] * 4
        with meter.part("reference", sum(row.length for row in rows)):
            response_logprobs(module, rows, shape.budget)
        del module
        torch.cuda.empty_cache()  # the plan of an engine does not count it
        length = shape.prompt + shape.response
        settings = EngineConfig(name=options.engine, dtype="bfloat16", max_model_len=length)
        with meter.part("start of the engine"):
            engine = make_engine(folder, settings, hardware, distributed=True)
        with redirect_stdout(sys.stderr):  # DeepSpeed prints what it allocates
            train(folder, engine, hardware, prompts, shape, options.steps, meter)
        memory_table(meter, sizes, hardware)
        responses = shape.prompts * shape.responses
        shared = shape.prompts * shape.prompt + responses * shape.response
        computed = {"training": shared, "training, prompts not shared": responses * length}
        speed_table(meter, sizes, rate, computed)
    sys.stdout.flush()
    os._exit(0)  # an engine and a process group take seconds to end


if __name__ == "__main__":
    main()
