"""One segment of one training: from the policy and state before it to those after it."""

from typing import Any

from script import label, snakemake, stage

from dphrl.policy.ranks import Nodes
from dphrl.store.manifest import remove_folders
from dphrl.training.job import SegmentJob, train_segment

FOLDERS = ("policy", "base", "state")
SETTINGS = ("hardware", "seed", "databases", "workers", "trackers", "tracking", "training", "needs", "lines")
BLOCKS = ("train", "method", "engine", "task", "scorer", "thoughts")
with stage(*BLOCKS, "ranks", libraries=["torch", "transformers", "deepspeed", "vllm"]) as job:
    inputs, output, params = snakemake.input, snakemake.output, snakemake.params
    remove_folders(params.superseded)
    for name in filter(inputs.get, ("metrics", "partition", "prompts", "gold", "rollouts", "reference_index")):
        job.scan(name, inputs[name])
    folders: dict[str, Any] = {name: str(job.folder(name, inputs[name])) for name in filter(inputs.get, FOLDERS)}
    segment = SegmentJob(
        **{name: params[name] for name in (*BLOCKS, *SETTINGS)},
        **dict(zip(("first", "last"), params.steps, strict=True)),
        **{name: inputs[name] for name in ("partition", "prompts", "gold")},
        **folders,
        reference=str(job.file("reference", inputs.reference, inputs.reference_index)) if inputs.reference else None,
        scorer_file=job.scoring_files(inputs),
        policy_out=output.weights,
        state_out=output.optimizer,
        metrics=list(inputs.metrics),
        presamples=list(inputs.rollouts),
        label=label,
    )
    trained = train_segment(segment, Nodes.of(snakemake.resources))
    for timing in trained.timings:
        job.add_timing(*timing)
    job.write(trained.metrics, "metrics", output.metrics)
    job.write(trained.probes, "probes", output.probes)
    for name in ("policy", "state"):
        job.write_manifest(output[name], trained.digests[name])
