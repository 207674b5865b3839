"""The block `sampling`: how many responses are drawn from a policy, and how."""

from typing import Literal

from pydantic import Field

from dphrl.config.blocks.base import Block, Count, Positive, Share


class PlanConfig(Block):
    """Configuration of one plan of the block `sampling`."""

    n: Count = Field(8, description="Samples per prompt.")
    temperature: Positive = Field(1.0, description="Sampling temperature.")
    top_p: Share = Field(0.95, description="Nucleus: draw from the likeliest tokens of this total probability; 1: all.")
    max_tokens: Count = Field(4096, description="Maximum length of a response in tokens.")
    greedy: bool = Field(False, description="Also generate one greedy response per prompt (sample_index -1).")
    shards: Count = Field(1, description="Jobs that share the prompts, each with an engine; the samples stay the same.")


class PresamplePlan(PlanConfig):
    """Configuration of `sampling.presample`: samples of the base policy that decide the partition."""

    greedy: Literal[False] = Field(False, description="Always false: only samples are counted.")


class RefinePlan(PlanConfig):
    """Configuration of `sampling.refine`: a new sample, not biased by the selection of the candidates."""

    n: Literal[1] = Field(1, description="Always 1: the new sample of a candidate becomes its stored response.")
    greedy: Literal[False] = Field(False, description="Always false: the stored response is a sample.")


class EvaluatePlan(PlanConfig):
    """Configuration of `sampling.evaluate`: greedy and n samples per prompt in one job."""

    n: Count = Field(16, description="Samples per prompt; pass@k is estimated for every k up to n.")
    n_by_dataset: dict[str, Count] = Field(
        {}, description="Samples per prompt of evaluation sets with another n, for instance {aime24: 64}."
    )
    greedy: bool = Field(True, description="Also generate one greedy response per prompt (sample_index -1).")

    def samples(self, dataset: str) -> int:
        """Samples per prompt of a dataset."""
        return self.n_by_dataset.get(dataset, self.n)


class SamplingConfig(Block):
    """Configuration of the block `sampling`."""

    presample: PresamplePlan = Field(PresamplePlan(), description="Base policy on the training set, once per run.")
    refine: RefinePlan = Field(RefinePlan(), description="Base policy on D_pef's candidates: one new sample each.")
    evaluate: EvaluatePlan = Field(EvaluatePlan(), description="Base and every trained policy on the evaluation sets.")
