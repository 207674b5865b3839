"""Shared by the tests of training: settings, trainers, recorded rows, stored responses and access to gradients."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from deepspeed.utils import safe_get_full_optimizer_state
from stored_responses import store, table_of
from tiny_models import write_tokenizer
from torch import Tensor, nn
from transformers import AutoTokenizer

from dphrl.config.blocks.sampling import EngineConfig, HardwareConfig
from dphrl.config.blocks.training import MethodConfig, TrainConfig
from dphrl.policy.batch import Row
from dphrl.policy.collectives import start_process_group
from dphrl.policy.engine import Engine
from dphrl.policy.logprobs import LogProbs, load_model, response_logprobs
from dphrl.scoring.verdict import Verdict
from dphrl.training.loss import Example
from dphrl.training.reference import compute_here, load_reference
from dphrl.training.rollouts import OnlinePrompt
from dphrl.training.segment import Segment
from dphrl.training.stored_responses import ReferenceResponses
from dphrl.training.trainer import Trainer, Update

ONLINE = [f"shop: Q: how many of {i}?\nA: " for i in range(6)]
REHEARSED = [f"zoo: Q: which {i} are old?\nA: " for i in range(5)]
TOP_K = 4
ENGINE = EngineConfig(name="transformers", dtype="float32", max_model_len=256)
HARDWARE = HardwareConfig(max_num_seqs=16, kv_cache_gib=1)


@contextmanager
def process_group() -> Iterator[None]:
    """A process group of one process; the environment is restored, or later child processes would see its variables."""
    before, threads = dict(os.environ), torch.get_num_threads()
    torch.set_num_threads(1)
    start_process_group()
    yield
    torch.set_num_threads(threads)
    os.environ.clear()
    os.environ.update(before)


def write_moved_policy(base: Path, folder: Path) -> Path:
    """The policy as after much training: its log-ratios to the base policy are of order 1."""
    model = load_model(base, "float32")
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn(parameter.shape, generator=generator)
    model.save_pretrained(folder)
    write_tokenizer(folder)
    return folder


def train_config(**changes: Any) -> TrainConfig:
    settings: dict[str, Any] = {
        "steps": 4,
        "segment_steps": 2,
        "eval_every": 4,
        "prompts_per_step": 4,
        "rollouts_per_prompt": 4,
        "rehearsal_per_step": 4,
        "mini_batches": 2,
        "max_tokens": 12,
        "lr": 1e-3,
        "dtype": "float32",
        "rehearsal_norm": "separate",
    }
    return TrainConfig(**(settings | changes))


def hardware(**changes: Any) -> HardwareConfig:
    return HARDWARE.model_copy(update={"token_budget": 200, **changes})


def make_trainer(
    policy: Path,
    method: MethodConfig,
    base: Path | None = None,
    state: Path | None = None,
    kind: type[Trainer] = Trainer,
    **changes: Any,
) -> Trainer:
    """A trainer made like a segment makes it; changes are of the blocks `train` and `hardware`."""
    of_machine = hardware(**{key: changes.pop(key) for key in changes.keys() & HardwareConfig.model_fields})
    config = train_config(**changes)
    start = base if method.lora and base else policy
    reference = load_model(base or policy, config.dtype) if method.needs_reference_model else None
    model = load_model(start, config.dtype)
    return kind(model, config, of_machine, method, state=state, reference_model=reference, seed=1)


# With these Adam's first moment is the gradient itself, unclipped.
BARE = {"betas": (0.0, 0.999), "clip_grad_norm": 1e9}


def gradients(trainer: Trainer) -> dict[str, Tensor]:
    """The gradients that the optimizer of a trainer with `BARE` settings took in its last update."""
    return gradients_of(trainer.model, trainer._deepspeed)


def gradients_of(model: nn.Module, engine: Any) -> dict[str, Tensor]:
    """As `gradients`, of the model that a DeepSpeed engine trains."""
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if isinstance(engine.optimizer, torch.optim.AdamW):
        states = engine.optimizer.state
        return {name: states[parameter]["exp_avg"].clone() for name, parameter in parameters.items()}
    return {name: safe_get_full_optimizer_state(p, "exp_avg").clone() for name, p in parameters.items()}


def weights_of(trainer: Trainer) -> dict[str, Tensor]:
    return {name: weight.clone() for name, weight in trainer.named_weights()}


def equal(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> bool:
    """Whether two sets of tensors are bitwise equal."""
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def recorded_rows(policy: Path, base: Path) -> list[Example]:
    """Rows of both kinds in mixed order: five prompts with four rollouts each, and eight stored responses."""
    generator = torch.Generator().manual_seed(1)
    of_policy, of_base = (LogProbs(load_model(folder, "float32")) for folder in (policy, base))
    vocabulary = of_base.model.config.vocab_size

    def numbers(low: int, high: int, n: int) -> list[int]:
        return torch.randint(low, high, (n,), generator=generator).tolist()

    prompts = [numbers(3, vocabulary, length) for length in (3, 21, 8, 14, 5)]
    rows = [Row(prompt, numbers(3, vocabulary, n)) for prompt in prompts for n in numbers(1, 11, 4)]
    stored = [Row(numbers(3, vocabulary, 4 + i), numbers(3, vocabulary, 1 + i)) for i in range(8)]
    now = response_logprobs(of_policy, rows, 10_000)
    reference = response_logprobs(of_base, rows, 10_000)
    of_stored = compute_here(of_base, stored, of_base.plan(stored, 10_000, "off"), TOP_K)
    examples = []
    for i, (row, ours, theirs) in enumerate(zip(rows, now, reference, strict=True)):
        noise = torch.randn(len(ours), generator=generator)
        # Advantages of either sign, and ratios beyond every clip.
        advantage = (0.3 + i / 10) * (1 if i % 4 < 2 else -1)
        sampler = ours + 0.3 * torch.randn(len(ours), generator=generator)
        examples.append(Example(row, False, advantage, ours + 1.2 * noise if i % 2 else None, sampler, theirs))
    kept = [
        Example(row, rehearsal=True, reference=logprobs, topk=(ids.int(), values))
        for row, (logprobs, ids, values) in zip(stored, of_stored, strict=True)
    ]
    mixed = torch.randperm(28, generator=generator).tolist()
    return [[*examples, *kept][i] for i in mixed]


def write_reference(base: Path, folder: Path, dtype: str = "float32") -> ReferenceResponses:
    """Stored responses, where and in the precision in which a training computes its own log-probs."""
    tokenizer = AutoTokenizer.from_pretrained(base)
    texts = [(prompt, f"old {i}") for i, prompt in enumerate(REHEARSED)]
    rows = [Row(*(tokenizer(text)["input_ids"] for text in pair)) for pair in texts]
    return store(table_of(rows), load_reference(base, dtype, "auto"), TOP_K, folder)


def online_prompts(base: Path) -> list[OnlinePrompt]:
    tokenizer = AutoTokenizer.from_pretrained(base)
    return [OnlinePrompt(f"p{i}", tokenizer(text)["input_ids"], False, {"number": i}) for i, text in enumerate(ONLINE)]


@dataclass
class Judgement:
    """A verdict."""

    correct: bool
    reward: float
    reads_table: bool | None = None
    answer_class: str | None = None
    extracted: str | None = None


def likes_even(
    texts: Sequence[str], ground_truths: Sequence[Mapping[str, Any]], opened: Sequence[bool]
) -> Sequence[Verdict]:
    """A scorer: responses of even length to every second prompt are correct; the other prompts carry no signal."""
    liked = [len(text) % 2 == 0 and truth["number"] % 2 == 0 for text, truth in zip(texts, ground_truths, strict=True)]
    return [Judgement(right, float(right)) for right in liked]


def make_segment(
    trainer: Trainer, engine: Engine, base: Path, stored: ReferenceResponses | None = None, **options: Any
) -> Segment:
    """A segment made like a job makes it, on `ONLINE`; a method that rehearses gets the stored responses."""
    parts = {"prompts": online_prompts(base), "score": likes_even, "seed": 1} | options
    rehearsal = stored if trainer.method.rehearses else None
    return Segment(trainer, engine, rehearsal=rehearsal, config=trainer.config, method=trainer.method, **parts)


@dataclass
class Made:
    """The arguments and the result of an update, with the policy's log-probs before it."""

    examples: list[Example]
    before: list[Tensor]
    lr: float
    result: Update


class Recorder(Trainer):
    """A trainer that records its updates."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.made: list[Made] = []

    def update(self, examples: Sequence[Example], lr: float, *options: Any) -> Update:
        before = self.logprobs([example.row for example in examples])
        made = Made(list(examples), before, lr, super().update(examples, lr, *options))
        self.made.append(made)
        return made.result


class Deaf:
    """An engine that ignores pushed weights."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def wake(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        for _ in weights:
            pass
