# Shared by the rules: the layout of the run, and the params of every stage.
from dphrl.artifacts.code import code_digest
from dphrl.config import slices
from dphrl.layout.names import BASE
from dphrl.layout.run import Layout, with_digests
from dphrl.report import plan as report_plan

LAYOUT = Layout(CONFIG)
path, slice_of = LAYOUT.path, LAYOUT.slice
# Whether this run shares costly files with others (`--cache`). Without that option a marked rule gives a warning.
SHARED = workflow.workflow_settings.cache is not None
# Another workflow that imports this one as a module gives its rules a prefix, which no artifact records.
PREFIX = workflow.modifier.modify_rulename("")
# Wildcards that name the training set.
TRAINING_SET = {"dataset": CONFIG.train_dataset}


# `path(kind)` is the path of a kind of artifact (layout/kinds.py); pages, logs and timings have these prefixes.
pathvars:
    results=LAYOUT.root,
    logs=f"{LAYOUT.root}/logs",
    timings=f"{LAYOUT.root}/timings",


wildcard_constraints:
    **LAYOUT.constraints(),


def databases_of(wildcards):
    """The table of a dataset's databases. As an `ancient` input it reruns no job by its time, but a param has its content.

    So databases that were only copied or touched rerun nothing but their table.
    """
    return LAYOUT.databases(wildcards, checkpoints.hash_databases.get)


def priority(wildcards):
    """1 for what the trainings wait for, 0 for what only the evaluation needs.

    The longest chain of jobs leads through pre-sampling, refinement and the segments of a training.
    """
    for_training = wildcards.get("plan") != "evaluate"
    return int(wildcards.dataset == CONFIG.train_dataset and for_training)


def stage_params(script, config, *schemas, seed=None):
    """The params that Snakemake compares to decide on a rerun: scripts, schemas, code digest, config slice, seed."""
    code = code_digest([script], schemas)
    # Snakemake would take {name} in a text for a wildcard, but not in what a function returns.
    part = config if callable(config) else lambda wildcards: config
    given = dict(sources=[script], schemas=schemas, code=code, config=part, seed=seed)
    return given | dict(prefix=prefix)


def prefix(wildcards, output):
    """`PREFIX`, as a function of the output, which Snakemake does not compare."""
    return PREFIX
