"""One segment of one training: from the policy and state before it to those after it."""

import json
from pathlib import Path

from door import label, snakemake, stage
from dphrl.config.scoring import ScoringConfig
from dphrl.reference import load
from dphrl.scoring import make_scorer
from dphrl.training import SegmentConfig, online_prompts, train_segment

with stage("torch", "transformers", "deepspeed", "vllm") as job:
    config, given = json.loads(snakemake.params.config), snakemake.input
    segment = SegmentConfig.parse(config, snakemake.params.seed, snakemake.params.steps)
    partition, prompts = job.read("partition", given.partition), job.read("prompts", given.prompts)
    online = online_prompts(partition, prompts, job.read("gold", given.gold), segment.method.online)
    reference = load(job.file("reference", given.reference)) if segment.method.divergence else None
    policy = job.folder("policy", given.policy)
    state = job.folder("state", given.state) if "state" in given.keys() else None  # noqa: SIM118
    new_policy, new_state = Path(snakemake.output.policy), Path(snakemake.output.state)
    with make_scorer(
        config["task"], ScoringConfig(**config["scoring"]), snakemake.params.databases, snakemake.threads
    ) as scorer:
        metrics, timings = train_segment(
            segment,
            online,
            reference,
            scorer.score,
            policy,
            state,
            new_policy.parent,
            new_state.parent,
            label(),
        )
    for part, seconds, tokens in timings:
        job.add_timing(part, seconds, tokens)
    job.write(metrics, "metrics", snakemake.output.metrics)
    for output in (new_policy, new_state):
        job.write_manifest(str(output))
