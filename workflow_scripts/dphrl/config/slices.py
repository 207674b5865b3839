"""The part of the configuration that each stage depends on, as text that is the same for the same values.

What is not in a slice can change without a rerun: the number of workers, and values that are in the path.
A slice contains no file or folder: it is recorded in footers, which hold wherever the inputs are stored.
"""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from dphrl.config.blocks.datasets import SQL
from dphrl.config.blocks.engine import Plan
from dphrl.config.checks import trained_on
from dphrl.config.config import Config


def canonical(value: BaseModel | Mapping[str, Any]) -> str:
    """Sorted compact JSON, in which models have all their defaults: equal values give equal text.

    Raises `ValueError` for a number that is not finite, `TypeError` for a value without a JSON form.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, default=_plain)


def _plain(value: object) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(f"a configuration slice holds a {type(value).__name__}: expected a model or a JSON value")


NOTHING = canonical({})

# The schedule, the seed (it is in the path), trackers, what is kept: changes of these do not invalidate segments.
_NOT_IN_TRAIN = {"steps", "segment_steps", "eval_every", "seeds", "trackers", "keep_state"}


def nothing(config: Config) -> str:
    """For a stage that depends on no key."""
    return NOTHING


def base(config: Config) -> str:
    """For the base policy: the block `toy`, or nothing where the model is given."""
    return world(config) if config.policy.base is None else NOTHING


def world(config: Config) -> str:
    """For the toy's world and base model."""
    return canonical(config.toy or {})


def prompts(config: Config, dataset: str) -> str:
    """For the prompts of `dataset`."""
    return canonical({**_reading(config, dataset), **config.prompts.model_dump()})


def gold(config: Config, dataset: str) -> str:
    """For the audited gold answers of `dataset`."""
    chosen = config.datasets[dataset]
    rules = {"comparison": chosen.comparison, "drop": sorted(chosen.drop)}
    return canonical({**_reading(config, dataset), **rules, **_scorer(config, dataset)})


def sample(config: Config, policy: str, dataset: str, plan: Plan) -> str:
    """For the samples of a plan: the engine and the plan, without the number of jobs.

    Recorded responses have no engine and no seed; `first` is the index of the first one that the plan uses.
    """
    chosen = getattr(config.sampling, plan).model_dump(mode="json", exclude={"shards", "n_by_dataset"})
    if plan == "evaluate":
        chosen["n"] = config.sampling.evaluate.samples(dataset)
    if dataset in config.replay.get(policy, {}):
        first = config.sampling.presample.n if plan == "refine" else 0
        return canonical({"engine": "replay", "plan": chosen, "first": first})
    return canonical({"engine": config.engine.of(plan), "plan": chosen, "seed": config.seed})


def scoring(config: Config, dataset: str) -> str:
    """For the verdicts on `dataset`: the scorer of its task, without the number of workers."""
    return canonical(_scorer(config, dataset))


def candidates(config: Config) -> str:
    """For the choice of the candidates by pre-samples."""
    rule = config.partition.model_dump(mode="json", exclude={"on_reject"})
    return canonical({"n": config.sampling.presample.n, "partition": rule})


def partition(config: Config) -> str:
    """For the decision on the candidates by refinement samples."""
    return canonical({"on_reject": config.partition.on_reject})


def reference(config: Config) -> str:
    """For the reference log-probs, which are computed by the training forward pass."""
    return canonical({"dtype": config.train.dtype, **config.reference.model_dump()})


def train(config: Config, method: str) -> str:
    """For the training of `method`: its block, the block train without schedule and seeds, engine and scorer.

    Adding a method, a seed or steps changes no existing slice.
    """
    block = config.train.model_dump(mode="json", exclude=_NOT_IN_TRAIN)
    scorer = _scorer(config, config.train_dataset)
    chosen = config.methods[method].model_dump(mode="json", exclude={"steps"})
    # A rank replaces prompts among those it has: of the hardware only this decides what is trained.
    scorer |= {"ranks": config.hardware.ranks} if chosen["refills"] else {}
    return canonical({"train": block, "method": chosen, "engine": config.engine.of("rollouts"), **scorer})


def evaluate(config: Config, dataset: str) -> str:
    """For the evaluation of a policy on `dataset`."""
    rules = config.evaluate.styles.get(config.datasets[dataset].task, ())
    return canonical({"styles": [rule.model_dump(mode="json") for rule in rules]})


def training(config: Config) -> str:
    """For the tables about the trainings: the styles of the probes' answers."""
    return evaluate(config, config.train_dataset)


def tables(config: Config) -> str:
    """For the tables over all policies."""
    chosen = config.evaluate
    rules = {"against": list(chosen.against), "claims": chosen.claims, "roles": config.roles}
    return canonical({"k": list(chosen.k), "bootstrap": chosen.bootstrap, **rules})


def paper(config: Config) -> str:
    """For the paper's tables: their columns, and which published numbers they show."""
    tasks = [(name, config.datasets[name].task) for name in config.evaluate.datasets]
    return canonical({"datasets": tasks, "published": config.evaluate.published, "methods": config.methods})


def figure(config: Config, published: object) -> str:
    """For a figure: which published numbers it shows, if any."""
    return canonical({"published": config.evaluate.published}) if published else NOTHING


def report(config: Config) -> str:
    """For the texts of the report page: those given, and what a reader must know of its evaluation sets."""
    notes = (*config.report.notes, *trained_on(config))
    return canonical(config.report.model_copy(update={"notes": notes}))


def cards(config: Config) -> str:
    """For the model cards: the datasets with their tasks, and the confidence of intervals."""
    tasks = {name: dataset.task for name, dataset in config.datasets.items()}
    of_intervals = {"confidence": config.evaluate.bootstrap.confidence}
    return canonical({"train_dataset": config.train_dataset, "tasks": tasks, **of_intervals})


def _reading(config: Config, dataset: str) -> dict[str, Any]:
    """The keys that decide how rows of `dataset` become prompts."""
    chosen = config.datasets[dataset]
    return {"task": chosen.task, "fields": chosen.fields, "instruction": chosen.instruction}


def _scorer(config: Config, dataset: str) -> dict[str, Any]:
    task = config.datasets[dataset].task
    block = config.scoring.of(task).model_dump(mode="json", exclude={"workers", "source"})
    if task == SQL and dataset == config.train_dataset and block["repair"] == "auto":
        # The published reward repairs queries under every comparison.
        block["repair"] = "always"
    if answer := config.datasets[dataset].answer:
        block["answer"] = answer
    return {"task": task, "scorer": block}
