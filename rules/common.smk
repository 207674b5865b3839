# Paths, wildcards and the params that every stage carries.
import re
from itertools import product

from dphrl.artifacts.code import code_digest
from dphrl.config import slices
from dphrl.config.blocks.datasets import TOY

RESULTS = f"results/{CONFIG.run}"
# Whether this run shares costly files with others (`--cache`). Marked without it, every such rule gives a warning.
SHARED = workflow.workflow_settings.cache is not None
TRAINED = "|".join(map(re.escape, CONFIG.methods))
GIVEN = "|".join(["base", *map(re.escape, CONFIG.replay)])


wildcard_constraints:
    policy=rf"{GIVEN}|({TRAINED})-s\d+/step\d+",
    dataset="|".join(map(re.escape, CONFIG.datasets)),
    plan="presample|refine|evaluate",
    shard=r"\d+",
    method=TRAINED,
    seed=r"\d+",
    step=r"\d+",


def stage_params(script, schemas, config, seed=None):
    """What Snakemake compares to decide on a rerun, and what the footers say.

    Snakemake does not see what a script imports, so the digest of that is a param; `config` is the stage's slice of
    the config as canonical text, or a function of the wildcards that gives it.
    """
    code = code_digest([script], schemas)
    return {
        "sources": [script],
        "schemas": schemas,
        "code": code,
        "config": config,
        "seed": seed,
    }


def slice_of(part, *names):
    """A stage's slice of the config as a function of its wildcards: `part` of the values of those `names`."""

    def of(wildcards):
        return part(CONFIG, *(wildcards[name] for name in names))

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
    chosen = {name: (name, 0, 0) for name in ["base", *CONFIG.replay]}
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


def with_model(files):
    """What needs a model: nothing where a run has recorded answers only."""
    return files if CONFIG.has_model else []


def source_of(wildcards):
    """The file that a dataset's rows come from."""
    source = CONFIG.datasets[wildcards.dataset].source
    toy = f"{RESULTS}/toy/questions/{wildcards.dataset}.jsonl"
    return toy if source == TOY else source


def database_folder(wildcards):
    """The folder of a dataset's databases; none for a task without."""
    folder = CONFIG.datasets[wildcards.dataset].database_folder
    return f"{RESULTS}/toy/databases" if folder == TOY else folder


def databases_of(wildcards):
    """What stands for the databases among the inputs: the toy's manifest, or each file."""
    folder = CONFIG.datasets[wildcards.dataset].database_folder
    if folder == TOY:
        return f"{RESULTS}/toy/manifest.json"
    return sorted(map(str, Path(folder).glob("*/*.sqlite"))) if folder else []


def scorer_of(wildcards):
    """The file of a custom scorer."""
    task = CONFIG.datasets[wildcards.dataset].task
    custom = CONFIG.scoring.custom
    return custom[task].source if task in custom else []


def workers_of(wildcards):
    """Worker processes that judge answers of a dataset's task."""
    return CONFIG.scoring.of(CONFIG.datasets[wildcards.dataset].task).workers


def closing_words():
    """What the terminal says at the end of a run: the headline table, and where the report is."""
    table = Path(f"{RESULTS}/tables/headline.md")
    page = Path(f"{RESULTS}/report/index.html")
    words = table.read_text() if table.exists() else ""
    return f"\n{words}\nThe report: {page.resolve()}" if page.exists() else words
