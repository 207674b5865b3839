"""The blocks of the configuration that each stage depends on: the params of its rule, and the `config` of its footer.

A key that is in no block can change without a rerun: the number of workers, and values that are in the path.
A block contains no file or folder: footers record it, and they hold wherever the inputs are stored. The user's
functions are an exception, FILE.py:NAME, because they name a method.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from dphrl.config.blocks.data import SQL
from dphrl.config.blocks.sampling import Plan
from dphrl.config.config import Config
from dphrl.config.notices import caveats

Blocks = dict[str, Any]


def canonical(value: BaseModel | Mapping[str, Any]) -> Blocks:
    """The values in JSON types, with keys sorted at every level and models with all their defaults.

    Snakemake compares params by `repr`, in which the order of keys and the type of a sequence count.
    """
    text = json.dumps(value, sort_keys=True, default=lambda model: model.model_dump(mode="json"))
    plain: Blocks = json.loads(text)
    return plain


# No segment depends on these keys: schedule, seeds and draws are in paths, the others change no result.
_NOT_IN_TRAIN = {"steps", "segment_steps", "eval_every", "seeds", "draws", "trackers", "keep_state"}


def base(config: Config) -> Blocks:
    """For the base policy: `toy`, or the supervised start; nothing where `policy.base` is the base as it is."""
    if supervised := config.policy.supervised:
        keys = supervised.model_dump(mode="json", exclude={"source"})
        return canonical({"supervised": keys, "prompts": {"template": config.prompts.template}})
    return world(config) if config.policy.base is None else {}


def world(config: Config) -> Blocks:
    """For the embedded world and its base model."""
    return canonical({"toy": config.toy or {}})


def prompts(config: Config, dataset: str) -> Blocks:
    """For the prompts of `dataset`."""
    # Whether a prompt ends inside of a thought is a fact of the prompt.
    thoughts = config.scoring.thoughts
    return canonical({"reading": _reading(config, dataset), "prompts": config.prompts, "thoughts": thoughts})


def gold(config: Config, dataset: str) -> Blocks:
    """For the checked gold answers of `dataset`."""
    entry = config.datasets[dataset]
    rules = {"comparison": entry.comparison, "drop": sorted(entry.drop)}
    return canonical({"reading": _reading(config, dataset), "gold": rules, **_scorer(config, dataset)})


def sample(config: Config, policy: str, dataset: str, plan: Plan) -> Blocks:
    """For the samples of a plan: the engine and the plan, without the number of jobs.

    Recorded responses need no engine. `first` is the index of the first response that the plan uses, `template` decides
    their end token. A policy whose name ends with a temperature (`Layout.hotter`) is drawn at it, without a greedy
    response.
    """
    keys = getattr(config.sampling, plan).model_dump(mode="json", exclude={"shards", "n_by_dataset"})
    if plan == "evaluate":
        keys["n"] = config.sampling.evaluate.samples(dataset)
    if temperature := policy.partition("/t")[2]:
        keys |= {"temperature": float(temperature), "greedy": False}
    if dataset in config.replay.get(policy, {}):
        # Samples of the refinement follow the pre-samples.
        first = config.sampling.presample.n if plan == "refine" and config.presamples else 0
        engine = {"name": "replay", "first": first, "template": config.prompts.template}
        return canonical({"engine": engine, "plan": keys})
    return canonical({"engine": config.engine.of(plan), "plan": keys})


def scoring(config: Config, dataset: str) -> Blocks:
    """For the verdicts on `dataset`: the scorer of its task without the number of workers, and tags of thoughts."""
    return canonical({**_scorer(config, dataset), "thoughts": config.scoring.thoughts})


def candidates(config: Config) -> Blocks:
    """For the choice of candidates, by pre-samples or by two files, which `fields` describes."""
    rule = config.partition.model_dump(mode="json", exclude={"on_reject", "given", "allow_empty"})
    if not config.partition.given:
        return canonical({"n": config.sampling.presample.n, "partition": rule, "fields": None})
    return canonical({"n": None, "partition": None, "fields": config.datasets[config.train_dataset].fields})


def partition(config: Config) -> Blocks:
    """For the decision on the candidates by refinement samples."""
    return canonical({"on_reject": config.partition.on_reject})


def reference(config: Config, stored: str) -> Blocks:
    """For a set of stored responses: which they are, and log-probs, which are computed by the training forward pass."""
    rows = config.stored[stored].model_dump(include={"rehearse", "rows_per_question"})
    return canonical({"dtype": config.train.dtype, **config.reference.model_dump(), **rows})


def train(config: Config, method: str) -> Blocks:
    """For the training of `method`: its block, the block train without schedule and seeds, engine and scorer.

    Adding a method, a seed or steps changes no existing slice.
    """
    block = config.methods[method]
    blocks = {
        "train": config.train.model_dump(mode="json", exclude=_NOT_IN_TRAIN),
        "method": block.model_dump(mode="json", exclude={"steps", "seeds"}),
        "engine": config.engine.of("rollouts"),
        # With dynamic sampling, a rank replaces prompts among its own prompts, so `ranks` decides the rollouts.
        "ranks": config.hardware.ranks if block.dynamic_sampling_rounds else None,
        "thoughts": config.scoring.thoughts,
    }
    return canonical(blocks | _scorer(config, config.train_dataset))


def evaluate(config: Config, dataset: str) -> Blocks:
    """For the evaluation of a policy on `dataset`."""
    rules = config.evaluate.styles.get(config.datasets[dataset].task, ())
    return canonical({"styles": [rule.model_dump(mode="json") for rule in rules]})


def tables(config: Config) -> Blocks:
    """For the tables over all policies."""
    keys = config.evaluate.model_dump(include={"k", "frontier_from", "against", "claims"})
    return canonical({"evaluate": keys | {"roles": config.roles}})


def report(config: Config) -> Blocks:
    """For the report page: title, and notes with the caveats of its evaluation sets and draws."""
    notes = (*config.report.notes, *caveats(config))
    return canonical({"report": {"title": config.report.title, "notes": notes}})


def samples(config: Config) -> Blocks:
    """For the pages of samples: their size."""
    return canonical({"samples": config.report.samples})


def cards(config: Config) -> Blocks:
    """For the model cards: the datasets with their tasks, and the supervised start."""
    tasks = {name: dataset.task for name, dataset in config.datasets.items()}
    start = config.policy.supervised
    supervised = f"{start.steps} updates on {Path(start.source).name}" if start else None
    run = {"train_dataset": config.train_dataset, "tasks": tasks, "supervised": supervised}
    return canonical({"cards": run})


def _reading(config: Config, dataset: str) -> dict[str, Any]:
    """Keys for the step from rows of `dataset` to prompts."""
    return config.datasets[dataset].model_dump(include={"task", "fields", "instruction", "prefill"})


def _scorer(config: Config, dataset: str) -> dict[str, Any]:
    task = config.datasets[dataset].task
    block = config.scoring.of(task).model_dump(mode="json", exclude={"workers", "source"})
    if task == SQL and dataset == config.train_dataset and block["repair"] == "auto":
        # The published reward repairs queries under every comparison.
        block["repair"] = "always"
    if answer := config.datasets[dataset].answer:
        block["answer"] = answer
    return {"task": task, "scorer": block}
