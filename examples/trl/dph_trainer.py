"""DPH-RL in TRL: GRPO on the questions of D_exp, and a divergence on the stored responses of D_pef.

    .venv/bin/dphrl export results/demo --out demo-export
    .venv-trl/bin/python examples/trl/dph_trainer.py --config examples/trl/world.yaml --data demo-export \
        --model config/world-1 --output_dir out/dph-s1

requirements.txt has its environment, docs/with-your-trainer.md the settings that must match. Every option of TRL's
GRPOConfig is one of the command.
"""

import importlib.util
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from datasets import load_dataset
from torch import Tensor
from torch.nn.functional import cross_entropy
from trl import GRPOConfig, GRPOTrainer, TrlParser

from dphrl.objective.aggregation import Norm, component_weights
from dphrl.objective.divergences import Divergence, divergence
from dphrl.policy.batch import Row, collate
from dphrl.training.schedule import epoch_indices

# Any other value makes the loss another one.
EXPECTED = {
    "bf16": False,
    "fp16": False,
    "loss_type": "dapo",
    "temperature": 1.0,
    "delta": 3.0,
    "importance_sampling_level": "token",
    "beta": 0.0,
    "entropy_coef": 0.0,
    "top_entropy_quantile": 1.0,
    "mask_truncated_completions": False,
}


@dataclass(frozen=True)
class Rehearsal:
    """The stored responses of D_pef, and how they enter the loss.

    Attributes:
        rows: prompt and response of each, as token ids.
        logprobs: of each response's tokens under the base policy, float32 (tokens,).
        divergence: on samples of the reference: forward_kl, js or alpha.
        eta: weight of the divergence.
        norm: how the two means are joined (`train.rehearsal_norm`).
        per_step: stored responses of a step, over all processes.
        seed: of their order.
    """

    rows: Sequence[Row]
    logprobs: Sequence[Tensor]
    divergence: Divergence
    eta: float
    norm: Norm = "joint"
    per_step: int = 256
    seed: int = 1


class DPHTrainer(GRPOTrainer):
    """GRPO with rehearsal; one update per generation.

    Args:
        rehearsal: the stored responses.
        accepted: names in `EXPECTED` that may differ, where their effect is wanted.

    Raises:
        ValueError: another setting makes the loss another one, or the divergence is one on samples of the policy.
    """

    def __init__(self, *args: Any, rehearsal: Rehearsal, accepted: Collection[str] = (), **options: Any) -> None:
        super().__init__(*args, **options)
        self.rehearsal = rehearsal
        if rehearsal.divergence.samples != "reference":
            raise ValueError(f"{rehearsal.divergence.name} is on samples of the policy; use forward_kl, js or alpha")
        # The policy loss of a generation is divided by its tokens: with several updates each has a part of them.
        expected = EXPECTED | {"steps_per_generation": self.args.gradient_accumulation_steps}
        for name, value in expected.items():
            if name not in accepted and getattr(self.args, name) != value:
                raise ValueError(f"{name} is {getattr(self.args, name)!r}, the loss of DPH-RL needs {value!r}")

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Tensor:
        """TRL's policy loss of a micro-batch, plus the divergence on its share of the stored responses."""
        loss = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        if not self.model.training:
            return loss
        stored, parts, world = self.rehearsal, self.args.gradient_accumulation_steps, self.accelerator.num_processes
        # Passes over one generation rehearse the same responses.
        step = self.state.global_step // self.num_iterations + 1
        drawn = epoch_indices(stored.seed, "rehearsal", step, stored.per_step, len(stored.rows))
        rows = (self.args.generation_batch_size, len(drawn))
        tokens = (int(inputs["num_items_in_batch"]), sum(len(stored.rows[i].response) for i in drawn))
        weights = component_weights(rows, tokens, stored.eta, stored.norm)
        loss = weights.exploration * tokens[0] * loss
        mine = drawn[self.accelerator.process_index :: world][self._step % parts :: parts]
        if not mine:
            return loss
        batch = collate([stored.rows[i] for i in mine], self.accelerator.device)
        logits = model(input_ids=batch.input_ids, use_cache=False).logits.flatten(0, 1)[batch.predicts]
        logprobs = -cross_entropy(logits.float(), batch.targets, reduction="none")
        values = stored.divergence.value(logprobs - torch.cat([stored.logprobs[i] for i in mine]).to(logprobs))
        self._metrics["train"]["divergence"].append(values.mean().item())
        # Gradients are averaged over processes; the weights are for the sum.
        return loss + world * weights.rehearsal * values.sum()


@dataclass
class Settings:
    """Options next to those of GRPOConfig."""

    data: Path
    model: str
    divergence: Literal["forward_kl", "js", "alpha"] = "forward_kl"
    eta: float = 0.01
    norm: Literal["joint", "separate", "tokens"] = "joint"
    per_step: int = 256


def main() -> None:
    """Train, and write the policy to the output folder."""
    parser = TrlParser((Settings, GRPOConfig))
    # As in the paper; lr_scheduler_type constant_with_warmup would make the first update one of learning rate 0.
    parser.set_defaults(**EXPECTED, epsilon_high=0.28, lr_scheduler_type="constant", weight_decay=0.01)
    parser.set_defaults(save_strategy="no", report_to="none")
    settings, args = parser.parse_args_and_config()
    with (settings.data / "rehearsal.jsonl").open(encoding="utf-8") as file:
        stored = [json.loads(line) for line in file]
    rows = [Row(row["prompt_ids"], row["response_ids"]) for row in stored]
    logprobs = [torch.tensor(row["ref_logprobs"]) for row in stored]
    form = divergence(settings.divergence)
    spec = importlib.util.spec_from_file_location("reward", settings.data / "reward.py")
    judge = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(judge)
    questions = load_dataset("parquet", data_files=str(settings.data / "prompts.parquet"), split="train")
    if (settings.data / "chat_template.jinja").exists():
        # Plain prompts: TRL takes a text as it is. The template would be saved with the policy.
        questions = questions.map(lambda row: {"prompt": "".join(message["content"] for message in row["prompt"])})
    trainer = DPHTrainer(
        settings.model,
        judge.reward,
        args,
        questions,
        rehearsal=Rehearsal(rows, logprobs, form, settings.eta, settings.norm, settings.per_step, args.seed),
    )
    trainer.train()
    trainer.save_model(args.output_dir)


if __name__ == "__main__":
    main()
