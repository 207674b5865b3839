"""The program of each rank in a test: one update at each ZeRO stage, on its share of a recorded mini-batch.

Arguments: the output folder of rank 0, the seconds after which a rank gives up, and the ZeRO stages. One rank has the
long rows and all stored ones, so that it makes more passes than the other.

Also the gradient of a bfloat16 layer after some passes, and its sum over all passes in float64.
"""

from __future__ import annotations

import faulthandler
import json
import math
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from tiny_models import tiny_model
from tiny_training import BARE, gradients, gradients_of, hardware, train_config
from torch import Tensor, nn

import dphrl.policy.logprobs
import dphrl.training.optimizer
from dphrl.config.blocks.training import MethodConfig
from dphrl.policy.batch import Row
from dphrl.policy.collectives import rank, start_process_group, world_size
from dphrl.training.loss import Example
from dphrl.training.optimizer import initialize
from dphrl.training.trainer import Trainer

# ZeRO-3 shards parameters of at least 100,000 numbers: with this vocabulary the embedding and the output head.
VOCABULARY = 2048
ROLLOUTS = 16
# Small chunks of logits, so that the ranks differ in their number of chunks too.
CHUNK = VOCABULARY * 16
# Elements of DeepSpeed's buffer, above and below those of `Layer`.
BUCKETS = (1_000_000, 1_000)


def examples() -> list[Example]:
    """Rollouts and stored responses, the longest first; log-probs like those of untrained models."""
    generator = torch.Generator().manual_seed(1)

    def tokens(number: int) -> list[int]:
        return torch.randint(3, VOCABULARY, (number,), generator=generator).tolist()

    def logprobs(number: int) -> Tensor:
        return 0.3 * torch.randn(number, generator=generator) - math.log(VOCABULARY)

    prompts = [tokens(7) for _ in range(4)]
    lengths = [64 - 4 * i for i in range(ROLLOUTS)]
    rollouts = [
        Example(Row(prompts[i // 4], tokens(n)), advantage=0.5 * (-1) ** i, old=logprobs(n))
        for i, n in enumerate(lengths)
    ]
    stored = [Example(Row(tokens(5), tokens(n)), rehearsal=True, reference=logprobs(n)) for n in (50, 30, 10)]
    return [*rollouts, *stored]


def share(kind: str) -> list[Example]:
    """The rows that this rank trains on."""
    everything, number, ranks = examples(), rank(), world_size()
    if kind == "even":
        return [*everything[:ROLLOUTS][number::ranks], *everything[ROLLOUTS:][number::ranks]]
    size = ROLLOUTS // ranks
    return [*everything[number * size : (number + 1) * size], *(everything[ROLLOUTS:] if number == 0 else [])]


def update(stage: int, kind: str, folder: Path) -> None:
    """Make one update; rank 0 writes gradients, weights and totals."""
    model = tiny_model(VOCABULARY, num_key_value_heads=2, initializer_range=0.05)
    config, machine = train_config(**BARE), hardware(ranks=world_size(), zero_stage=stage, token_budget=100)
    trainer = Trainer(model, config, machine, MethodConfig(divergence="js", eta=0.5))
    rows = share(kind)
    before = trainer.logprobs([example.row for example in rows])
    result = trainer.update(rows, 1e-4)
    torch.testing.assert_close(result.logprobs, before, atol=1e-5, rtol=0)
    found = gradients(trainer)
    weights = {name: weight.clone() for name, weight in trainer.named_weights()}
    if rank() == 0:
        name = f"{world_size()}-{stage}-{kind}"
        save_file(found, folder / f"{name}.gradients")
        save_file(weights, folder / f"{name}.weights")
        (folder / f"{name}.json").write_text(json.dumps({**result.totals, "grad_norm": result.grad_norm}))


class Layer(nn.Module):
    """A layer whose gradient is a product of inputs and output weights."""

    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Linear(512, 256, bias=False, dtype=torch.bfloat16)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.model(inputs)


def sum_gradients(stage: int, bucket: int, folder: Path) -> None:
    """Accumulate gradients in bfloat16; rank 0 writes the optimizer's gradient and the sum of all in float64.

    Args:
        bucket: most elements that are summed over ranks at once.
    """
    torch.manual_seed(0)
    dphrl.training.optimizer._BUCKET_ELEMENTS = bucket
    machine = hardware(ranks=world_size(), zero_stage=stage)
    engine = initialize(Layer(), train_config(**BARE, dtype="bfloat16"), machine)
    generator = torch.Generator().manual_seed(rank())
    exact = torch.zeros(256, 512, dtype=torch.float64)
    for _ in range(5):
        inputs, weights = (torch.randn(32, n, generator=generator).bfloat16() for n in (512, 256))
        engine.backward((engine(inputs) * weights).float().sum() * world_size())
        exact += weights.T @ inputs
    torch.distributed.all_reduce(exact)
    engine.step()
    reduced = gradients_of(engine.module.model, engine)["weight"]
    if rank() == 0:
        save_file({"reduced": reduced, "exact": exact}, folder / f"{stage}-{bucket}.sums")


def main(folder: str, seconds: str, *stages: str) -> None:
    """Run the updates."""
    # If ranks wait for each other forever, the test fails instead of hanging.
    faulthandler.dump_traceback_later(float(seconds), exit=True)
    start_process_group()
    dphrl.policy.logprobs._LOGITS_PER_CHUNK = CHUNK
    for stage in map(int, stages):
        update(stage, "uneven", Path(folder))
        if stage:
            for bucket in BUCKETS:
                sum_gradients(stage, bucket, Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
