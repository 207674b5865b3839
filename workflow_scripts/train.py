"""One segment of one training: from the policy and state before it to those after it."""

import json
from pathlib import Path

from script import label, snakemake, stage

from dphrl.ranks.launch import Nodes
from dphrl.training.job import SegmentJob
from dphrl.training.launch import train_segment

with stage("torch", "transformers", "deepspeed", "vllm") as job:
    given, output, params = snakemake.input, snakemake.output, snakemake.params
    for table in ("partition", "prompts", "gold", *(["databases"] if given.get("databases") else [])):
        job.scan(table, given[table])
    segment = SegmentJob(
        config=json.loads(params.config),
        seed=params.seed,
        first=params.steps[0],
        last=params.steps[1],
        partition=given.partition,
        prompts=given.prompts,
        gold=given.gold,
        policy=str(job.folder("policy", given.policy)),
        base=str(job.folder("base", given.base)) if given.get("base") else None,
        state=str(job.folder("state", given.state)) if given.get("state") else None,
        reference=str(job.file("reference", given.reference)) if given.get("reference") else None,
        scorer=given.get("scorer") or None,
        policy_out=str(Path(output.policy).parent),
        state_out=str(Path(output.state).parent),
        label=label(),
        **params.runtime,  # databases, workers, trackers, tracking, training
    )
    metrics, timings = train_segment(segment, Nodes.of(snakemake.resources))
    for part, seconds, tokens in timings:
        job.add_timing(part, seconds, tokens)
    job.write(metrics, "metrics", output.metrics)
    for manifest in (output.policy, output.state):
        job.write_manifest(manifest)
