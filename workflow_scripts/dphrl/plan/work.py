"""The work of a run: how many prompts of which length, how fast this machine is, then the cost of every stage.

Lengths and speeds are measured where a stage of the run is done. Before that, lengths are assumed, and the speed is
that of a matrix product on this machine. No stage is faster, so these seconds are a lower bound.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self, get_args

import polars as pl

from dphrl.config.blocks.data import TOY
from dphrl.config.blocks.sampling import Plan
from dphrl.config.config import Config
from dphrl.hub import GGUF
from dphrl.layout.names import BASE, DRAW
from dphrl.layout.run import Layout
from dphrl.plan.memory import ModelShape, Setting, training_bytes
from dphrl.sample_files.records import read_source

PLANS: Final[tuple[Plan, ...]] = get_args(Plan)
# Mean tokens of a prompt and of a response: in the embedded world, and of real models, where BIRD's prompts hold whole
# schemas.
_OF_WORLD: Final = {"sql": (41.0, 20.0), "math": (22.0, 11.0)}
_REAL: Final = {"sql": (3000.0, 400.0), "math": (150.0, 1000.0)}
_OF_CUSTOM_TASK: Final = (500.0, 500.0)
# Prompts of a dataset whose file is missing.
ASSUMED_PROMPTS: Final = 1000
# Share of the training prompts in D_pef, before the partition is known.
_PEF: Final = 0.4
# Mean tokens of a row of the corpus on which the world's base model is trained.
_ROW: Final = 62
# Bytes of a token in the tables: its id, log-prob, text, and the verdict on the response, compressed.
_TOKEN_BYTES: Final = 8
# Stage, plan and part in the timings of a run that measure each rate.
_SPEEDS: Final = {"rollout": ("train_segment", "", "generate"), "train": ("train_segment", "", "train")}
_START: Final = ("train_segment", "", "start")
_BASE: Final = ("train_base", "", "train")


@dataclass(frozen=True)
class Sizes:
    """Counts and mean lengths in tokens, by dataset.

    Attributes:
        prompts: number of prompts of each dataset.
        prompt_tokens, response_tokens: mean lengths.
        pef: number of prompts in D_pef.
        measured: datasets with drawn responses, whose lengths are measured.
        absent: missing files of questions, whose number of prompts is assumed.
        share_of_rounds: share of a method's `dynamic_sampling_rounds` that a step uses on average.
    """

    prompts: dict[str, int]
    prompt_tokens: dict[str, float]
    response_tokens: dict[str, float]
    pef: float
    measured: frozenset[str]
    absent: tuple[str, ...] = ()
    share_of_rounds: float = 0.5


def sizes_of(config: Config, folder: Path) -> Sizes:
    """The sizes of a run; `folder` holds its files and its datasets."""
    layout, train = Layout(config), config.train_dataset
    prompts, prompt_tokens, response_tokens, measured = {}, {}, {}, set()
    for name in config.datasets:
        plan = "presample" if name == train else "evaluate"
        shards = layout.drawn_shards("drawn_rollouts", plan) if name == train else layout.shards("rollouts", BASE, name)
        files = [folder / path for path in shards]
        prompts[name], prompt_tokens[name] = prompts_of(config, name, folder)
        # A division that is given needs no samples of the training set.
        if files and all(file.exists() for file in files):
            _, response_tokens[name] = _count_and_mean(files, "token_ids")
            measured.add(name)
        else:
            _, assumed = _assumed(config, name)
            # A limit is longer than nearly all responses.
            response_tokens[name] = min(assumed, getattr(config.sampling, plan).max_tokens / 2)
    partition, pef = folder / layout.path("partition", draw=DRAW), _PEF * prompts.get(train, 0)
    if partition.exists():
        pef = pl.scan_parquet(partition).filter(subset="pef").select(pl.len()).collect().item()
    absent = tuple(
        dataset.source
        for name, dataset in config.datasets.items()
        if not (folder / layout.path("prompts", dataset=name)).exists() and not _is_there(dataset.source, folder)
    )
    return Sizes(prompts, prompt_tokens, response_tokens, pef, frozenset(measured), absent)


def prompts_of(config: Config, name: str, folder: Path) -> tuple[int, float]:
    """The number of prompts of a dataset and their mean length in tokens.

    Both are measured in its table of prompts. Without the table, each row of its file is a prompt of assumed length.

    Raises `OSError` or `ValueError` for a file that cannot be read.
    """
    table = folder / Layout(config).path("prompts", dataset=name)
    if table.exists():
        return _count_and_mean([table], "prompt_token_ids")
    return _rows(config, name, folder), min(_assumed(config, name)[0], config.prompts.max_tokens)


def _assumed(config: Config, name: str) -> tuple[float, float]:
    """Assumed tokens of a prompt and of a response of a dataset."""
    dataset = config.datasets[name]
    return (_OF_WORLD if dataset.source == TOY else _REAL).get(dataset.task, _OF_CUSTOM_TASK)


def _is_there(source: str, folder: Path) -> bool:
    return source == TOY or (folder / source).exists()


def _rows(config: Config, name: str, folder: Path) -> int:
    """Rows of a dataset's file, each of which becomes at most one prompt; `ASSUMED_PROMPTS` without the file."""
    source = config.datasets[name].source
    if source == TOY:
        return int(getattr(config.toy and config.toy.questions, name))
    if not _is_there(source, folder):
        return ASSUMED_PROMPTS
    if source.endswith(".parquet"):
        # The number is in the footer. Reading the 1.8 million rows of DAPO-17k would take half a minute.
        with suppress(pl.exceptions.PolarsError):
            return int(pl.scan_parquet(folder / source, glob=False).select(pl.len()).collect().item())
    return len(read_source(folder / source))


def _count_and_mean(tables: list[Path], column: str) -> tuple[int, float]:
    """The number of rows of the tables, and the mean length of their lists of tokens."""
    length = pl.col(column).list.len()
    count, mean = pl.scan_parquet(tables).select(count=pl.len(), mean=length.mean()).collect().row(0)
    return count, mean or 0.0


@dataclass(frozen=True)
class Rates:
    """Tokens per second of one GPU or core, and seconds of a start.

    Attributes:
        sample: drawn tokens/s in the sampling jobs of each plan.
        rollout: drawn tokens/s in training.
        train: tokens/s of the forward and backward pass, prompts included.
        start: seconds until a sampling job of each plan starts to draw.
        train_start: seconds until a segment starts its first step.
        base: seconds of the supervised training that makes the base policy; 0 without one.
    """

    sample: Mapping[Plan, float]
    rollout: float
    train: float
    start: Mapping[Plan, float]
    train_start: float
    base: float

    @property
    def forward(self) -> float:
        """Tokens/s of a forward pass alone."""
        return 3 * self.train

    @classmethod
    def of_products(cls, speed: float, config: Config, shape: ModelShape) -> Self:
        """The rates if the model's products run at `speed` and nothing else takes time.

        Args:
            speed: operations/s of one GPU or core. A drawn token takes 2 for each parameter, a trained token 6, and 8
                with gradient checkpointing. With 1, seconds are operations.
        """
        passes = 8 if config.hardware.gradient_checkpointing else 6
        drawn, base = speed / (2 * shape.parameters), 0.0
        if training := config.base_training:
            row = config.policy.supervised.max_tokens / 2 if config.policy.supervised else _ROW
            tokens = training.steps * training.batch * row
            base = 6.0 * shape.parameters * tokens / (speed * _base_slots(config))
        return cls(
            sample=dict.fromkeys(PLANS, drawn * config.hardware.tensor_parallel),
            rollout=drawn,
            train=speed / (passes * shape.parameters),
            start=dict.fromkeys(PLANS, 0.0),
            train_start=0.0,
            base=base,
        )

    def measured(self, run: Path, prompt_share: float, ranks: int) -> Self:
        """These rates, replaced by measured ones for the stages of a run that are done.

        Args:
            run: folder of the run; its `timings` are read, and the tokens of its supervised training.
            prompt_share: prompt tokens for each token of a response in training; the timings count responses alone.
            ranks: of a training, whose timings have the tokens of all of them.
        """
        files = [path for path in (run / "timings").rglob("*.parquet") if path.name != "training_cost.parquet"]
        if not files:
            return self
        rows = pl.concat(
            pl.read_parquet(path).with_columns(file=pl.lit(path.relative_to(run).as_posix())) for path in files
        )
        plan = pl.col("file").str.extract(rf"\.({'|'.join(PLANS)})/").fill_null("")
        parts = rows.group_by("stage", plan.alias("plan"), "part").agg(
            speed=pl.col("tokens").sum() / pl.col("seconds").sum(), seconds=pl.col("seconds").mean()
        )
        timings = {tuple(key): (speed, seconds) for *key, speed, seconds in parts.iter_rows()}
        speeds = {name: timings[key][0] / ranks for name, key in _SPEEDS.items() if key in timings}
        if "train" in speeds:
            speeds["train"] *= 1 + prompt_share
        seconds = {"train_start": timings[_START][1]} if _START in timings else {}
        if _BASE in timings and (speed := timings[_BASE][0]):
            # The timings of an interrupted training cover its last process alone.
            tokens = pl.read_parquet(run / "train/base/supervised.parquet")["tokens"].sum()
            seconds["base"] = tokens / speed
        sample = {plan: timings[key][0] for plan in PLANS if (key := ("sample", plan, "generate")) in timings}
        start = {plan: timings[key][1] for plan in PLANS if (key := ("sample", plan, "start")) in timings}
        return replace(self, **speeds, **seconds, sample={**self.sample, **sample}, start={**self.start, **start})


@dataclass(frozen=True)
class Stage:
    """One stage of the workflow.

    Attributes:
        jobs: number of jobs.
        gpus: GPUs (or CPU cores) that each job occupies.
        tokens: drawn tokens.
        trained: tokens of responses in forward and backward passes.
        seconds: sum over all jobs.
        longest: seconds of the longest chain of jobs that wait for each other.
        size: bytes on disk.
    """

    name: str
    jobs: int
    gpus: int = 1
    tokens: float = 0.0
    trained: float = 0.0
    seconds: float = 0.0
    longest: float = 0.0
    size: float = 0.0


def stages(config: Config, shape: ModelShape, sizes: Sizes, rates: Rates) -> list[Stage]:
    """The stages in the order in which they start."""
    trained = _trainings(config, shape, sizes, rates) if config.methods else []
    made, draws = config.base_training is not None, len(Layout(config).draws())
    # In float32: the model after a supervised start, and a GGUF file as a folder.
    size = 4.0 * shape.parameters * (made + str(config.policy.base).endswith(GGUF))
    divided = [_samples(config, "refine", sizes, rates), Stage("partition", 2 * draws)] if draws else []
    return [
        Stage("base model", 1 + made, _base_slots(config), seconds=rates.base, longest=rates.base, size=size),
        Stage("prompts and golds", 2 * len(config.datasets) + 1),
        *([_samples(config, "presample", sizes, rates)] if config.presamples else []),
        *divided,
        *trained,
        _samples(config, "evaluate", sizes, rates),
        Stage("tables, figures and pages", 12),
    ]


def prompt_share(config: Config, sizes: Sizes) -> float:
    """Prompt tokens that all trainings compute for each token of a response."""
    steps = [(config.steps(name), *_step(config, name, sizes)) for name in config.methods]
    responses = sum(count * response for count, _, response, _ in steps)
    return sum(count * prompt for count, _, _, prompt in steps) / responses if responses else 0.0


def step_seconds(config: Config, name: str, sizes: Sizes, rates: Rates) -> float:
    """Seconds of a step of a method: its rollouts, then its forward and backward passes."""
    drawn, responses, prompts = _step(config, name, sizes)
    return (drawn / rates.rollout + (responses + prompts) / rates.train) / config.hardware.ranks


def drawn_datasets(config: Config, name: Plan) -> list[str]:
    """The datasets of a plan, once for each policy, temperature or draw whose samples are not recorded."""
    layout = Layout(config)
    if name != "evaluate":
        # The base draws pre-samples and refinement once for each draw of stage 1.
        return [] if config.replays_training_set else [str(config.train_dataset)] * len(layout.draws())
    policies = [*map(str, layout.policies()), *layout.hotter()]
    datasets = config.evaluate.datasets
    return [name for policy in policies for name in datasets if name not in config.replay.get(policy, {})]


def drawn_tokens(config: Config, name: Plan, dataset: str, sizes: Sizes) -> float:
    """Tokens that a plan draws from a policy on all prompts of a dataset."""
    plan = getattr(config.sampling, name)
    count = sizes.pef if name == "refine" else sizes.prompts[dataset]
    samples = config.sampling.evaluate.samples(dataset) if name == "evaluate" else plan.n
    return count * (samples + plan.greedy) * sizes.response_tokens[dataset]


def probe_tokens(config: Config, steps: int, sizes: Sizes) -> float:
    """Tokens that the probes draw in `steps` steps of a training; the first probe is before any update."""
    probe, dataset = config.train.probe, config.train_dataset
    subsets = (sizes.pef, sizes.prompts[dataset] - sizes.pef)
    prompts = sum(min(probe.prompts, size) for size in subsets)
    return (1 + steps // probe.every) * probe.samples * prompts * sizes.response_tokens[dataset]


def reference_tokens(config: Config, sizes: Sizes) -> float:
    """Tokens of the stored responses and of their prompts."""
    dataset = config.train_dataset
    return sizes.pef * (sizes.prompt_tokens[dataset] + sizes.response_tokens[dataset])


def wall_seconds(planned: list[Stage], slots: int) -> float:
    """Seconds from start to end on `slots` GPUs (or CPU cores).

    A stage waits for all stages before it; only evaluation starts while the training goes on.
    """
    late = [stage for stage in planned if stage.name in ("training", "evaluation")]
    early = sum(_wall([stage], slots) for stage in planned if stage not in late)
    return early + _wall(late, slots)


def _wall(together: list[Stage], slots: int) -> float:
    """Seconds of stages that share the slots: their work divided by the slots, at least their longest chain of jobs."""
    work = sum(stage.seconds * stage.gpus for stage in together) / slots
    return max([0.0, work, *(stage.longest for stage in together)])


def _base_slots(config: Config) -> int:
    """The GPU, or the CPU cores, of the training that makes the base policy."""
    return 1 if config.gpu_gib or config.base_training is None else config.base_training.threads


def _samples(config: Config, name: Plan, sizes: Sizes, rates: Rates) -> Stage:
    """Sampling and scoring of a plan on all its datasets, for the evaluation with all policies."""
    datasets, shards = drawn_datasets(config, name), getattr(config.sampling, name).shards
    tokens = sum(drawn_tokens(config, name, dataset, sizes) for dataset in datasets)
    jobs = len(datasets) * shards
    seconds = tokens / rates.sample[name] + jobs * rates.start[name]
    return Stage(
        "evaluation" if name == "evaluate" else name,
        jobs * (3 if name == "evaluate" else 2),
        config.hardware.tensor_parallel,
        tokens,
        seconds=seconds,
        longest=seconds / max(jobs, 1),
        size=tokens * _TOKEN_BYTES,
    )


def _step(config: Config, name: str, sizes: Sizes) -> tuple[float, float, float]:
    """Tokens of a step of a method: drawn tokens, tokens of trained responses, tokens of their prompts.

    The rollouts of a question share its prompt, unless prompt_sharing is off. Each stored response needs its own.
    """
    train, method, dataset = config.train, config.methods[name], config.train_dataset
    stored = train.rehearsal_per_step if method.rehearses else 0
    rollouts, length = train.prompts_per_step * train.rollouts_per_prompt, sizes.response_tokens[dataset]
    # A prompt that dynamic sampling replaces costs its responses once more.
    drawn = rollouts * (1 + sizes.share_of_rounds * method.dynamic_sampling_rounds) * length
    shared = rollouts if config.hardware.prompt_sharing == "off" else train.prompts_per_step
    prompts = train.ppo_epochs * (shared + stored) * sizes.prompt_tokens[dataset]
    return drawn, train.ppo_epochs * (rollouts + stored) * length, prompts


def _trainings(config: Config, shape: ModelShape, sizes: Sizes, rates: Rates) -> list[Stage]:
    """The reference log-probs and all segments of all trainings."""
    train, dataset = config.train, config.train_dataset
    drawn = trained = size = seconds = 0.0
    for name in config.methods:
        seeds = len(config.seeds(name))
        steps = seeds * config.steps(name)
        drawn_by_step, trained_by_step, _ = _step(config, name, sizes)
        probes = seeds * probe_tokens(config, config.steps(name), sizes)
        drawn += steps * drawn_by_step + probes
        trained += steps * trained_by_step
        seconds += steps * step_seconds(config, name, sizes, rates) + probes / rates.rollout / config.hardware.ranks
        setting = Setting.of(config, name, shape)
        size += seeds * training_bytes(shape, setting, train, config.steps(name))
    layout = Layout(config)
    jobs, draws = len(layout.segments()), len(layout.draws())
    seconds += jobs * rates.train_start
    stored, ranks = reference_tokens(config, sizes), config.hardware.reference_ranks
    of_draw = rates.train_start + stored / (rates.forward * ranks)
    reference = Stage(
        "reference",
        draws,
        ranks,
        trained=draws * stored,
        seconds=draws * of_draw,
        longest=of_draw,
        size=draws * sizes.pef * sizes.response_tokens[dataset] * 4,
    )
    lengths = [config.steps(name) for name in config.methods for _ in config.seeds(name)]
    chain = seconds * max(lengths) / sum(lengths)
    return [reference, Stage("training", jobs, config.hardware.ranks, drawn, trained, seconds, chain, size)]
