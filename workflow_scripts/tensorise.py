"""The reference responses of D_pef as tensors, with their log-probs under the base policy."""

import json
from pathlib import Path

import polars as pl
from script import hardware, snakemake, stage

from dphrl.artifacts.private import private_temporary_folder
from dphrl.artifacts.tables import by_prompts
from dphrl.reference.build import load_reference, reference_rows, save_tensors, tensorise

with stage("torch", "transformers", hardware=hardware) as job, private_temporary_folder():
    config, given, output = json.loads(snakemake.params.config), snakemake.input, snakemake.output
    partition, prompts, rollouts = (job.scan(name, given[name]) for name in ("partition", "prompts", "rollouts"))
    rows = (reference_rows(*tables) for tables in by_prompts(partition, prompts, rollouts))
    policy = load_reference(job.folder("policy", given.policy), config["dtype"], hardware.attention)
    with job.part("logprobs") as facts:
        parts = tensorise(rows, policy, hardware.token_budget, config["top_k"])
        job.write_parts(save_tensors(parts, Path(output.tensors)), "reference_index", output.index)
        lengths = pl.scan_parquet(output.index, glob=False).select(pl.col("prompt_length", "response_length"))
        facts["tokens"] = lengths.cast(pl.Int64).sum().collect().sum_horizontal().item()
