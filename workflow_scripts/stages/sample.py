"""Responses of a policy to one shard of a dataset, by the plan of that name."""

from script import hardware, label, snakemake, stage

from dphrl.config.blocks.sampling import PlanConfig
from dphrl.data.tokens import response_encoder
from dphrl.policy.replay import ReplayEngine
from dphrl.policy.requests import SamplingPlan, rollout_frame, shard
from dphrl.store.files import remove_parts

path_of, params, output = snakemake.input.get, snakemake.params, snakemake.output.rollouts
libraries = [] if path_of("recorded") else ["vllm", "torch", "transformers"]
with stage("engine", "plan", libraries=libraries) as job:
    all_prompts, part = job.read("prompts", snakemake.input.prompts), params.part
    prompts = all_prompts
    if path_of("candidates"):
        candidates = job.read("partition", snakemake.input.candidates)
        prompts = prompts.join(candidates.filter(subset="pef"), on="prompt_id", how="semi")
    policy = job.folder("policy", path_of("policy")) if path_of("policy") else None
    asked = shard(prompts, part["shard"], part["shards"])
    plan = SamplingPlan(part["plan"], PlanConfig(**params.plan), params.seed, part["policy"], part["draw"])
    rows = rollout_frame([], [])  # an empty shard is valid and needs no engine
    if asked and path_of("recorded"):
        tokenize = response_encoder(policy, params.engine["template"]) if policy else None
        recorded = job.file("recorded", snakemake.input.recorded)
        requests = plan.requests(asked)
        completions = ReplayEngine(recorded, all_prompts, tokenize, params.engine["first"]).generate(requests)
        rows, job.note = rollout_frame(requests, completions), f"{len(completions)} recorded responses"
    elif asked and policy:
        from dphrl.policy.sampling_job import SamplingJob, sample  # recorded answers need neither it nor torch

        of_policy = {"policy": str(policy), "engine": params.engine, "hardware": hardware, "plan": plan}
        task = SamplingJob(**of_policy, prompts=asked, output=output, footer=job.footer(), label=label)
        rows, timings, job.note = sample(task)
        for timing in timings:
            job.add_timing(*timing)
    job.write(rows, "rollouts", output)
    remove_parts(output)
