"""The sampling plans: what is drawn from a policy, and for what."""

from typing import Annotated, Literal

from pydantic import Field

from dphrl.config.blocks.base import Block


class PlanConfig(Block):
    """Configuration of one plan of the block `sampling`."""

    n: int = Field(8, ge=1, description="Samples per prompt.")
    temperature: float = Field(1.0, gt=0, description="Sampling temperature.")
    top_p: float = Field(0.95, gt=0, le=1, description="Nucleus of the distribution that is drawn from; 1: all of it.")
    max_tokens: int = Field(4096, ge=1, description="Longest response in tokens.")
    greedy: bool = Field(False, description="Also draw one greedy response per prompt (sample_index -1).")
    shards: int = Field(
        1,
        ge=1,
        description="Jobs that the prompts are spread over; each starts the engine once. No sample depends on it.",
    )


class PresamplePlan(PlanConfig):
    """Configuration of `sampling.presample`: the samples of the base policy that divide the training set."""

    greedy: Literal[False] = Field(False, description="Not here: only the samples are counted.")


class RefinePlan(PlanConfig):
    """Configuration of `sampling.refine`: the further sample, free of the selection of the near-perfect set."""

    n: Literal[1] = Field(1, description="One further sample per near-perfect prompt: it is the stored response.")
    greedy: Literal[False] = Field(False, description="Not here: the stored response is a sample.")


class EvaluatePlan(PlanConfig):
    """Configuration of `sampling.evaluate`: greedy and n samples per prompt, in one start of the engine."""

    n: int = Field(16, ge=1, description="Samples per prompt; pass@k is estimated for every k up to n.")
    n_by_dataset: dict[str, Annotated[int, Field(ge=1)]] = Field(
        {}, description="Samples per prompt of an evaluation set that needs another n: {aime24: 64}."
    )
    greedy: bool = Field(True, description="Also draw one greedy response per prompt (sample_index -1).")

    def samples(self, dataset: str) -> int:
        """Samples per prompt of a dataset."""
        return self.n_by_dataset.get(dataset, self.n)


class SamplingConfig(Block):
    """Configuration of the block `sampling`."""

    presample: PresamplePlan = Field(
        default=PresamplePlan(), description="Base policy on the training set, once for all methods and seeds."
    )
    refine: RefinePlan = Field(
        default=RefinePlan(), description="Base policy on the prompts that pre-sampling found near-perfect."
    )
    evaluate: EvaluatePlan = Field(
        default=EvaluatePlan(), description="The base policy and every trained policy on the evaluation sets."
    )
