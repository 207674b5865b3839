"""One segment of one training: from the policy and state before it to those after it."""

import json
from pathlib import Path

from dphrl.training.job import SegmentJob
from dphrl.training.launch import Nodes, train_segment
from script import label, snakemake, stage

with stage("torch", "transformers", "deepspeed", "vllm") as job:
    given, output, params = snakemake.input, snakemake.output, snakemake.params
    tables = {name: given[name] for name in ("partition", "prompts", "gold")}
    for name, path in tables.items():
        job.read(name, path)
    folders = {name: str(job.folder(name, given[name])) for name in ("policy", "base", "state") if given.get(name)}
    files = {"reference": str(job.file("reference", given.reference))} if given.get("reference") else {}
    first, last = params.steps
    segment = SegmentJob(
        **{
            **tables,
            **folders,
            **files,
            "config": json.loads(params.config),
            "seed": params.seed,
            "first": first,
            "last": last,
            "policy_out": str(Path(output.policy).parent),
            "state_out": str(Path(output.state).parent),
            "scorer": given.get("scorer") or None,
            "label": label(),
            "training": Path(output.policy).parents[1].name,
            **params.beside,
        }
    )
    metrics, timings = train_segment(segment, Nodes.of(snakemake.resources))
    for part, seconds, tokens in timings:
        job.add_timing(part, seconds, tokens)
    job.write(metrics, "metrics", output.metrics)
    for manifest in (output.policy, output.state):
        job.write_manifest(manifest)
