"""Runs the reference stage in this process or on ranks."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from dphrl.artifacts.tables import slices
from dphrl.ranks.launch import ONE_NODE, Nodes, RankError, answer_of_ranks
from dphrl.reference import rank_process
from dphrl.reference.build import load_reference, save_tensors, tensorise
from dphrl.reference.job import ReferenceJob


def store_responses(job: ReferenceJob, nodes: Nodes = ONE_NODE) -> Iterator[pl.DataFrame]:
    """The index of the stored responses in parts; after the last one their tensors are in place.

    Where training divides the weights, its ranks divide them here too; else all is done in this process.

    Raises:
        RankError: a rank failed or was killed; nothing was put in place.
        ValueError: the ranks cannot be spread evenly over the nodes.
    """
    machine = job.machine
    if machine.reference_ranks > 1:
        return _store_on_ranks(job, nodes)
    policy = load_reference(Path(job.policy), job.dtype, machine.attention)
    return save_tensors(tensorise(job.parts(), policy, machine.token_budget, job.topk_logprobs), Path(job.output))


def _store_on_ranks(job: ReferenceJob, nodes: Nodes) -> Iterator[pl.DataFrame]:
    output = Path(job.output)
    with TemporaryDirectory(dir=output.parent, prefix=".ranks.", suffix=".tmp") as folder:
        tensors, index = Path(folder, output.name), Path(folder, "index.parquet")
        text = json.dumps({"job": asdict(job), "tensors": str(tensors), "index": str(index)})
        try:
            answer_of_ranks(job.machine.reference_ranks, rank_process.__name__, text, output.parent, nodes)
        except RankError as error:
            raise RankError(
                f"{job.label}: {error}; see the end of this log. Nothing was kept: run snakemake again, and it starts"
                " from the first response."
            ) from None
        tensors.replace(output)
        yield from slices(pl.scan_parquet(index, glob=False))
