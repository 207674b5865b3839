"""Responses of a policy to one shard of a dataset, by the plan of that name."""

import json

from door import label, snakemake, stage
from dphrl.config.engine import EngineConfig
from dphrl.config.sampling import PlanConfig
from dphrl.rollout import draw_samples, shard

with stage("vllm", "torch", "transformers") as job:
    config, wildcards = json.loads(snakemake.params.config), snakemake.wildcards
    prompts = job.read("prompts", snakemake.input.prompts)
    if "candidates" in snakemake.input.keys():  # noqa: SIM118 (a Namedlist iterates over its values)
        candidates = job.read("partition", snakemake.input.candidates)
        prompts = prompts.join(candidates.filter(subset="pef"), on="prompt_id", how="semi")
    part = shard(prompts, int(wildcards.shard), snakemake.params.shards)
    policy = job.folder("policy", snakemake.input.policy)
    with job.part("generate") as facts:
        plan, engine = PlanConfig(**config["plan"]), EngineConfig(**config["engine"])
        rollouts = draw_samples(part, policy, wildcards.plan, plan, engine, snakemake.params.seed, label())
        facts["tokens"] = int(rollouts["token_ids"].list.len().sum())
    job.write(rollouts, "rollouts", snakemake.output.rollouts)
