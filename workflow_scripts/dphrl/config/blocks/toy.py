"""The block `toy`: the embedded world and its base model."""

import math
from typing import Annotated

from pydantic import Field

from dphrl.config.blocks.base import Block, Count, Whole
from dphrl.config.blocks.policy import SupervisedOptimizer, SupervisedTraining

_Part = Annotated[float, Field(ge=0, le=1)]


class ToyQuestions(Block):
    """Configuration of `toy.questions`."""

    train: Count = Field(400, description="Training questions on the three training databases.")
    in_domain: Count = Field(500, description="Test questions on the three training databases.")
    cross: Count = Field(200, description="Test questions on the two databases that are not used in RL.")
    maths: Count = Field(150, description="Mathematical word problems, out of the domain of RL.")


class ToyStrata(Block):
    """Shares of the three strata of questions, in proportion to their sum."""

    plain: _Part = Field(0.33, description="Questions that every annotator answers right, but for slips.")
    noisy: _Part = Field(0.27, description="Questions that every annotator often answers wrong.")
    ambiguous: _Part = Field(0.40, description="Questions that do not say which of five readings is right.")

    def numbers(self, questions: int) -> dict[str, int]:
        """The questions divided by stratum: numbers rounded down, then one more for each of the largest remainders."""
        exact = {name: share * questions / (self.plain + self.noisy + self.ambiguous) for name, share in self}
        numbers = {name: math.floor(round(number, 9)) for name, number in exact.items()}
        for name in sorted(exact, key=lambda name: numbers[name] - exact[name])[: questions - sum(numbers.values())]:
            numbers[name] += 1
        return numbers


class ToyModel(Block):
    """Shape of the base model, a Hugging Face Llama with untied embeddings in float32."""

    layers: Count = Field(4, description="Number of decoder layers.")
    width: int = Field(128, ge=8, description="Hidden size; a multiple of heads.")
    heads: Count = Field(4, description="Number of attention heads; width / heads must be even.")
    feed_forward: int = Field(352, ge=8, description="Size of the feed-forward layer.")


class ToyConfig(Block):
    """Configuration of the block `toy`."""

    seed: Whole = Field(1, description="Seed of the world (databases, questions, corpus) and of the base model.")
    questions: ToyQuestions = Field(ToyQuestions(), description="Number of questions of each split.")
    train_strata: ToyStrata = Field(ToyStrata(), description="Shares of the strata among the training questions.")
    test_strata: ToyStrata = Field(
        ToyStrata(plain=0.24, noisy=0.16, ambiguous=0.60),
        description="Shares of the strata among the test questions, in domain and cross-domain.",
    )
    corpus: int = Field(25600, ge=20, description="Rows of the supervised corpus that the base model is trained on.")
    vocabulary: int = Field(512, ge=128, description="Size of the byte-pair vocabulary, with special tokens.")
    model: ToyModel = Field(ToyModel(), description="Shape of the base model.")
    optimizer: SupervisedOptimizer = Field(SupervisedOptimizer(), description="Supervised training of the base model.")
    threads: Count = Field(2, description="PyTorch threads of that training; the weights depend on it.")

    def training(self) -> SupervisedTraining:
        """The supervised training of the base model, in float32: the model is small."""
        return SupervisedTraining(**dict(self.optimizer), seed=self.seed, threads=self.threads, dtype="float32")
