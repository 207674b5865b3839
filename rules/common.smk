# Paths, wildcards and the params that every stage carries.
import re
from itertools import product

from dphrl.artifacts import code_digest
from dphrl.config import slices

RESULTS = f"results/{CONFIG.run}"
TRAINED = "|".join(map(re.escape, CONFIG.methods))


wildcard_constraints:
    policy=rf"base|({TRAINED})-s\d+/step\d+",
    dataset="|".join(map(re.escape, CONFIG.datasets)),
    plan="presample|refine|evaluate",
    shard=r"\d+",
    method=TRAINED,
    seed=r"\d+",
    step=r"\d+",


def stage_params(modules, schemas, config, seed=None):
    """What Snakemake compares to decide on a rerun, and what the footers say.

    Snakemake does not see imported modules, so their digest is a param; `config` is the stage's slice of the config
    as canonical text, or a function of the wildcards that gives it.
    """
    code = code_digest(modules, schemas)
    return {
        "modules": modules,
        "schemas": schemas,
        "code": code,
        "config": config,
        "seed": seed,
    }


def slice_of(part, wildcard):
    """A stage's slice of the config as a function of its wildcards: `part` of the value of `wildcard`."""

    def of(wildcards):
        return part(CONFIG, wildcards[wildcard])

    return of


def timings(path):
    """Where a stage writes how long it took: `path` repeats its wildcards."""
    return f"{RESULTS}/timings/{path}.parquet"


def manifest(policy):
    """The manifest of a policy's folder."""
    return f"{RESULTS}/policies/{policy}/manifest.json"


def steps(every):
    """The steps at which something happens."""
    return range(every, CONFIG.train.steps + 1, every)


def policies():
    """Method, seed and step of every policy that is evaluated, by its value of the wildcard `policy`."""
    chosen = {"base": ("base", 0, 0)}
    for method, seed, step in product(
        CONFIG.methods, CONFIG.train.seeds, steps(CONFIG.train.eval_every)
    ):
        chosen[f"{method}-s{seed}/step{step}"] = (method, seed, step)
    return chosen


def segments():
    """Method, seed and last step of every segment of every training."""
    return [
        *product(CONFIG.methods, CONFIG.train.seeds, steps(CONFIG.train.segment_steps))
    ]


def shards(kind, policy, dataset, plan):
    """All shards of a plan's rollouts or verdicts."""
    numbers = range(getattr(CONFIG.sampling, plan).shards)
    return expand(
        f"{RESULTS}/{kind}/{policy}/{dataset}.{plan}/{{shard}}.parquet", shard=numbers
    )


def rollout_shards(policy, dataset, plan):
    """All shards of a plan's rollouts."""
    return shards("rollouts", policy, dataset, plan)


def verdict_shards(policy, dataset, plan):
    """All shards of a plan's verdicts."""
    return shards("verdicts", policy, dataset, plan)


def evaluations():
    """The evaluations of the base policy and of every trained one, on every evaluation set."""
    pattern = f"{RESULTS}/evaluation/{{policy}}/{{dataset}}.parquet"
    return expand(pattern, policy=policies(), dataset=CONFIG.evaluate.datasets)


def world_of(wildcards):
    """The toy's manifest where a dataset's databases or rows are the toy's."""
    dataset = CONFIG.datasets[wildcards.dataset]
    databases = dataset.task == "sql" and CONFIG.scoring.sql.databases == "toy"
    return (
        f"{RESULTS}/toy/manifest.json" if databases or dataset.source == "toy" else []
    )


def source_of(wildcards):
    """The file that a dataset's rows come from."""
    source = CONFIG.datasets[wildcards.dataset].source
    return (
        f"{RESULTS}/toy/questions/{wildcards.dataset}.jsonl"
        if source == "toy"
        else source
    )


def databases_folder():
    """The folder of the SQL databases."""
    databases = CONFIG.scoring.sql.databases
    return f"{RESULTS}/toy/databases" if databases == "toy" else databases


def closing_words():
    """What the terminal says at the end of a run: the headline table, and where the report is."""
    table = Path(f"{RESULTS}/tables/headline.md")
    page = Path(f"{RESULTS}/report/index.html")
    words = table.read_text() if table.exists() else ""
    return f"\n{words}\nThe report: {page.resolve()}" if page.exists() else words
