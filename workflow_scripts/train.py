"""One segment of one training: from the policy and state before it to those after it."""

import json
import os

from script import hardware, label, snakemake, stage

from dphrl.artifacts.manifest import remove_folders
from dphrl.ranks.launch import Nodes
from dphrl.training.job import SegmentJob
from dphrl.training.launch import train_segment

with stage("torch", "transformers", "deepspeed", "vllm", hardware=hardware) as job:
    given, output, params = snakemake.input, snakemake.output, snakemake.params
    remove_folders(params.superseded)
    for name in filter(given.get, ("partition", "prompts", "gold", "databases", "rollouts")):
        job.scan(name, given[name])
    segment = SegmentJob(
        config=json.loads(params.config),
        hardware=hardware.model_dump(),
        seed=params.seed,
        **dict(zip(("first", "last"), params.steps, strict=True)),
        **{name: given[name] for name in ("partition", "prompts", "gold")},
        policy=str(job.folder("policy", given.policy)),
        base=str(job.folder("base", given.base)) if given.get("base") else None,
        state=str(job.folder("state", given.state)) if given.get("state") else None,
        reference=str(job.file("reference", given.reference)) if given.get("reference") else None,
        scorer=given.get("scorer") or None,
        **{f"{name}_out": os.path.dirname(output[name]) for name in ("policy", "state")},
        presamples=list(given.rollouts),
        label=label(),
        **params.runtime,  # databases, workers, trackers, tracking, training
    )
    trained = train_segment(segment, Nodes.of(snakemake.resources))
    for timing in trained.timings:
        job.add_timing(*timing)
    for name in ("metrics", "probes"):
        job.write(getattr(trained, name), name, output[name])
    for name in ("policy", "state"):
        job.write_manifest(output[name], trained.digests[name])
