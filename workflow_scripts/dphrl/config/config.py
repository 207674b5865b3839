"""The whole configuration: all blocks together."""

from typing import Annotated

from pydantic import Field, StringConstraints

from dphrl.config.blocks.base import Block
from dphrl.config.blocks.data import DatasetConfig, PromptsConfig, ScoringConfig
from dphrl.config.blocks.evaluation import EvaluateConfig, ReportConfig, Role
from dphrl.config.blocks.policy import PolicyConfig, SupervisedTraining
from dphrl.config.blocks.sampling import EngineConfig, HardwareConfig, SamplingConfig
from dphrl.config.blocks.toy import ToyConfig
from dphrl.config.blocks.training import (
    PAPER_METHODS,
    MethodConfig,
    PartitionConfig,
    ReferenceConfig,
    TrainConfig,
)

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_]*$")]
RunName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]


class Config(Block):
    """The configuration of one run."""

    run: RunName = Field(description="Name of the run; its files are in `results/<run>`.", examples=["bird"])
    seed: int = Field(1, ge=0, description="Seed of sampling; training uses train.seeds.")
    toy: ToyConfig | None = Field(
        None, description="The embedded world: databases, questions and a base model trained from scratch; null: none."
    )
    policy: PolicyConfig = Field(PolicyConfig(), description="The base model, which is also the reference.")
    datasets: dict[Name, DatasetConfig] = Field(
        min_length=1,
        description="The training set and the evaluation sets, by name.",
        examples=[
            {
                "bird_train": {"task": "sql", "source": "data/bird/train.json", "comparison": "bird"},
                "bird": {"task": "sql", "source": "data/bird/dev.json", "comparison": "bird"},
                "spider": {"task": "sql", "source": "data/spider/dev.json", "comparison": "spider"},
            }
        ],
    )
    train_dataset: str = Field(
        "",
        description="Name of the training set. A run without methods can leave it out: it then has no pre-samples, no "
        "division and no stored responses.",
        examples=["bird_train"],
    )
    prompts: PromptsConfig = Field(PromptsConfig(), description="From questions to prompt tokens.")
    scoring: ScoringConfig = Field(ScoringConfig(), description="From responses to verdicts.")
    engine: EngineConfig = Field(EngineConfig(), description="The inference engine.")
    sampling: SamplingConfig = Field(SamplingConfig(), description="Responses that are drawn from policies.")
    partition: PartitionConfig = Field(
        PartitionConfig(), description="Division of the training set: near-perfect (D_pef) and exploration (D_exp)."
    )
    reference: ReferenceConfig = Field(ReferenceConfig(), description="Stored responses and their log-probabilities.")
    hardware: HardwareConfig = Field(
        HardwareConfig(),
        description="Hardware. Changes rerun nothing, with one exception: `ranks`, if a method uses "
        "`dynamic_sampling_rounds`.",
    )
    train: TrainConfig = Field(TrainConfig(), description="Training settings that all methods share.")
    replay: dict[Name, dict[Name, str]] = Field(
        {},
        description="Recorded responses in place of an engine, by policy and dataset: files with rows {source_index "
        "or prompt_id, response} (docs/replay.md). `base` is the base policy; any other name is an additional policy, "
        "which is only evaluated.",
        examples=[{"base": {"spider": "data/answers.jsonl"}}],
    )
    checkpoints: dict[Name, str | tuple[str, ...]] = Field(
        {},
        description="Further models that are only evaluated, by name: a name of the hub, a folder in Hugging Face form "
        "with weights as safetensors, or an adapter of peft, which is merged into the base. A list "
        "is one method with seeds 1, 2, ... Tokenizer and chat template must be the base's.",
        examples=[{"trl": ["out/seed1", "out/seed2", "out/seed3"]}],
    )
    methods: dict[Name, MethodConfig] = Field(
        default_factory=lambda block: {} if block.get("checkpoints") else PAPER_METHODS,
        description="The methods to train, by name; {}: none. Default: the paper's six, or none with `checkpoints`.",
    )
    evaluate: EvaluateConfig = Field(EvaluateConfig(), description="Evaluation sets, metrics and intervals.")
    report: ReportConfig = Field(ReportConfig(), description="The report page.")

    def steps(self, method: str) -> int:
        """Training steps of a method."""
        return self.methods[method].steps or self.train.steps

    def seeds(self, method: str) -> list[int]:
        """Training seeds of a method."""
        return self.train.seeds[: self.methods[method].seeds]

    @property
    def stored(self) -> dict[str, MethodConfig]:
        """The sets of stored responses by their names in paths, each with a method for it; that of D_pef always."""
        rehearsing = [method for method in self.methods.values() if method.rehearses]
        return {method.stored: method for method in [MethodConfig(), *rehearsing]}

    @property
    def replays_training_set(self) -> bool:
        """Whether the pre-samples are recorded answers: one draw for all training seeds."""
        return self.train_dataset in self.replay.get("base", {})

    @property
    def roles(self) -> dict[str, Role]:
        """Relation of each evaluation set to the training set, else to the first evaluation set (`evaluate.roles`)."""
        task = self.datasets[self.train_dataset or self.evaluate.datasets[0]].task
        roles: dict[str, Role] = {}
        for name in self.evaluate.datasets:
            of_same_task: Role = "cross_domain" if "in_domain" in roles.values() else "in_domain"
            same_task = self.datasets[name].task == task
            roles[name] = self.evaluate.roles.get(name, of_same_task if same_task else "out_of_domain")
        return roles

    @property
    def presamples(self) -> bool:
        """Whether any job reads pre-samples: the division of the training set, or the probes of its trainings."""
        divides = bool(self.train_dataset) and not self.partition.given
        return divides or bool(self.methods and self.train.probe.prompts)

    @property
    def has_model(self) -> bool:
        """Whether there is a base model; without one all responses are recorded."""
        return self.policy.base is not None or self.toy is not None

    @property
    def gpu_gib(self) -> float | None:
        """Memory of the GPUs that the run is planned for; None for a machine without GPUs, and for the world."""
        return self.hardware.gpu_gib if self.toy is None else None

    @property
    def base_training(self) -> SupervisedTraining | None:
        """The supervised training that makes the base policy; None where that is the model of `policy.base` itself."""
        if self.policy.base is None:
            return self.toy.training() if self.toy else None
        return self.policy.supervised
