"""Gradients of examples/trl, by the Python of an environment that has TRL: `trl_gradients.py CASES.json FOLDER`.

A case has the folder of the policy, rollouts with advantages and old log-probs in micro-batches, the stored responses,
and settings. Its gradient goes to FOLDER/<name>.safetensors; why the trainer refuses it, to FOLDER/<name>.txt.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from safetensors.torch import save_file
from torch import Tensor
from trl import GRPOConfig

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "trl"))
from dph_trainer import EXPECTED, DPHTrainer, Rehearsal

from dphrl.objective.divergences import divergence
from dphrl.policy.batch import Row


def gradient(case: dict[str, Any], folder: Path) -> dict[str, Tensor]:
    """The gradient of all parameters after the micro-batches of one update."""
    parts = case["rollouts"]
    args = GRPOConfig(
        output_dir=str(folder),
        report_to="none",
        use_cpu=True,
        gradient_checkpointing=False,
        per_device_train_batch_size=len(parts[0]),
        gradient_accumulation_steps=len(parts),
        num_generations=2,
        # With a second pass the trainer takes a micro-batch that it has already.
        num_iterations=2,
        **{**EXPECTED, "epsilon": 0.2, "epsilon_high": 0.28, **case["args"]},
    )
    stored = Rehearsal(
        [Row(row["prompt_ids"], row["response_ids"]) for row in case["stored"]],
        [torch.tensor(row["ref_logprobs"]) for row in case["stored"]],
        divergence(case["divergence"], **case["options"]),
        case["eta"],
        case["norm"],
        case["per_step"],
        case["seed"],
    )
    data = Dataset.from_list([{"prompt": "a"}] * 64)
    judge = lambda completions, **_: [0.0] * len(completions)  # noqa: E731 - TRL asks for a name
    trainer = DPHTrainer(case["policy"], judge, args, data, rehearsal=stored, accepted=case["accepted"])
    total = sum(len(row["response"]) for part in parts for row in part)
    trainer._buffered_inputs = [{**_padded(part), "num_items_in_batch": torch.tensor(total)} for part in parts]
    trainer._step = trainer.current_gradient_accumulation_steps = len(parts)
    for _ in parts:
        trainer.training_step(trainer.model, {}, None)
    return {name: parameter.grad for name, parameter in trainer.model.named_parameters()}


def _padded(rows: list[dict[str, Any]]) -> dict[str, Tensor]:
    """A micro-batch as TRL makes it: prompts padded on the left, responses on the right."""
    before, after = (max(len(row[key]) for row in rows) for key in ("prompt", "response"))

    def left(values: list[int]) -> list[int]:
        return [0] * (before - len(values)) + values

    def right(values: list[Any]) -> list[Any]:
        return values + [0] * (after - len(values))

    made = {
        "prompt_ids": torch.tensor([left(row["prompt"]) for row in rows]),
        "prompt_mask": torch.tensor([left([1] * len(row["prompt"])) for row in rows]),
        "completion_ids": torch.tensor([right(row["response"]) for row in rows]),
        "completion_mask": torch.tensor([right([1] * len(row["response"])) for row in rows]),
        "advantages": torch.tensor([row["advantage"] for row in rows]),
    }
    if rows[0]["old"] is not None:
        made["old_per_token_logps"] = torch.tensor([right(row["old"]) for row in rows])
    return made


def main(cases: Path, folder: Path) -> None:
    """Write the gradient of each case."""
    torch.set_num_threads(1)
    for case in json.loads(cases.read_text()):
        try:
            save_file(gradient(case, folder), folder / f"{case['name']}.safetensors")
        except ValueError as error:
            (folder / f"{case['name']}.txt").write_text(str(error))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
