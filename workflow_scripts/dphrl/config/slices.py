"""The part of the configuration that each stage depends on, as text that is the same for the same values.

What is not in a slice can change without a rerun: the number of shards and of workers, and what a path already says.
No slice names a file or folder: slices stand in footers, and a file is true wherever its inputs lie.
"""

from typing import Any

from dphrl.config.canonical import canonical
from dphrl.config.root import Config

__all__ = [
    "NOTHING",
    "candidates",
    "evaluate",
    "partition",
    "prompts",
    "reference",
    "report",
    "sample",
    "scoring",
    "tables",
    "train",
    "world",
]

NOTHING = canonical({})

# What a training's path or the number of its jobs already says: a change of these leaves what is done as it is.
_NOT_IN_TRAIN = {"steps", "segment_steps", "eval_every", "seeds"}


def world(config: Config) -> str:
    """What the toy's world and base model depend on."""
    return canonical(config.toy or {})


def prompts(config: Config, dataset: str) -> str:
    """What the prompts of `dataset` depend on."""
    return canonical({"task": config.datasets[dataset].task, **config.prompts.model_dump()})


def sample(config: Config, plan: str) -> str:
    """What a plan's samples depend on: the engine and the plan, not the number of its jobs."""
    chosen = getattr(config.sampling, plan).model_dump(mode="json", exclude={"shards"})
    return canonical({"engine": config.engine, "plan": chosen, "seed": config.seed})


def scoring(config: Config, dataset: str) -> str:
    """What verdicts on `dataset` depend on: the scorer of its task, not the number of its workers."""
    return canonical(_scorer(config, dataset))


def candidates(config: Config) -> str:
    """What the division by pre-samples depends on."""
    rule = config.partition.model_dump(mode="json", exclude={"on_reject"})
    return canonical({"n": config.sampling.presample.n, "partition": rule})


def partition(config: Config) -> str:
    """What the settling of the candidates depends on."""
    return canonical({"on_reject": config.partition.on_reject})


def reference(config: Config) -> str:
    """What the reference log-probs depend on: they are those of the training forward pass."""
    return canonical({"dtype": config.train.dtype, "token_budget": config.reference.token_budget})


def train(config: Config, method: str) -> str:
    """What the training of `method` depends on: its own block, the block train without schedule and seeds, the engine
    and the scorer. Adding a method, a seed or steps changes no slice that exists.
    """
    block = config.train.model_dump(mode="json", exclude=_NOT_IN_TRAIN)
    scorer = _scorer(config, config.train_dataset)
    return canonical({"train": block, "method": config.methods[method], "engine": config.engine, **scorer})


def evaluate(config: Config, dataset: str) -> str:
    """What the evaluation of a policy on `dataset` depends on."""
    rules = config.evaluate.styles.get(config.datasets[dataset].task, ())
    return canonical({"styles": [rule.model_dump(mode="json") for rule in rules]})


def tables(config: Config) -> str:
    """What the tables over all policies depend on."""
    return canonical({"k": list(config.evaluate.k), "bootstrap": config.evaluate.bootstrap})


def report(config: Config) -> str:
    """What the page says of itself."""
    return canonical(config.report)


def _scorer(config: Config, dataset: str) -> dict[str, Any]:
    task = config.datasets[dataset].task
    block = getattr(config.scoring, task).model_dump(mode="json", exclude={"workers", "databases"})
    return {"task": task, "scoring": {task: block}}
