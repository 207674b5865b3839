"""The whole configuration, and what must hold between its blocks."""

from collections.abc import Iterator
from typing import Annotated, Self, get_args

from pydantic import Field, StringConstraints, model_validator

from dphrl.config.block import Block
from dphrl.config.datasets import DatasetConfig, Task
from dphrl.config.engine import EngineConfig
from dphrl.config.evaluate import EvaluateConfig
from dphrl.config.methods import PAPER_METHODS, MethodConfig
from dphrl.config.partition import PartitionConfig
from dphrl.config.policy import PolicyConfig
from dphrl.config.problems import Problem, ProblemsError, nearest, show
from dphrl.config.prompts import PromptsConfig
from dphrl.config.reference import ReferenceConfig
from dphrl.config.report import ReportConfig
from dphrl.config.sampling import SamplingConfig
from dphrl.config.scoring import ScoringConfig
from dphrl.config.toy import ToyConfig, ToyQuestions
from dphrl.config.train import TrainConfig

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_]*$")]
RunName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
BASE = "base"
TASKS: tuple[str, ...] = get_args(Task)
TOY_DATASETS = tuple(ToyQuestions.model_fields)


class Config(Block):
    """The configuration of one run."""

    run: RunName = Field(description="Name of the run; its files go to results/<run>.", examples=["bird"])
    seed: int = Field(1, ge=0, description="Seed of sampling, evaluation and bootstrap; training has train.seeds.")
    toy: ToyConfig | None = Field(
        None, description="The embedded world: databases, questions and a base model from scratch; null: not built."
    )
    policy: PolicyConfig = Field(default=PolicyConfig(), description="The base policy, which is also the reference.")
    datasets: dict[Name, DatasetConfig] = Field(
        min_length=1,
        description="The datasets by name: the training set and the evaluation sets.",
        examples=[
            {
                "bird_train": {"task": "sql", "source": "data/bird_train.jsonl"},
                "bird": {"task": "sql", "source": "data/bird_dev.jsonl"},
                "spider": {"task": "sql", "source": "data/spider_dev.jsonl"},
            }
        ],
    )
    train_dataset: str = Field(description="Name of the dataset that is trained on.", examples=["bird_train"])
    prompts: PromptsConfig = Field(default=PromptsConfig(), description="From questions to prompt tokens.")
    scoring: ScoringConfig = Field(default=ScoringConfig(), description="From responses to verdicts.")
    engine: EngineConfig = Field(default=EngineConfig(), description="The sampling engine (vLLM).")
    sampling: SamplingConfig = Field(default=SamplingConfig(), description="What is drawn from a policy, and for what.")
    partition: PartitionConfig = Field(
        default=PartitionConfig(), description="Near-perfect (D_pef) and exploration (D_exp) prompts."
    )
    reference: ReferenceConfig = Field(
        default=ReferenceConfig(), description="Stored reference responses and their log-probabilities."
    )
    train: TrainConfig = Field(default=TrainConfig(), description="The training, common to all methods.")
    methods: dict[Name, MethodConfig] = Field(
        default=PAPER_METHODS, min_length=1, description="The methods by name; all share one pre-sampling."
    )
    evaluate: EvaluateConfig = Field(default=EvaluateConfig(), description="What is estimated, on which datasets.")
    report: ReportConfig = Field(default=ReportConfig(), description="The page at the end.")

    @model_validator(mode="after")
    def _blocks_fit(self) -> Self:
        problems = [*_names(self), *_sources(self), *_counts(self), *_lengths(self)]
        if problems:
            raise ProblemsError(problems)
        return self


def _unknown_dataset(config: Config, path: str, name: str) -> Iterator[Problem]:
    if name not in config.datasets:
        known = sorted(config.datasets)
        yield Problem(path, show(name), f"a name under datasets: {', '.join(known)}", nearest(name, known))


def _names(config: Config) -> Iterator[Problem]:
    yield from _unknown_dataset(config, "train_dataset", config.train_dataset)
    for index, name in enumerate(config.evaluate.datasets):
        yield from _unknown_dataset(config, f"evaluate.datasets[{index}]", name)
    for task in config.evaluate.styles:
        if task not in TASKS:
            yield Problem(f"evaluate.styles.{task}", show(task), f"a task: {', '.join(TASKS)}", nearest(task, TASKS))
    if BASE in config.methods:
        yield Problem(f"methods.{BASE}", show(BASE), f"any other name: {BASE} is the policy before training")


def _sources(config: Config) -> Iterator[Problem]:
    for name, dataset in config.datasets.items():
        if dataset.source == "toy" and name not in TOY_DATASETS:
            allowed = f"the path of a JSONL file; the toy has the datasets {', '.join(TOY_DATASETS)}"
            yield Problem(f"datasets.{name}.source", show("toy"), allowed, nearest(name, TOY_DATASETS))
    if config.toy is None:
        needs = [f"datasets.{name}.source" for name, dataset in config.datasets.items() if dataset.source == "toy"]
        tasks = {dataset.task for dataset in config.datasets.values()}
        if "sql" in tasks and config.scoring.sql.databases == "toy":
            needs.append("scoring.sql.databases")
        for path in needs:
            yield Problem(path, show("toy"), "the path of your own data, or a block toy (toy: {} has its defaults)")
        if config.policy.base is None:
            yield Problem("policy.base", "null", "the folder of a base model, or a block toy that trains one")


def _divides(path: str, value: int, whole_path: str, whole: int) -> Iterator[Problem]:
    if whole % value:
        divisors = [n for n in range(1, whole + 1) if whole % n == 0]
        close = sorted(sorted(divisors, key=lambda n: (abs(n - value), n))[:4])
        yield Problem(
            path, show(value), f"a divisor of {whole_path} = {whole}, for instance {', '.join(map(str, close))}"
        )


def _counts(config: Config) -> Iterator[Problem]:
    train, sampling = config.train, config.sampling
    yield from _divides("train.eval_every", train.eval_every, "train.steps", train.steps)
    yield from _divides("train.segment_steps", train.segment_steps, "train.eval_every", train.eval_every)
    yield from _divides("train.mini_batches", train.mini_batches, "train.prompts_per_step", train.prompts_per_step)
    if any(method.divergence for method in config.methods.values()):
        yield from _divides(
            "train.mini_batches", train.mini_batches, "train.rehearsal_per_step", train.rehearsal_per_step
        )
    if config.partition.pef_min_correct > sampling.presample.n:
        allowed = f"at most sampling.presample.n = {sampling.presample.n}"
        yield Problem("partition.pef_min_correct", show(config.partition.pef_min_correct), allowed)
    if max(config.evaluate.k) > sampling.evaluate.n:
        yield Problem(
            "evaluate.k", show(config.evaluate.k), f"each at most sampling.evaluate.n = {sampling.evaluate.n}"
        )


def _lengths(config: Config) -> Iterator[Problem]:
    sampling, prompt = config.sampling, config.prompts.max_tokens
    plans = {"presample": sampling.presample, "refine": sampling.refine, "evaluate": sampling.evaluate}
    lengths = {f"sampling.{name}.max_tokens": plan.max_tokens for name, plan in plans.items()}
    lengths["train.max_tokens"] = config.train.max_tokens
    for path, length in lengths.items():
        longest = config.engine.max_model_len - prompt
        if length > longest:
            allowed = f"at most {longest} = engine.max_model_len - prompts.max_tokens"
            if longest < 1:
                allowed = (
                    f"engine.max_model_len ({config.engine.max_model_len}) leaves no room after prompts.max_tokens"
                )
            yield Problem(path, show(length), allowed)
    longest = prompt + config.train.max_tokens
    if config.train.token_budget < longest:
        allowed = f"at least {longest} = prompts.max_tokens + train.max_tokens: one sequence"
        yield Problem("train.token_budget", show(config.train.token_budget), allowed)
    longest = prompt + sampling.refine.max_tokens
    if config.reference.token_budget < longest:
        allowed = f"at least {longest} = prompts.max_tokens + sampling.refine.max_tokens: one sequence"
        yield Problem("reference.token_budget", show(config.reference.token_budget), allowed)
    if config.engine.dtype != config.train.dtype:
        allowed = f"train.dtype = {config.train.dtype}: the trainer's weights are pushed into the engine as they are"
        yield Problem("engine.dtype", show(config.engine.dtype), allowed)
