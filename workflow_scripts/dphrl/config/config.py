"""The whole configuration, and what must hold between its blocks."""

from typing import Annotated

from pydantic import Field, StringConstraints

from dphrl.config.blocks.base import Block
from dphrl.config.blocks.datasets import DatasetConfig
from dphrl.config.blocks.engine import EngineConfig
from dphrl.config.blocks.evaluate import EvaluateConfig
from dphrl.config.blocks.methods import PAPER_METHODS, MethodConfig
from dphrl.config.blocks.partition import PartitionConfig
from dphrl.config.blocks.policy import PolicyConfig
from dphrl.config.blocks.prompts import PromptsConfig
from dphrl.config.blocks.reference import ReferenceConfig
from dphrl.config.blocks.report import ReportConfig
from dphrl.config.blocks.sampling import SamplingConfig
from dphrl.config.blocks.scoring import ScoringConfig
from dphrl.config.blocks.toy import ToyConfig
from dphrl.config.blocks.train import TrainConfig

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_]*$")]
RunName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]


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
                "bird_train": {"task": "sql", "source": "data/bird/train.json", "comparison": "bird"},
                "bird": {"task": "sql", "source": "data/bird/dev.json", "comparison": "bird"},
                "spider": {"task": "sql", "source": "data/spider/dev.json", "comparison": "spider"},
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
        default=PAPER_METHODS, description="The methods by name; all share one pre-sampling. {}: no training."
    )
    replay: dict[Name, dict[Name, str]] = Field(
        {},
        description="Answers that were recorded elsewhere, by policy and dataset: files of {source_index or prompt_id, "
        "response}. Under base they stand in for the base policy; any other name is a policy that is only evaluated.",
        examples=[{"base": {"spider": "data/answers.jsonl"}}],
    )
    evaluate: EvaluateConfig = Field(default=EvaluateConfig(), description="What is estimated, on which datasets.")
    report: ReportConfig = Field(default=ReportConfig(), description="The page at the end.")

    @property
    def has_model(self) -> bool:
        """Whether there is a base model; without one all answers are recorded ones."""
        return self.policy.base is not None or self.toy is not None
