"""How fast training is, on a CPU, as a Markdown table: python dev/benchmarks/training.py [--peer-python trl/bin/python]

Whole GRPO steps (generate, score, train, push) with each engine, and with Hugging Face TRL's GRPOTrainer if
--peer-python names the interpreter of its environment (dev/benchmarks/trl_peer.py explains how to make that).
--language has a model of the sizes of SmolLM2-135M in bfloat16, with float32 for weights and optimizer, and the
transformers engine.

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
from collections.abc import Sequence
from contextlib import redirect_stdout
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from transformers import LlamaConfig, LlamaForCausalLM
from word_tokenizer import write_word_tokenizer

from dphrl.config.blocks.sampling import EngineConfig, HardwareConfig
from dphrl.config.blocks.training import MethodConfig, TrainConfig
from dphrl.policy.collectives import start_process_group
from dphrl.policy.engine import Engine
from dphrl.policy.engines import make_engine
from dphrl.policy.logprobs import load_model
from dphrl.scoring.verdict import Verdict
from dphrl.training.rollouts import OnlinePrompt
from dphrl.training.segment import Segment
from dphrl.training.trainer import Trainer

LR = 1e-6
# Prompts have these token ids in all models.
VOCABULARY = 512
PARTS = ("generate", "score", "train", "push", "other")
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


def parity(texts: Sequence[str], *_: Sequence[Any]) -> list[Verdict]:
    """Verdicts: a text of odd length is correct."""
    odd = [bool(len(text) % 2) for text in texts]
    return [Verdict("correct" if right else "wrong", right, float(right)) for right in odd]


def make_trainer(policy: Path, shape: Shape, model: Model) -> Trainer:
    """A trainer of the model with a new optimizer."""
    config = TrainConfig(
        prompts_per_step=shape.prompts,
        rollouts_per_prompt=shape.responses,
        mini_batches=1,
        max_tokens=shape.response,
        lr=LR,
        dtype=model.dtype,
    )
    hardware, method = HardwareConfig(token_budget=model.token_budget), MethodConfig(rollout_on="all")
    return Trainer(load_model(policy, model.dtype), config, hardware, method, reference_model=None)


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


def peer_steps(python: str, policy: Path, shape: Shape, steps: int, budget: int, dtype: str) -> Seconds:
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
        "batch": min(1 << within_budget.bit_length() - 1, shape.prompts * shape.responses),
        "lr": LR,
        "threads": torch.get_num_threads(),
        "dtype": dtype,
    }
    (file := policy / "trl.json").write_text(json.dumps(job))
    command = [python, str(Path(__file__).with_name("trl_peer.py")), str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{python} dev/benchmarks/trl_peer.py failed:\n{done.stderr[-2000:]}")
    steps_taken = differences(json.loads(done.stdout.splitlines()[-1]))
    return medians([{**step, "train": step["step"] - step["generate"] - step["score"]} for step in steps_taken])


def whole_steps(policy: Path, model: Model, shapes: Sequence[Shape], steps: int, peer: str | None) -> None:
    """Print the table.

    Args:
        peer: the interpreter of TRL's environment.
    """
    head = f"| step | by | seconds | {' | '.join(PARTS)} | TRL / this |"
    lines = [head, f"| --- | --- | {'---: | ' * (len(PARTS) + 2)}".rstrip()]
    engines = {
        name: make_engine(
            policy,
            EngineConfig(name=name, dtype=model.dtype, max_model_len=1024),
            HardwareConfig(kv_cache_gib=1),
            distributed=True,
        )
        for name in model.engines
    }
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
            lines.append(f"| {shape} | {by} | {seconds['step']:.2f} | {parts} | {ratio} |")
    print("\n".join(lines))  # at last, because vLLM prints too


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", help="interpreter of an environment that holds TRL")
    parser.add_argument("--threads", type=int, default=2, help="threads of either side (default 2)")
    parser.add_argument("--repeats", type=int, default=3, help="steps to take the median of (default 3)")
    parser.add_argument("--small", action="store_true", help="tiny steps, only to see that the benchmark runs")
    parser.add_argument("--language", action="store_true", help="a model of SmolLM2-135M's sizes in bfloat16")
    arguments = parser.parse_args()
    model, shapes = (LANGUAGE, LANGUAGE_SHAPES) if arguments.language else (TINY, SHAPES)
    os.environ |= {"OMP_NUM_THREADS": str(arguments.threads), "HF_HUB_OFFLINE": "1"}
    torch.set_num_threads(arguments.threads)
    with tempfile.TemporaryDirectory() as folder:
        policy = Path(folder)
        write_policy(policy, model)
        start_process_group()
        whole_steps(policy, model, SMALL if arguments.small else shapes, arguments.repeats + 1, arguments.peer_python)


if __name__ == "__main__":
    main()
