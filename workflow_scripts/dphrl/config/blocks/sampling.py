"""The block `sampling`: how many responses are drawn from a policy, and how."""

from typing import Annotated, Literal

from pydantic import Field

from dphrl.config.blocks.base import Block


class PlanConfig(Block):
    """Configuration of one plan of the block `sampling`."""

    n: int = Field(8, ge=1, description="Samples per prompt.")
    temperature: float = Field(1.0, gt=0, description="Sampling temperature.")
    top_p: float = Field(
        0.95,
        gt=0,
        le=1,
        description="Nucleus: draw from the most probable tokens of this total probability; 1: from all.",
    )
    max_tokens: int = Field(4096, ge=1, description="Maximum length of a response in tokens.")
    greedy: bool = Field(False, description="Also generate one greedy response per prompt (sample_index -1).")
    shards: int = Field(
        1, ge=1, description="Jobs that share the prompts; each starts the engine once. It does not change the samples."
    )


class PresamplePlan(PlanConfig):
    """Configuration of `sampling.presample`: samples of the base policy that decide the partition."""

    greedy: Literal[False] = Field(False, description="Always false: only samples are counted.")


class RefinePlan(PlanConfig):
    """Configuration of `sampling.refine`: a new sample, not biased by the selection of the candidates."""

    n: Literal[1] = Field(1, description="Always 1: the new sample of a candidate becomes its stored response.")
    greedy: Literal[False] = Field(False, description="Always false: the stored response is a sample.")


class EvaluatePlan(PlanConfig):
    """Configuration of `sampling.evaluate`: greedy and n samples per prompt in one job."""

    n: int = Field(16, ge=1, description="Samples per prompt; pass@k is estimated for every k up to n.")
    n_by_dataset: dict[str, Annotated[int, Field(ge=1)]] = Field(
        {}, description="Samples per prompt of evaluation sets with another n, for instance {aime24: 64}."
    )
    greedy: bool = Field(True, description="Also generate one greedy response per prompt (sample_index -1).")

    def samples(self, dataset: str) -> int:
        """Samples per prompt of a dataset."""
        return self.n_by_dataset.get(dataset, self.n)


class SamplingConfig(Block):
    """Configuration of the block `sampling`."""

    presample: PresamplePlan = Field(
        default=PresamplePlan(), description="Base policy on the training set, once for all methods and seeds."
    )
    refine: RefinePlan = Field(
        default=RefinePlan(), description="Base policy on the candidates for D_pef: one new sample each."
    )
    evaluate: EvaluatePlan = Field(
        default=EvaluatePlan(), description="Base policy and every trained policy on the evaluation sets."
    )
