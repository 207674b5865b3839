"""Stored responses as tensors, with their log-probs under the base policy."""

import polars as pl
from script import hardware, label, snakemake, stage

from dphrl.policy.ranks import Nodes
from dphrl.training.reference import ReferenceJob, store_responses

BLOCKS = ("dtype", "topk_logprobs", "rehearse", "rows_per_question")
divided = ["deepspeed"] if hardware.reference_ranks > 1 else []
with stage(*BLOCKS, libraries=["torch", "transformers", *divided]) as job:
    inputs, output, params = snakemake.input, snakemake.output, snakemake.params
    tables = {name: inputs[name] for name in ("partition", "prompts")}
    tables |= {name: list(inputs[name]) for name in ("rollouts", "presamples", "verdicts") if inputs[name]}
    for name, files in tables.items():
        job.scan(name, files, "rollouts" if name == "presamples" else name)
    reference = ReferenceJob(
        **{name: params[name] for name in BLOCKS},
        **tables,
        policy=str(job.folder("policy", inputs.policy)),
        hardware=hardware,
        output=output.tensors,
        label=label,
    )
    parts = store_responses(reference, Nodes.of(snakemake.resources))
    with job.part("logprobs") as facts:
        job.write(parts, "reference_index", output.index, files=[output.tensors])
        lengths = pl.scan_parquet(output.index, glob=False).select(pl.col("prompt_length", "response_length"))
        facts["tokens"] = lengths.cast(pl.Int64).sum().collect().sum_horizontal().item()
