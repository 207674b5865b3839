"""The `toy:` block: the embedded default's world and its base model."""

from typing import Literal, Self

from pydantic import Field, model_validator

from dphrl.config.blocks.base import Block


class ToyQuestions(Block):
    """Numbers of questions of each split."""

    train: int = Field(400, ge=1, description="Training questions, on the three training databases.")
    in_domain: int = Field(300, ge=1, description="Test questions on the three training databases.")
    cross: int = Field(200, ge=1, description="Test questions on the two databases that RL never sees.")
    maths: int = Field(150, ge=1, description="Test word problems, out of the domain of RL.")


class ToyModel(Block):
    """Shape of the base model, a Hugging Face Llama with untied embeddings in float32."""

    layers: int = Field(4, ge=1, description="Number of decoder layers.")
    width: int = Field(128, ge=8, description="Hidden size; a multiple of heads.")
    heads: int = Field(4, ge=1, description="Attention heads, each of size width / heads, which must be even.")
    feed_forward: int = Field(352, ge=8, description="Size of the feed-forward layer.")

    @model_validator(mode="after")
    def _head_size_is_even(self) -> Self:
        if self.width % (2 * self.heads):
            raise ValueError(f"toy.model: width {self.width} must be a multiple of 2 x heads = {2 * self.heads}")
        return self


class ToyOptimizer(Block):
    """Supervised training of the base model (AdamW, cosine decay to zero after a linear warm-up)."""

    steps: int = Field(400, ge=1, description="Number of updates.")
    batch: int = Field(64, ge=1, description="Corpus rows per update.")
    lr: float = Field(2.0e-3, gt=0, description="Highest learning rate, reached at the end of the warm-up.")
    warmup: int = Field(50, ge=0, description="Updates of linear warm-up.")
    betas: tuple[float, float] = Field((0.9, 0.98), description="AdamW's decay rates of the two moments.")
    weight_decay: float = Field(0.05, ge=0, description="AdamW's decoupled weight decay, on every parameter.")
    clip: float = Field(1.0, gt=0, description="Largest norm of the gradient.")


class ToyConfig(Block):
    """World and base model of the embedded default."""

    seed: int = Field(1, ge=0, description="Seed of the world (databases, questions, corpus) and of the base model.")
    design: Literal["soft", "sharp"] = Field(
        "soft",
        description="How an annotator errs on a blind spot. soft: a fresh random corruption each time; "
        "sharp: one fixed wrong habit per database, family and annotator.",
    )
    questions: ToyQuestions = Field(ToyQuestions(), description="Numbers of questions of each split.")
    corpus: int = Field(25600, ge=20, description="Rows of the supervised mix that the base model is trained on.")
    vocabulary: int = Field(512, ge=128, description="Size of the byte-pair vocabulary, special tokens included.")
    model: ToyModel = Field(ToyModel(), description="Shape of the base model.")
    optimizer: ToyOptimizer = Field(ToyOptimizer(), description="Supervised training of the base model.")
    threads: int = Field(2, ge=1, description="PyTorch's threads in that training; another number gives other bytes.")
