"""The stored responses of D_pef as tensors, with their reference log-probs."""

import json
from pathlib import Path

from door import snakemake, stage
from dphrl.model import LogProbs, load_model
from dphrl.reference import reference_rows, save_tensors, tensorise

with stage("torch", "transformers") as job:
    config = json.loads(snakemake.params.config)
    partition, prompts = job.read("partition", snakemake.input.partition), job.read("prompts", snakemake.input.prompts)
    rows = reference_rows(partition, prompts, job.read("rollouts", snakemake.input.rollouts))
    policy = LogProbs(load_model(job.folder("policy", snakemake.input.policy), config["dtype"]))
    with job.part("logprobs") as facts:
        tensors, index = tensorise(rows, policy, config["token_budget"], config["top_k"])
        facts["tokens"] = len(tensors["token_ids"])
    save_tensors(tensors, Path(snakemake.output.tensors))
    job.write(index, "reference_index", snakemake.output.index)
