# Training: a chain of segments for each method and seed. A segment starts from the policy and state before it.
from types import SimpleNamespace

# The functions of a dataset's wildcards, for the dataset that is trained on.
TRAINING_SET = SimpleNamespace(dataset=CONFIG.train_dataset)


def before(wildcards):
    """Policy and state that a segment starts from: the base policy, or the end of the segment before."""
    step = int(wildcards.step) - CONFIG.train.segment_steps
    if step <= 0:
        return {"policy": manifest("base")}
    name = f"{wildcards.method}-s{wildcards.seed}/step{step}"
    return {"policy": manifest(name), "state": f"{RESULTS}/train/{name}/state.json"}


def beside(wildcards):
    """What else a method reads: the stored responses that it rehearses, the base policy that it looks back to."""
    method = CONFIG.methods[wildcards.method]
    stored = {
        "reference": rules.tensorise.output.tensors,
        "index": rules.tensorise.output.index,
    }
    base = {"base": manifest("base")}
    return (stored if method.rehearses else {}) | (base if method.needs_base else {})


def seed_of(wildcards):
    """The seed of a training."""
    return int(wildcards.seed)


def steps_of(wildcards):
    """First and last step of a segment."""
    last = int(wildcards.step)
    return [max(0, last - CONFIG.train.segment_steps) + 1, last]


rule train_segment:
    """One segment of one training."""
    input:
        unpack(before),
        unpack(beside),
        partition=rules.refine.output.partition,
        prompts=f"{RESULTS}/prompts/{CONFIG.train_dataset}.parquet",
        gold=f"{RESULTS}/gold/{CONFIG.train_dataset}.parquet",
        databases=databases_of(TRAINING_SET),
        scorer=scorer_of(TRAINING_SET),
    output:
        policy=manifest("{method}-s{seed}/step{step}"),
        policy_digest=manifest("{method}-s{seed}/step{step}") + ".sha256",
        state=f"{RESULTS}/train/{{method}}-s{{seed}}/step{{step}}/state.json",
        state_digest=f"{RESULTS}/train/{{method}}-s{{seed}}/step{{step}}/state.json.sha256",
        metrics=f"{RESULTS}/train/{{method}}-s{{seed}}/step{{step}}/metrics.parquet",
        metrics_digest=f"{RESULTS}/train/{{method}}-s{{seed}}/step{{step}}/metrics.parquet.sha256",
        timings=timings("train/{method}-s{seed}/step{step}"),
    log:
        f"{RESULTS}/logs/train/{{method}}-s{{seed}}/step{{step}}.log",
    # The longest chain of jobs: it goes before the sampling of policies that are done.
    priority: 1
    threads: CONFIG.train.ranks
    params:
        **stage_params(
            "train.py",
            ["metrics"],
            slice_of(slices.train, "method"),
            seed_of,
        ),
        steps=steps_of,
        runtime={
            "databases": database_folder(TRAINING_SET),
            "workers": workers_of(TRAINING_SET),
            "trackers": CONFIG.train.trackers,
            "tracking": f"{RESULTS}/tracking",
        },
    message:
        "training {wildcards.method}, seed {wildcards.seed}, up to step {wildcards.step}"
    script:
        "../workflow_scripts/train.py"
