"""How fast training is, on a CPU, as Markdown tables: python dev/benchmarks/training.py [--peer-python trl/bin/python]

1. Whole GRPO steps (generate, score, train, push) with each engine, and with Hugging Face TRL's GRPOTrainer if
   --peer-python names the interpreter of its environment (dev/benchmarks/trl_peer.py explains how to make that).
   --ranks 2 has two processes on either side, which share the threads. --language has a model of the sizes of
   SmolLM2-135M in bfloat16, with float32 for weights and optimizer, and the transformers engine.
2. One update of each method against GRPO's with the same rollouts, for one process and the tiny model.

The tiny model is a random Llama of 2.9 M parameters (4 layers of width 256, vocabulary 512, untied, float32). Prompts
are random, and responses have a fixed length because the model cannot draw the end token. Both sides make one AdamW
update per step, without a reference model. Seconds are medians after a first step that warms up.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from transformers import LlamaConfig, LlamaForCausalLM
from word_tokenizer import write_word_tokenizer

from dphrl.config.blocks.sampling import EngineConfig, HardwareConfig
from dphrl.config.blocks.training import MethodConfig, TrainConfig
from dphrl.machine.progress import send_to
from dphrl.policy.batch import Row
from dphrl.policy.collectives import rank, start_process_group
from dphrl.policy.engine import Engine
from dphrl.policy.engines import make_engine
from dphrl.policy.logprobs import LogProbs, load_model, response_topk
from dphrl.policy.ranks import run_ranks
from dphrl.scoring.verdict import Verdict
from dphrl.training.loss import Example
from dphrl.training.rollouts import OnlinePrompt
from dphrl.training.segment import Segment
from dphrl.training.trainer import Trainer

LR = 1e-6
# Prompts have these token ids in all models.
VOCABULARY = 512
TOP_K = 16
PARTS = ("generate", "score", "train", "push", "other")
GRPO = MethodConfig(rollout_on="all")
METHODS = {
    "grpo": GRPO,
    "exp_only": MethodConfig(),
    "dph_f": MethodConfig(divergence="forward_kl"),
    "dph_js": MethodConfig(divergence="js"),
    "alpha": MethodConfig(divergence="alpha"),
    f"dph_js, top-{TOP_K}": MethodConfig(divergence="js", topk_estimator="sum"),
    "js_definition": MethodConfig(divergence="js_definition"),
    "rkl": MethodConfig(divergence="reverse_kl"),
}

Seconds = dict[str, float]


class Shape(NamedTuple):
    """A step: prompts, responses per prompt, tokens per prompt and per response."""

    prompts: int
    responses: int
    prompt: int
    response: int

    def __str__(self) -> str:
        return f"{self.prompts} x {self.responses} of {self.prompt}+{self.response}"


class Model(NamedTuple):
    """Sizes and dtype of the model, the engines to time, and tokens per pass: of this trainer, and those tried for TRL.

    The better time of TRL counts.
    """

    vocabulary: int
    width: int
    layers: int
    feed_forward: int
    heads: int
    key_heads: int
    tied: bool
    dtype: Literal["float32", "bfloat16"]
    engines: tuple[Literal["vllm", "transformers"], ...]
    token_budget: int
    peer_budgets: tuple[int, ...]


TINY = Model(VOCABULARY, 256, 4, 512, 4, 4, False, "float32", ("vllm", "transformers"), 4096, (4096, 16384))
LANGUAGE = Model(49_152, 576, 30, 1536, 9, 3, True, "bfloat16", ("transformers",), 1024, (2048,))


class Peer(NamedTuple):
    """How to run TRL: interpreter, processes, threads of each, and environment variables."""

    python: str
    ranks: int
    threads: int
    environment: dict[str, str]

    def command(self, *arguments: str) -> list[str]:
        """The command of TRL's program, under torchrun if there are several processes."""
        several = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(self.ranks)]
        program = [str(Path(__file__).with_name("trl_peer.py")), *arguments]
        return [self.python, *(several if self.ranks > 1 else []), *program]


# The methods are measured at the first shape, with one stored response per prompt.
SHAPES: tuple[Shape, ...] = (Shape(8, 8, 150, 60), Shape(4, 16, 600, 60), Shape(16, 16, 35, 20))
# The second has long prompts.
LANGUAGE_SHAPES: tuple[Shape, ...] = (Shape(8, 8, 100, 40), Shape(8, 8, 350, 40))
SMALL: tuple[Shape, ...] = (Shape(2, 2, 8, 4),)


def write_policy(folder: Path, model: Model) -> None:
    """Write the model and its tokenizer."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=model.vocabulary,
        hidden_size=model.width,
        intermediate_size=model.feed_forward,
        num_hidden_layers=model.layers,
        num_attention_heads=model.heads,
        num_key_value_heads=model.key_heads,
        max_position_embeddings=1024,
        tie_word_embeddings=model.tied,
        bos_token_id=None,
        eos_token_id=None,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    write_word_tokenizer(folder, model.vocabulary)


def random_tokens(count: int, length: int) -> list[list[int]]:
    """Random sequences of tokens; every call returns the same."""
    chance = random.Random(0)
    return [chance.choices(range(VOCABULARY), k=length) for _ in range(count)]


def random_rows(shape: Shape) -> list[Row]:
    """The rows of a step."""
    prompts = random_tokens(shape.prompts, shape.prompt)
    responses = random_tokens(shape.prompts * shape.responses, shape.response)
    return [Row(prompts[i // shape.responses], response) for i, response in enumerate(responses)]


def parity(texts: Sequence[str], *_: Sequence[Any]) -> list[Verdict]:
    """Verdicts: a text of odd length is correct."""
    odd = [bool(len(text) % 2) for text in texts]
    return [Verdict("correct" if right else "wrong", right, float(right)) for right in odd]


def make_trainer(policy: Path, shape: Shape, model: Model, method: MethodConfig = GRPO) -> Trainer:
    """A trainer of the model with a new optimizer."""
    config = TrainConfig(
        prompts_per_step=shape.prompts,
        rollouts_per_prompt=shape.responses,
        mini_batches=1,
        max_tokens=shape.response,
        lr=LR,
        dtype=model.dtype,
    )
    hardware = HardwareConfig(token_budget=model.token_budget)
    reference = load_model(policy, model.dtype) if method.needs_reference_model else None
    return Trainer(load_model(policy, model.dtype), config, hardware, method, reference_model=reference)


def differences(marks: Sequence[Seconds]) -> list[Seconds]:
    """The increase of the clock and of the parts' seconds in each step but the first."""
    return [{part: after[part] - before.get(part, 0.0) for part in after} for before, after in pairwise(marks)]


def medians(steps: Sequence[Seconds]) -> Seconds:
    """The median of the whole step and of each part; `other` is the rest of the step."""
    parts = [{**step, "other": 2 * step["step"] - sum(step.values())} for step in steps]
    return {part: statistics.median(step.get(part, 0.0) for step in parts) for part in ("step", *PARTS)}


def our_steps(policy: Path, engine: Engine, shape: Shape, steps: int, model: Model) -> Seconds:
    """Seconds of a step and its parts."""
    trainer = make_trainer(policy, shape, model)
    engine.wake(trainer.named_weights())  # after another shape it sleeps
    prompts = random_tokens(steps * shape.prompts, shape.prompt)
    marks: list[Seconds] = []
    segment = Segment(
        trainer,
        engine,
        [OnlinePrompt(str(i), tokens, False, {}) for i, tokens in enumerate(prompts)],
        None,
        parity,
        trainer.config,
        trainer.method,
        seed=0,
        track=lambda *_: marks.append({"step": time.perf_counter(), **segment.seconds}),
    )
    segment.run(1, steps, f"{shape}")
    return medians(differences(marks))


def peer_steps(peer: Peer, policy: Path, shape: Shape, steps: int, budget: int, dtype: str) -> Seconds:
    """Seconds of TRL's step and its parts; `train` is all but generation and rewards, as TRL has no push."""
    prompts = random_tokens(steps * shape.prompts, shape.prompt)
    within_budget = budget // (shape.prompt + shape.response)
    job = {
        "model": str(policy),
        "folder": str(policy / "trl"),
        "prompts": [" ".join(f"t{token}" for token in tokens) for tokens in prompts],
        "responses": shape.responses,
        "tokens": shape.response,
        "steps": steps,
        # It takes divisors of the number of rows alone, and these are powers of two.
        "batch": min(1 << within_budget.bit_length() - 1, shape.prompts * shape.responses // peer.ranks),
        "lr": LR,
        "threads": peer.threads,
        "dtype": dtype,
    }
    (file := policy / "trl.json").write_text(json.dumps(job))
    done = subprocess.run(peer.command(str(file)), capture_output=True, text=True, env=peer.environment)
    if done.returncode:
        raise SystemExit(f"{peer.python} dev/benchmarks/trl_peer.py failed:\n{done.stderr[-2000:]}")
    steps_taken = differences(json.loads(done.stdout.splitlines()[-1]))
    return medians([{**step, "train": step["step"] - step["generate"] - step["score"]} for step in steps_taken])


def whole_steps(policy: Path, model: Model, shapes: Sequence[Shape], steps: int, peer: Peer | None) -> Seconds:
    """Print table 1; returns the seconds of a step's parts with the first engine at the first shape."""
    print(f"| step | by | seconds | {' | '.join(PARTS)} | TRL / this |")
    print(f"| --- | --- | {'---: | ' * (len(PARTS) + 2)}".rstrip())
    engines = {
        name: make_engine(
            policy,
            EngineConfig(name=name, dtype=model.dtype, max_model_len=1024),
            HardwareConfig(kv_cache_gib=1),
            distributed=True,
        )
        for name in model.engines
    }
    first: Seconds = {}
    for shape in shapes:
        by_program: dict[str, Seconds] = {}
        for name, engine in engines.items():
            with redirect_stdout(sys.stderr):  # DeepSpeed prints what it allocates
                by_program[name] = our_steps(policy, engine, shape, steps, model)
        if peer:
            theirs = [peer_steps(peer, policy, shape, steps, budget, model.dtype) for budget in model.peer_budgets]
            by_program["TRL"] = min(theirs, key=lambda seconds: seconds["step"])
        for by, seconds in by_program.items():
            parts = " | ".join(f"{seconds[part]:.3f}" for part in PARTS)
            ratio = f"{by_program['TRL']['step'] / seconds['step']:.1f}" if peer else ""
            print(f"| {shape} | {by} | {seconds['step']:.2f} | {parts} | {ratio} |", flush=True)
        first = first or by_program[model.engines[0]]
    return first


def updates(trainers: Mapping[str, Trainer], rows: Sequence[Row], stored: Sequence[Example], repeats: int) -> Seconds:
    """Seconds of an update by each trainer on these rollouts, with `stored` if its method rehearses.

    The trainers take turns, so that other work on the machine slows all of them.
    """
    seconds: dict[str, list[float]] = {name: [] for name in trainers}
    for _ in range(repeats + 1):
        for name, trainer in trainers.items():
            start = time.perf_counter()
            update(trainer, rows, stored)
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values[1:]) for name, values in seconds.items()}


def update(trainer: Trainer, rows: Sequence[Row], stored: Sequence[Example]) -> None:
    """The training part of a step."""
    needed = trainer.method.needs_reference_model
    reference = trainer.reference_logprobs(rows) if needed else [None] * len(rows)
    rollouts = [
        Example(row, advantage=(-1.0) ** i, reference=of_row)
        for i, (row, of_row) in enumerate(zip(rows, reference, strict=True))
    ]
    trainer.update([*rollouts, *(stored if trainer.method.rehearses else [])], LR)


def stored_examples(policy: Path, shape: Shape) -> list[Example]:
    """One stored response for each prompt of a step, with the model's log-probs."""
    rows = random_rows(shape._replace(responses=1))
    likeliest_tokens = response_topk(LogProbs(load_model(policy, "float32")), rows, TINY.token_budget, TOP_K)
    return [
        Example(row, rehearsal=True, reference=logprobs, topk=(ids, likeliest))
        for row, (logprobs, ids, likeliest) in zip(rows, likeliest_tokens, strict=True)
    ]


def methods_table(policy: Path, shape: Shape, repeats: int, step: Seconds) -> None:
    """Print table 2.

    Args:
        step: seconds of the parts of a whole GRPO step of this shape.
    """
    stored, rows = stored_examples(policy, shape), random_rows(shape)
    trainers = {name: make_trainer(policy, shape, TINY, method) for name, method in METHODS.items()}
    seconds = updates(trainers, rows, stored, repeats)
    around = step["step"] - step["train"]
    print(f"\nRollouts: {shape}; stored responses: {len(stored)}; ratios to GRPO\n")
    print("| method | update, s | ratio | whole step |")
    print("| --- | ---: | ---: | ---: |")
    for name in METHODS:
        whole = (around + seconds[name]) / (around + seconds["grpo"])
        print(f"| {name} | {seconds[name]:.2f} | {seconds[name] / seconds['grpo']:.2f} | {whole:.2f} |", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", help="interpreter of an environment that holds TRL")
    parser.add_argument("--threads", type=int, default=2, help="threads of either side (default 2)")
    parser.add_argument("--ranks", type=int, default=1, help="processes of either side (default 1)")
    parser.add_argument("--repeats", type=int, default=3, help="steps to take the median of (default 3)")
    parser.add_argument("--small", action="store_true", help="tiny steps, only to see that the benchmark runs")
    parser.add_argument("--language", action="store_true", help="a model of SmolLM2-135M's sizes in bfloat16")
    arguments = parser.parse_args()
    model, shapes = (LANGUAGE, LANGUAGE_SHAPES) if arguments.language else (TINY, SHAPES)
    shapes = SMALL if arguments.small else shapes
    ranks, threads = arguments.ranks, arguments.threads // arguments.ranks
    if ranks > 1 and "RANK" not in os.environ:
        torch.set_num_threads(arguments.threads)
        send_to(sys.stdout)
        run_ranks(ranks, [__file__, *sys.argv[1:]])
        return
    os.environ |= {"OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}
    peer = Peer(arguments.peer_python, ranks, threads, dict(os.environ)) if arguments.peer_python else None
    with tempfile.TemporaryDirectory() as folder:
        policy = Path(folder)
        # Before the process group starts: within one, transformers writes on the first rank only.
        write_policy(policy, model)
        start_process_group()
        if rank():
            # Only the first rank prints and runs TRL; the others wait in the next step.
            peer, sys.stdout = None, open(os.devnull, "w")  # noqa: SIM115
        torch.set_num_threads(threads)
        step = whole_steps(policy, model, shapes, arguments.repeats + 1, peer)
        if ranks == 1 and model is TINY:
            methods_table(policy, shapes[0], arguments.repeats, step)


if __name__ == "__main__":
    main()
