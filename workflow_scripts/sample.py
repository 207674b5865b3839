"""Responses of a policy to one shard of a dataset, by the plan of that name."""

import json

from door import label, snakemake, stage
from dphrl.config.engine import EngineConfig
from dphrl.config.sampling import PlanConfig
from dphrl.rollout import VllmEngine, plan_requests, rollout_frame, shard

with stage("vllm", "torch", "transformers") as job:
    config, wildcards = json.loads(snakemake.params.config), snakemake.wildcards
    prompts = job.read("prompts", snakemake.input.prompts)
    if "candidates" in snakemake.input.keys():  # noqa: SIM118 (a Namedlist iterates over its values)
        candidates = job.read("partition", snakemake.input.candidates)
        prompts = prompts.join(candidates.filter(subset="pef"), on="prompt_id", how="semi")
    part = shard(prompts, int(wildcards.shard), snakemake.params.shards)
    policy = job.folder("policy", snakemake.input.policy)
    requests = plan_requests(part, wildcards.plan, PlanConfig(**config["plan"]), snakemake.params.seed)
    with job.part("start"):  # an empty shard is valid and needs no engine
        engine = VllmEngine(policy, EngineConfig(**config["engine"])) if requests else None
    with job.part("generate") as facts:
        completions = engine.generate(requests, label()) if engine else []
        facts["tokens"] = sum(len(completion.token_ids) for completion in completions)
    job.write(rollout_frame(requests, completions), "rollouts", snakemake.output.rollouts)
