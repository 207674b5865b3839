"""The program of one rank of the reference stage: the ranks divide the model, and the passes over its rows."""

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from dphrl.artifacts.tables import write_parts
from dphrl.model.batch import Row
from dphrl.model.logprobs import LogProbs, load_model
from dphrl.model.micro_batches import MicroBatch
from dphrl.ranks.collectives import rank, start_process_group, sum_on_first, world_size
from dphrl.ranks.divided import divide_frozen
from dphrl.ranks.process import run_rank
from dphrl.reference.build import compute_here, save_tensors, tensorise
from dphrl.reference.job import ReferenceJob


def work(text: str) -> None:
    """Compute the log-probs of all rows together with the other ranks; rank 0 writes tensors and index."""
    given = json.loads(text)
    job, tensors, index = ReferenceJob(**given["job"]), Path(given["tensors"]), Path(given["index"])
    start_process_group()
    policy = LogProbs(load_model(Path(job.policy), job.dtype), job.machine.attention)
    divide_frozen(policy, job.dtype)
    parts = tensorise(job.parts(), policy, job.machine.token_budget, job.topk_logprobs, compute_with_ranks)
    if rank() == 0:
        write_parts(save_tensors(parts, tensors), "reference_index", index, {})
    else:
        for _ in parts:
            pass


def compute_with_ranks(
    module: LogProbs, rows: Sequence[Row], cut: Sequence[MicroBatch], top_k: int
) -> list[tuple[Tensor, ...]]:
    """As `compute_here`, of which each rank does a share: all ranks must call, and rank 0 gets the whole."""
    # The longest micro-batches come first, so those of one pass are about as long.
    share = cut[rank() :: world_size()]
    # Ranks exchange weights in every pass, so all make as many: one that has no more repeats the last of all.
    idle = -(-len(cut) // world_size()) - len(share)
    found = compute_here(module, rows, [*share, *[*cut[-1:]] * idle], top_k)
    lengths = [len(row.response) for row in rows]
    whole = _zeros(sum(lengths), top_k)
    by_row = [*zip(*(tensor.split(lengths) for tensor in whole), strict=True)]
    for micro_batch in share:
        for number in micro_batch.rows:
            for ours, values in zip(by_row[number], found[number], strict=True):
                ours.copy_(values)
    for tensor in whole:
        sum_on_first(tensor)
    return by_row


def _zeros(tokens: int, top_k: int) -> list[Tensor]:
    """Zeros in the shapes and types of what is stored of so many tokens."""
    topk = [torch.zeros(tokens, top_k, dtype=torch.int64), torch.zeros(tokens, top_k)] if top_k else []
    return [torch.zeros(tokens), *topk]


if __name__ == "__main__":
    run_rank(work)
