# Shared by the rules: pathvars, lists that follow from CONFIG (of the Snakefile), and params of many rules.
# Numbers of retries and executors: profiles/. A rule without `localrule` is submitted where there is an executor.
from inspect import signature

from dphrl.config import slices
from dphrl.plan.limits import Limits
from dphrl.report import contents
from dphrl.store.code import code_digest, leave_to_jobs
from dphrl.store.files import remembered_sha256
from dphrl.store.layout import Layout
from dphrl.store.policy_names import BASE, DRAW

leave_to_jobs()
LAYOUT = Layout(CONFIG)
# Memory and minutes of the rules with a model: upper bounds from its size and the tokens (docs/cluster.md).
LIMITS = Limits(CONFIG, Path.cwd())
# The checked configuration with its defaults, as a dict; Snakemake's `config` lacks the defaults.
RESOLVED = slices.canonical(CONFIG)
# Whether runs share costly files (`--cache`). Without that option a marked rule gives a warning.
SHARED = workflow.workflow_settings.cache is not None


# <train> is the name of the training set; no job has it in a run without.
pathvars:
    results=LAYOUT.root,
    logs=f"{LAYOUT.root}/logs",
    timings=f"{LAYOUT.root}/timings",
    train=CONFIG.train_dataset or "-",


wildcard_constraints:
    **LAYOUT.constraints(),


# The numbers of the shards of each plan.
SHARDS = {plan: range(keys["shards"]) for plan, keys in RESOLVED["sampling"].items()}
SETS = list(CONFIG.evaluate.datasets)
# A policy is `base`, the name of a file of recorded answers, or `<method>-s<seed>/step<step>`.
EVALUATED = list(map(str, LAYOUT.policies()))
# All that answer the evaluation sets: those drawn hotter too, whose names end with `/t<temperature>`.
ASKED = [*EVALUATED, *LAYOUT.hotter()]
TRAINED = list(map(str, LAYOUT.trained()))
MODELS = [*dict.fromkeys(["base", *map(str, LAYOUT.models()), *TRAINED])] if CONFIG.has_model else []
SEGMENTS = list(map(str, LAYOUT.segments()))
TRAININGS = [[policy.method, policy.seed] for policy in LAYOUT.segments()]  # the training of each segment
# Draws of stage 1: `main`, and `s<seed>` for each training seed with its own pre-samples.
DRAWS = LAYOUT.draws()
# Shards of rollouts, each with verdicts of the same name: of the two plans of stage 1, and of all evaluations.
BOTH = ["rollouts", "verdicts"]
PRESAMPLES = [f"presample/{shard}.parquet" for shard in SHARDS["presample"] if CONFIG.presamples]
REFINEMENTS = [f"refine/{shard}.parquet" for shard in SHARDS["refine"]]
EVALUATIONS = [f"evaluate/{shard}.parquet" for shard in SHARDS["evaluate"]]
DRAWN = [f"<train>.{file}" for file in [*PRESAMPLES, *REFINEMENTS]]
SAMPLES = collect("{policy}/{dataset}.{sample}", policy=ASKED, dataset=SETS, sample=EVALUATIONS)
# A manifest (.json) has the digest of its folder and decides reruns; the folder is `ancient`. Recorded answers: none.
BASE_POLICY = "<results>/policies/base.json" if CONFIG.has_model else []
BASE_WEIGHTS = "<results>/policies/base" if CONFIG.has_model else []


def content(files):
    """The sha256 of the user's files, in their order. Snakemake compares an input only if it is newer than the output."""

    def digests(wildcards):
        named = files(wildcards)
        paths = [named] if isinstance(named, str) else named
        return [remembered_sha256(Path(path)) for path in paths if not path.startswith(f"{LAYOUT.root}/")]

    return digests


def from_step_before(path, at_first):
    """A file at the end of the segment before; `at_first` for the first segment, which starts at step 0."""

    def before(wildcards):
        step = LAYOUT.step_before(wildcards)
        return path.format(**{**wildcards, "step": step}) if step > 0 else at_first

    return before


def has(name):
    """A property of the method of a training (config/blocks/training.py)."""
    return lambda wildcards: getattr(CONFIG.methods[wildcards.method], name)


def shard_of_plan(policy, plan, wildcards):
    """Policy, plan, draw, dataset and shard of a sampling job; the cache between runs compares params alone."""
    names = dict(policy=policy, plan=plan, draw=wildcards.get("draw", DRAW), dataset=wildcards.dataset)
    return names | dict(shard=int(wildcards.shard), shards=len(SHARDS[plan]))


def in_draw(path):
    """A file of the draw of stage 1 that a training uses."""
    return lambda w: path.format(draw=LAYOUT.draw_of(w), stored=CONFIG.methods[w.method].stored)


def databases_of(wildcards):
    """The table of the user's databases, or none. It is `ancient`, its digest a param: a touched file reruns little."""
    name = wildcards.get("dataset", CONFIG.train_dataset)
    own = LAYOUT.has_own_databases(wildcards)
    return checkpoints.hash_databases.get(dataset=name).output.databases if own else []


# What a job reads that runs queries: the table of the user's databases, the embedded world, or nothing.
DATABASES = dict(
    databases=ancient(databases_of),
    world=branch(LAYOUT.has_toy_databases, then="<results>/toy.json"),
    toy_databases=ancient(branch(LAYOUT.has_toy_databases, then="<results>/toy/databases")),
)


def code(script, schemas=(), modules=()):
    """The code of a job as a param: a digest of its script, of all that this imports, and of the schemas it writes.

    Snakemake sees no import (docs/decisions/what-reruns.md). `modules`: those that are imported by a computed name.
    """
    sources = dict(sources=[script, *modules], schemas=list(schemas))
    return sources | dict(digest=code_digest(**sources))


def block(part, name):
    """A block of a stage's part of the configuration (config/slices.py) as a param, which footers record.

    The parameters of the part are wildcards of the job. It is a function, so that Snakemake does not fill in {name}
    within texts.
    """
    _, *fields = signature(part).parameters

    def of_job(wildcards):
        values = {"policy": BASE.method, "plan": "evaluate"} | dict(wildcards)
        return part(CONFIG, *(values[field] for field in fields))[name]

    return of_job


def not_compared(value):
    """A param whose change reruns nothing: Snakemake never compares a function of the output.

    `non_derived_items` in https://github.com/snakemake/snakemake/blob/v9.27.1/src/snakemake/rules.py
    """
    return lambda wildcards, output: value(wildcards) if callable(value) else value
