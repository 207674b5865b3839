"""The reference responses of D_pef as tensors, with their log-probs under the base policy."""

import json

import polars as pl
from script import hardware, label, snakemake, stage

from dphrl.artifacts.private import private_temporary_folder
from dphrl.ranks.launch import Nodes
from dphrl.reference.job import ReferenceJob
from dphrl.reference.launch import store_responses

divided = ["deepspeed"] if hardware.reference_ranks > 1 else []
with stage("torch", "transformers", *divided, hardware=hardware) as job, private_temporary_folder():
    given, output = snakemake.input, snakemake.output
    tables = {name: given[name] for name in ("partition", "prompts")} | {"rollouts": list(given.rollouts)}
    for name, files in tables.items():
        job.scan(name, files)
    reference = ReferenceJob(
        **json.loads(snakemake.params.config),  # dtype, top_k
        **tables,
        policy=str(job.folder("policy", given.policy)),
        hardware=hardware.model_dump(),
        output=output.tensors,
        label=label(),
    )
    parts = store_responses(reference, Nodes.of(snakemake.resources))
    with job.part("logprobs") as facts:
        job.write_parts(parts, "reference_index", output.index)
        lengths = pl.scan_parquet(output.index, glob=False).select(pl.col("prompt_length", "response_length"))
        facts["tokens"] = lengths.cast(pl.Int64).sum().collect().sum_horizontal().item()
