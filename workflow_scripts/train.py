"""One segment of one training: from the policy and state before it to those after it."""

import json
from pathlib import Path

from script import hardware, label, snakemake, stage

from dphrl.artifacts.manifest import remove_folders
from dphrl.ranks.launch import Nodes
from dphrl.training.job import SegmentJob
from dphrl.training.launch import train_segment

with stage("torch", "transformers", "deepspeed", "vllm", hardware=hardware) as job:
    given, output, params = snakemake.input, snakemake.output, snakemake.params
    remove_folders(params.superseded)
    for name in filter(given.get, ("partition", "prompts", "gold", "databases")):
        job.scan(name, given[name])
    segment = SegmentJob(
        config=json.loads(params.config),
        hardware=hardware.model_dump(),
        seed=params.seed,
        first=params.steps[0],
        last=params.steps[1],
        **{name: given[name] for name in ("partition", "prompts", "gold")},
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
    trained = train_segment(segment, Nodes.of(snakemake.resources))
    for timing in trained.timings:
        job.add_timing(*timing)
    job.write(trained.metrics, "metrics", output.metrics)
    for name in ("policy", "state"):
        job.write_manifest(output[name], trained.digests[name])
