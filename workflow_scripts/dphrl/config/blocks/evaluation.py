"""The blocks `evaluate` and `report`: evaluation sets, metrics, intervals and claims, and the texts of the page."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from dphrl.config.blocks.base import Block, Count, Positive, Text

Relation = Literal["higher", "lower", "equal"]
Role = Literal["in_domain", "cross_domain", "out_of_domain"]


def _whole_percent(share: float) -> float:
    if abs(100 * share - round(100 * share)) > 1e-9:
        raise ValueError("expected whole per cents, such as 0.25")
    return share


_ASCENDING = AfterValidator(lambda numbers: tuple(sorted(set(numbers))))
WholePercent = Annotated[float, Field(gt=0, lt=1), AfterValidator(_whole_percent)]
PublishedSetting = Literal["llama-sql", "omnisql-sql", "llama-sql-maths", "llama-math", "qwen-math"]


class StyleRule(Block):
    """One solution style, identified by the start of a response."""

    name: Text = Field(..., description="Name of the style in tables and figures.", examples=["cte"])
    prefix: Text = Field(
        ...,
        description="Text that responses of this style, or the answers extracted from them, start with; case matters.",
        examples=["WITH"],
    )


class EndpointConfig(Block):
    """The question of a run, fixed before its first training."""

    method: Text = Field(..., description="The method of the claim.", examples=["dph_f"])
    against: Text = Field(
        ..., description="The method, or base, on the other side of the comparison.", examples=["grpo"]
    )
    relation: Relation = Field(..., description="The claim: the method is higher, lower or equal.", examples=["higher"])
    metric: Text = Field(
        ...,
        description="A metric of tables/comparisons, such as pass@16 after the last step, or accuracy_bought over all "
        "evaluated steps (docs/statistics.md).",
        examples=["accuracy_bought"],
    )
    dataset: Text = Field(..., description="The evaluation set.", examples=["bird"])
    level: Text | None = Field(None, description="Only questions of this level; null: all.")


class ClaimsConfig(Block):
    """How claims are decided."""

    min_seeds: int = Field(3, ge=2, description="Fewest training seeds of each method that decide a claim.")
    margin: Positive = Field(0.05, description="Differences of proportions below it count as none (0.05: 5 points).")
    margin_bought: Positive = Field(0.01, description="The same for accuracy bought (0.01: one point of accuracy).")
    margin_counts: Positive = Field(0.25, description="The same for counts per question, such as numbers of styles.")
    primary: tuple[EndpointConfig, ...] = Field(
        (),
        description="Primary endpoints, listed first and corrected by Holm among themselves; empty: the paper's claims "
        "of pass@8 in domain. All other claims are exploratory, without a correction.",
    )


class EvaluateConfig(Block):
    """Configuration of the block `evaluate`."""

    datasets: tuple[str, ...] = Field(("bird", "spider"), min_length=1, description="Names of the evaluation sets.")
    k: Annotated[tuple[Count, ...], _ASCENDING] = Field(
        (1, 2, 4, 8, 16),
        min_length=1,
        description="Values of k for pass@k. A dataset uses those up to its number of samples "
        "(sampling.evaluate); headline tables show the two largest.",
    )
    hotter: Annotated[tuple[Positive, ...], _ASCENDING] = Field(
        (),
        description="Higher temperatures, for instance [1.3, 1.6]. After its last step each policy but the "
        "base and recorded answers is drawn at each of them too, and the report says whether that recovers lost "
        "coverage (docs/diagnose.md); []: none.",
    )
    mixtures: Annotated[tuple[WholePercent, ...], _ASCENDING] = Field(
        (),
        description="Shares of a policy in weights mixed with the base's, for instance [0.25, 0.5, 0.75]: a free "
        "baseline. Each policy at its last step and each checkpoint is evaluated at each of them, as the method "
        "<name>-m25 and so on; []: none.",
    )
    styles: dict[str, tuple[StyleRule, ...]] = Field(
        {},
        description="Solution styles by task. The longest prefix of the response decides, else the longest of its "
        "extracted answer; no match gives 'other'.",
    )
    against: tuple[str, ...] = Field(
        ("base", "grpo", "exp_only"), description="Baselines for other methods; each is compared with those before it."
    )
    frontier_from: float = Field(
        0.7,
        ge=0,
        lt=1,
        description="Least share of the base's pass@k, for the largest k, on the frontier: accuracy bought is the mean "
        "gain of accuracy over kept shares from it to 1 (docs/statistics.md). Fix it before the first training.",
    )
    claims: ClaimsConfig = Field(ClaimsConfig(), description="How claims are decided.")
    roles: dict[str, Role] = Field(
        {},
        description="Relation of an evaluation set to the training set, which decides the claims that are tested on "
        "it. By default, a set of another task is out_of_domain, the first set of the same task in_domain, any further "
        "set of this task cross_domain.",
    )
    published: PublishedSetting | None = Field(
        None,
        description="Experiment of the paper that this run reproduces, by the name of its file in config/experiments: "
        "the report then has the published tables, with the measured values above the published ones; null: none.",
    )


class SamplesConfig(Block):
    """The size of the pages of samples."""

    megabytes: int = Field(
        20, ge=0, description="Text of responses on the page of an evaluation set: as many samples as fit. 0: no pages."
    )
    characters: int = Field(4000, ge=100, description="Maximum length of a text; longer ones show beginning and end.")


class ReportConfig(Block):
    """Configuration of the block `report`."""

    title: Text | None = Field(
        None, description="Title of the report page; null: the name of the run and the question of the page."
    )
    notes: tuple[str, ...] = Field((), description="Caveats that the page shows before the results.")
    samples: SamplesConfig = Field(SamplesConfig(), description="Pages of questions and responses.")
