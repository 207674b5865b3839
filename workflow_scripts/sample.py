"""Responses of a policy to one shard of a dataset, by the plan of that name."""

from script import hardware, label, snakemake, stage

from dphrl.artifacts.files import remove_parts
from dphrl.artifacts.private import private_temporary_folder
from dphrl.config.blocks.sampling import PlanConfig
from dphrl.rollout.replay import ReplayEngine
from dphrl.rollout.requests import plan_requests, rollout_frame, shard
from dphrl.tasks.tokens import response_encoder

given, params, output = snakemake.input.get, snakemake.params, snakemake.output.rollouts
libraries = [] if given("recorded") else ["vllm", "torch", "transformers"]
with stage("engine", "plan", libraries=libraries) as job, private_temporary_folder():
    prompts, part = job.read("prompts", snakemake.input.prompts), params.part
    if given("candidates"):
        candidates = job.read("partition", snakemake.input.candidates)
        prompts = prompts.join(candidates.filter(subset="pef"), on="prompt_id", how="semi")
    policy = job.folder("policy", given("policy")) if given("policy") else None
    asked = shard(prompts, part["shard"], part["shards"])
    names = part["policy"], part["draw"]
    requests = plan_requests(asked, part["plan"], PlanConfig(**params.plan), params.seed, *names)
    rows = rollout_frame([], [])  # an empty shard is valid and needs no engine
    if requests and given("recorded"):
        tokenize = response_encoder(policy) if policy else None
        recorded = job.file("recorded", snakemake.input.recorded)
        completions = ReplayEngine(recorded, prompts, tokenize, params.engine["first"]).generate(requests)
        rows, job.note = rollout_frame(requests, completions), f"{len(completions)} recorded responses"
    elif requests and policy:
        from dphrl.rollout.sampling import sample  # recorded answers need neither it nor torch
        from dphrl.rollout.sampling_job import SamplingJob

        blocks = params.engine, hardware.model_dump()
        rows, timings, job.note = sample(SamplingJob(str(policy), *blocks, requests, output, job.footer(), label()))
        for timing in timings:
            job.add_timing(*timing)
    job.write(rows, "rollouts", output)
    remove_parts(output)
