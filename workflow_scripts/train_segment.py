"""One segment of one training: from the policy and state before it to those after it."""

from typing import Any

from script import label, snakemake, stage

from dphrl.artifacts.manifest import remove_folders
from dphrl.ranks.launch import Nodes
from dphrl.training.job import SegmentJob, train_segment

FOLDERS = ("policy", "base", "state")
SETTINGS = ("hardware", "seed", "databases", "workers", "trackers", "tracking", "training", "lines")
BLOCKS = ("train", "method", "engine", "task", "scorer")
with stage(*BLOCKS, "ranks", libraries=["torch", "transformers", "deepspeed", "vllm"]) as job:
    given, output, params = snakemake.input, snakemake.output, snakemake.params
    remove_folders(params.superseded)
    for name in filter(given.get, ("partition", "prompts", "gold", "rollouts", "reference_index")):
        job.scan(name, given[name])
    folders: dict[str, Any] = {name: str(job.folder(name, given[name])) for name in filter(given.get, FOLDERS)}
    segment = SegmentJob(
        **{name: params[name] for name in (*BLOCKS, *SETTINGS)},
        **dict(zip(("first", "last"), params.steps, strict=True)),
        **{name: given[name] for name in ("partition", "prompts", "gold")},
        **folders,
        reference=str(job.file("reference", given.reference, given.reference_index)) if given.reference else None,
        scorer_file=job.scoring_files(given),
        policy_out=output.weights,
        state_out=output.optimizer,
        presamples=list(given.rollouts),
        label=label(),
    )
    trained = train_segment(segment, Nodes.of(snakemake.resources))
    for timing in trained.timings:
        job.add_timing(*timing)
    job.write(trained.metrics, "metrics", output.metrics)
    job.write(trained.probes, "probes", output.probes)
    for name in ("policy", "state"):
        job.write_manifest(output[name], trained.digests[name])
