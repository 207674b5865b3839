"""The work of a run: how many prompts of which length, then the tokens, operations and disk of every stage.

Lengths are measured where a stage of the run is done, else assumed. Operations are those of the model's products: 2 for
each parameter and token of a forward pass, 6 with a backward pass, 8 if the backward pass repeats the forward pass. An
engine computes each prompt once for all of its samples.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, get_args

import polars as pl

from dphrl.config.blocks.data import TOY
from dphrl.config.blocks.sampling import Plan
from dphrl.config.config import Config
from dphrl.data.partition_counts import stored_rows
from dphrl.data.records import read_source
from dphrl.plan.memory import ModelShape, Setting, training_bytes
from dphrl.store.layout import Layout
from dphrl.store.policy_names import BASE, DRAW

PLANS: Final[tuple[Plan, ...]] = get_args(Plan)
# Operations/s that updates reach: about those of a core in float32 (docs/benchmarks.md), and 140 to 380 * 10^12 were
# measured on a GPU (docs/gpu.md).
REACHED: Final = {"core": 3e10, "GPU": 2e14}
# Seconds of a core or GPU for each job with the model beside its products: imports, the engine's start, verdicts and
# tables. By this the demo, with 26 such jobs, takes 5 minutes; 5 min 16 s were measured (docs/benchmarks.md).
_OF_JOB: Final = 10.0
# Mean tokens of a prompt and of a response, in the embedded world and elsewhere. BIRD's prompts hold whole schemas.
_OF_WORLD: Final = {"sql": (41.0, 20.0), "math": (22.0, 11.0)}
_REAL: Final = {"sql": (3000.0, 400.0), "math": (150.0, 1000.0)}
_OF_CUSTOM_TASK: Final = (500.0, 500.0)
# Prompts of a dataset whose file is missing.
ASSUMED_PROMPTS: Final = 1000
# Shares of the training prompts in D_pef, with a right pre-sample, and with right and wrong ones, before the partition
# is known.
_REHEARSED: Final = {"pef": 0.4, "right": 0.8, "boundary": 0.5}
# Mean tokens of a row of the corpus on which the world's base model is trained.
_ROW: Final = 62
# Bytes of a token in the tables: its id, log-prob, text, and the verdict on the response, compressed.
_TOKEN_BYTES: Final = 8


@dataclass(frozen=True)
class Sizes:
    """Counts and mean lengths in tokens, by dataset.

    Attributes:
        prompts: number of prompts of each dataset.
        prompt_tokens, response_tokens: mean lengths.
        stored: number of stored responses, by the name of their set; `reference` has one for each prompt of D_pef.
        measured: datasets with drawn responses, whose lengths are measured.
        absent: missing files of questions, whose number of prompts is assumed.
        share_of_rounds: share of a method's `dynamic_sampling_rounds` that a step uses on average.
    """

    prompts: dict[str, int]
    prompt_tokens: dict[str, float]
    response_tokens: dict[str, float]
    stored: Mapping[str, float]
    measured: frozenset[str] = frozenset()
    absent: tuple[str, ...] = ()
    share_of_rounds: float = 0.5


def sizes_of(config: Config, folder: Path) -> Sizes:
    """The sizes of a run; `folder` holds its files and its datasets."""
    layout, train = Layout(config), config.train_dataset
    prompts, prompt_tokens, response_tokens, measured = {}, {}, {}, set()
    for name in sorted(config.datasets, key=lambda name: name != train):
        kind, plan = ("drawn_rollouts", "presample") if name == train else ("rollouts", "evaluate")
        shards = range(getattr(config.sampling, plan).shards)
        fields = {"policy": BASE, "draw": DRAW, "dataset": name, "plan": plan}
        files = [folder / layout.path(kind, **fields, shard=shard) for shard in shards]
        prompts[name], prompt_tokens[name] = prompts_of(config, name, folder)
        limit = getattr(config.sampling, plan).max_tokens
        if all(file.exists() for file in files):
            _, response_tokens[name] = _count_and_mean(files, "token_ids")
            measured.add(name)
        elif train in measured and config.datasets[name].task == config.datasets[train].task:
            response_tokens[name] = min(response_tokens[train], limit)
        else:
            # A limit is longer than nearly all responses.
            response_tokens[name] = min(_means(config, name)[1], limit / 2)
    partition, rules = folder / layout.path("partition", draw=DRAW), config.stored
    if partition.exists():
        counts = {name: stored_rows(rule.rehearse, rule.rows_per_question).sum() for name, rule in rules.items()}
        stored = pl.scan_parquet(partition).select(**counts).collect().row(0, named=True)
    else:
        count = prompts.get(train, 0)
        stored = {name: _REHEARSED[rule.rehearse] * rule.rows_per_question * count for name, rule in rules.items()}
    absent = tuple(
        dataset.source
        for name, dataset in config.datasets.items()
        if dataset.source != TOY
        and not (folder / dataset.source).exists()
        and not (folder / layout.path("prompts", dataset=name)).exists()
    )
    return Sizes(prompts, prompt_tokens, response_tokens, stored, frozenset(measured), absent)


def prompts_of(config: Config, name: str, folder: Path) -> tuple[int, float]:
    """The number of prompts of a dataset and their mean length in tokens.

    Both are measured in its table of prompts. Without the table, each row of its file is a prompt of assumed length;
    without the file there are `ASSUMED_PROMPTS`.

    Raises `OSError` or `ValueError` for a file that cannot be read.
    """
    table = folder / Layout(config).path("prompts", dataset=name)
    if table.exists():
        return _count_and_mean([table], "prompt_token_ids")
    source, rows = config.datasets[name].source, ASSUMED_PROMPTS
    if source == TOY:
        rows = int(getattr(config.toy and config.toy.questions, name))
    elif (folder / source).exists():
        rows = _rows_of_file(folder / source)
    return rows, min(_means(config, name)[0], config.prompts.max_tokens)


def _means(config: Config, name: str) -> tuple[float, float]:
    """Assumed tokens of a prompt and of a response of a dataset."""
    dataset = config.datasets[name]
    return (_OF_WORLD if dataset.source == TOY else _REAL).get(dataset.task, _OF_CUSTOM_TASK)


@cache
def _rows_of_file(file: Path) -> int:
    if file.suffix == ".parquet":
        # The number is in the footer. Reading the 1.8 million rows of DAPO-17k would take half a minute.
        with suppress(pl.exceptions.PolarsError):
            return int(pl.scan_parquet(file, glob=False).select(pl.len()).collect().item())
    return len(read_source(file))


def _count_and_mean(tables: list[Path], column: str) -> tuple[int, float]:
    """The number of rows of the tables, and the mean length of their lists of tokens."""
    length = pl.col(column).list.len()
    count, mean = pl.scan_parquet(tables).select(count=pl.len(), mean=length.mean()).collect().row(0)
    return count, mean or 0.0


@dataclass(frozen=True)
class Stage:
    """A stage of the workflow that uses the model.

    Attributes:
        jobs: number of jobs.
        gpus: GPUs (or CPU cores) that each job occupies.
        drawn: tokens of responses that an engine draws.
        passed: tokens in forward passes, or in forward and backward passes; prompts included.
        operations: of the model's products, in all jobs.
        size: bytes on disk.
    """

    name: str
    jobs: int
    gpus: int
    drawn: float
    passed: float
    operations: float
    size: float

    def seconds(self, speed: float) -> float:
        """Seconds of one GPU or core that reaches so many operations/s, in all jobs."""
        return self.operations / speed + _OF_JOB * self.jobs * self.gpus


def stages(config: Config, shape: ModelShape, sizes: Sizes) -> list[Stage]:
    """The stages in the order in which they start; one for each method that is trained."""
    sampled = {plan: samples_stage(config, plan, shape, sizes, drawn_datasets(config, plan)) for plan in PLANS}
    trainings = [
        training_stage(config, name, shape, sizes, len(config.seeds(name)), config.steps(name))
        for name in config.methods
    ]
    reference = [reference_stage(config, shape, sizes)] if trainings else []
    first = [base_stage(config, shape), sampled["presample"], sampled["refine"]]
    return [stage for stage in [*first, *reference, *trainings, sampled["evaluate"]] if stage.jobs]


def drawn_datasets(config: Config, name: Plan) -> list[str]:
    """The datasets of a plan, once for each policy, temperature or draw whose samples are not recorded."""
    layout = Layout(config)
    if name == "evaluate":
        policies = [*map(str, layout.policies()), *layout.hotter()]
        datasets = config.evaluate.datasets
        return [name for policy in policies for name in datasets if name not in config.replay.get(policy, {})]
    # The base draws pre-samples and refinement once for each draw of stage 1.
    drawn = not config.replays_training_set and (config.presamples or name == "refine")
    return [str(config.train_dataset)] * len(layout.draws()) if drawn else []


def step_tokens(config: Config, name: str, sizes: Sizes) -> tuple[float, float]:
    """Tokens of a step of a method: drawn ones, and those in forward and backward passes, prompts included.

    The rollouts of a question share its prompt, unless prompt_sharing is off. Each stored response needs its own.
    """
    train, method, dataset = config.train, config.methods[name], config.train_dataset
    stored = train.rehearsal_per_step if method.rehearses else 0
    rollouts, length = train.prompts_per_step * train.rollouts_per_prompt, sizes.response_tokens[dataset]
    # A prompt that dynamic sampling replaces costs its responses once more.
    drawn = rollouts * (1 + sizes.share_of_rounds * method.dynamic_sampling_rounds) * length
    prompts = stored + (rollouts if config.hardware.prompt_sharing == "off" else train.prompts_per_step)
    return drawn, train.ppo_epochs * ((rollouts + stored) * length + prompts * sizes.prompt_tokens[dataset])


def base_stage(config: Config, shape: ModelShape) -> Stage:
    """The supervised training that makes the base policy, which is stored in float32."""
    training, tokens = config.base_training, 0.0
    if training is not None:
        start = config.policy.supervised
        tokens = training.steps * training.batch * (start.max_tokens / 2 if start else _ROW)
    jobs = int(training is not None)
    return Stage("base model", jobs, 1, 0.0, tokens, 6.0 * shape.parameters * tokens, 4.0 * shape.parameters)


def samples_stage(config: Config, name: Plan, shape: ModelShape, sizes: Sizes, datasets: Sequence[str]) -> Stage:
    """The sampling of a plan on these datasets, each once for each time that it stands there."""
    plan, drawn, passed = getattr(config.sampling, name), 0.0, 0.0
    for dataset in datasets:
        count = sizes.stored["reference"] if name == "refine" else sizes.prompts[dataset]
        samples = config.sampling.evaluate.samples(dataset) if name == "evaluate" else plan.n
        drawn += count * (samples + plan.greedy) * sizes.response_tokens[dataset]
        passed += count * sizes.prompt_tokens[dataset]
    jobs, gpus = len(datasets) * plan.shards, config.hardware.tensor_parallel
    return Stage(name, jobs, gpus, drawn, passed, 2.0 * shape.parameters * (drawn + passed), _TOKEN_BYTES * drawn)


def reference_stage(config: Config, shape: ModelShape, sizes: Sizes) -> Stage:
    """The log-probs of the stored responses, four bytes for each of their tokens."""
    dataset, draws = config.train_dataset, len(Layout(config).draws())
    rows, ranks = draws * sum(sizes.stored.values()), config.hardware.reference_ranks
    responses = rows * sizes.response_tokens[dataset]
    tokens, jobs = responses + rows * sizes.prompt_tokens[dataset], draws * len(sizes.stored)
    return Stage("reference", jobs, ranks, 0.0, tokens, 2.0 * shape.parameters * tokens, 4.0 * responses)


def training_stage(config: Config, name: str, shape: ModelShape, sizes: Sizes, seeds: int, steps: int) -> Stage:
    """All segments of trainings of so many steps of a method, with their probes, of which the first is at the start."""
    train, dataset, hardware = config.train, config.train_dataset, config.hardware
    drawn, passed = (seeds * steps * tokens for tokens in step_tokens(config, name, sizes))
    pef = sizes.stored["reference"]
    probed = sum(min(train.probe.prompts, size) for size in (pef, sizes.prompts[dataset] - pef))
    probes = seeds * (1 + steps // train.probe.every)
    drawn += probes * train.probe.samples * probed * sizes.response_tokens[dataset]
    operations = shape.parameters * (2.0 * drawn + (8 if hardware.gradient_checkpointing else 6) * passed)
    size = seeds * training_bytes(shape, Setting.of(config, name, shape), train, steps)
    jobs = seeds * -(-steps // train.segment_steps)
    return Stage(f"training {name}", jobs, hardware.ranks, drawn, passed, operations, size)
