"""The part of the configuration that each stage depends on, as text that is the same for the same values.

What is not in a slice can change without a rerun: the number of shards and of workers, and what a path already says.
No slice names a file or folder: slices stand in footers, and a file is true wherever its inputs lie.
"""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from dphrl.config.config import Config


def canonical(value: BaseModel | Mapping[str, Any]) -> str:
    """Sorted compact JSON, with the defaults of models written out: equal values give equal text.

    Raises:
        ValueError: for a number that is not finite. TypeError: for a value that JSON does not have.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, default=_plain)


def _plain(value: object) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} has no place in a configuration slice")


NOTHING = canonical({})

# What a training's path or the number of its jobs already says, and where metrics are shown besides: a change of these
# leaves what is done as it is.
_NOT_IN_TRAIN = {"steps", "segment_steps", "eval_every", "seeds", "trackers"}


def nothing(config: Config) -> str:
    """The slice of a stage that depends on no key."""
    return NOTHING


def base(config: Config) -> str:
    """What the base policy depends on: the block toy, or nothing where it is the user's own."""
    return world(config) if config.policy.base is None else NOTHING


def world(config: Config) -> str:
    """What the toy's world and base model depend on."""
    return canonical(config.toy or {})


def prompts(config: Config, dataset: str) -> str:
    """What the prompts of `dataset` depend on."""
    return canonical({**_reading(config, dataset), **config.prompts.model_dump()})


def gold(config: Config, dataset: str) -> str:
    """What the audited gold answers of `dataset` depend on."""
    chosen = config.datasets[dataset]
    rules = {"comparison": chosen.comparison, "drop": sorted(chosen.drop)}
    return canonical({**_reading(config, dataset), **rules, **_scorer(config, dataset)})


def sample(config: Config, policy: str, dataset: str, plan: str) -> str:
    """What a plan's samples depend on: the engine and the plan, not the number of its jobs.

    Recorded answers have no engine and no seed; `first` is where a plan begins to take them.
    """
    chosen = getattr(config.sampling, plan).model_dump(mode="json", exclude={"shards", "n_by_dataset"})
    if plan == "evaluate":
        chosen["n"] = config.sampling.evaluate.samples(dataset)
    if dataset in config.replay.get(policy, {}):
        first = config.sampling.presample.n if plan == "refine" else 0
        return canonical({"engine": "replay", "plan": chosen, "first": first})
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
    return canonical({"dtype": config.train.dtype, **config.reference.model_dump()})


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
    chosen = config.evaluate
    rules = {"against": list(chosen.against), "claims": chosen.claims}
    return canonical({"k": list(chosen.k), "bootstrap": chosen.bootstrap, **rules})


def paper(config: Config) -> str:
    """What the paper's tables depend on: their columns, and which published figures stand beside them."""
    tasks = [(name, config.datasets[name].task) for name in config.evaluate.datasets]
    return canonical({"datasets": tasks, "published": config.evaluate.published, "methods": config.methods})


def figure(config: Config, published: object) -> str:
    """What a figure depends on: which published numbers it shows, if any."""
    return canonical({"published": config.evaluate.published}) if published else NOTHING


def report(config: Config) -> str:
    """What the page says of itself."""
    return canonical(config.report)


def _reading(config: Config, dataset: str) -> dict[str, Any]:
    """How the rows of `dataset` become prompts."""
    chosen = config.datasets[dataset]
    return {"task": chosen.task, "fields": chosen.fields, "instruction": chosen.instruction}


def _scorer(config: Config, dataset: str) -> dict[str, Any]:
    task = config.datasets[dataset].task
    block = config.scoring.of(task).model_dump(mode="json", exclude={"workers", "source"})
    return {"task": task, "scorer": block}
