"""Steps of Hugging Face TRL's GRPOTrainer: dev/benchmarks/training.py runs this file, in a separate environment.

The argument is a JSON file with the job. The last line of the output is JSON: the clock at the end of each step, and
the seconds that each part has taken so far. To make the environment, run `python -m venv trl` and install these into it
with `trl/bin/pip install`:

trl==1.16.0
torch==2.13.0
transformers==5.19.0
accelerate==1.15.0
datasets==5.2.0
"""

import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer  # type: ignore[import-not-found]


def parity(completions: list[str], **_: Any) -> list[float]:
    """Rewards: 1 for a text of odd length."""
    return [float(len(text) % 2) for text in completions]


class Timed(GRPOTrainer):
    """A trainer that times its parts."""

    def __init__(self, **options: Any) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        super().__init__(**options)

    def _generate(self, *arguments: Any, **options: Any) -> Any:
        with self._part("generate"):
            return super()._generate(*arguments, **options)

    def _calculate_rewards(self, *arguments: Any, **options: Any) -> Any:
        with self._part("score"):
            return super()._calculate_rewards(*arguments, **options)

    @contextmanager
    def _part(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] += time.perf_counter() - start


class Marks(TrainerCallback):
    """Records the clock and the parts' seconds at the end of each step."""

    def __init__(self, seconds: Mapping[str, float]) -> None:
        self.seconds = seconds
        self.marks: list[dict[str, float]] = []

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.marks.append({"step": time.perf_counter(), **self.seconds})


def run(job: dict[str, Any]) -> list[dict[str, float]]:
    """Run the job; returns its marks, one for each step."""
    rows = len(job["prompts"]) // job["steps"] * job["responses"]
    trainer = Timed(
        model=AutoModelForCausalLM.from_pretrained(job["model"], dtype=torch.float32),
        processing_class=AutoTokenizer.from_pretrained(job["model"]),
        reward_funcs=parity,
        train_dataset=Dataset.from_list([{"prompt": text} for text in job["prompts"]]),
        args=GRPOConfig(
            output_dir=job["folder"],
            max_steps=job["steps"],
            per_device_train_batch_size=job["batch"],
            gradient_accumulation_steps=rows // job["batch"],
            num_generations=job["responses"],
            max_completion_length=job["tokens"],
            learning_rate=job["lr"],
            lr_scheduler_type="constant",
            weight_decay=0.01,
            optim="adamw_torch",
            beta=0.0,
            # Products alone: weights, gradients and optimizer stay in float32.
            bf16=job["dtype"] == "bfloat16",
            gradient_checkpointing=False,
            use_cpu=True,
            shuffle_dataset=False,
            disable_tqdm=True,
            report_to=[],
            logging_strategy="no",
            save_strategy="no",
        ),
    )
    marks = Marks(trainer.seconds)
    trainer.add_callback(marks)
    trainer.train()
    return marks.marks


if __name__ == "__main__":
    job = json.loads(Path(sys.argv[1]).read_text())
    torch.set_num_threads(job["threads"])
    print(json.dumps(run(job)))
