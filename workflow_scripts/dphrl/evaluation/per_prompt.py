"""One policy on one dataset: what became of the samples of each prompt."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from dphrl.config.blocks.evaluate import OTHER_STYLE, StyleRule

KEY = ["prompt_id", "sample_index"]
_CLASSES = ["answer_class", "program_class"]
_JUDGED = ["verdict", "correct", *_CLASSES]
_NOT_A_RESULT = ("infrastructure_error", "gold_error")


@dataclass(frozen=True)
class Alike:
    """What all prompts of a dataset have in common, which a part of them does not tell.

    Attributes:
        n: samples per prompt.
        greedy: whether there is a greedy response, too.
        classes: the columns of verdicts that tell a class of any sample.
    """

    n: int
    greedy: bool
    classes: frozenset[str]


def alike(parts: Iterable[pl.DataFrame]) -> Alike:
    """What the prompts of these verdicts have in common.

    Args:
        parts: all verdicts of the dataset, those of a prompt in one part.

    Raises:
        ValueError: there are no samples.
    """
    n, greedy, rows, classes = 0, False, 0, set[str]()
    for verdicts in parts:
        drawn = verdicts.filter(pl.col("sample_index") >= 0)
        greedy, rows = greedy or drawn.height < verdicts.height, rows + verdicts.height
        n = max([n, *drawn.group_by("prompt_id").len()["len"]])
        classes |= {name for name in _CLASSES if drawn[name].count()}
    if not rows:
        raise ValueError("evaluate: no verdicts; the dataset has no prompt to evaluate")
    if not n:
        raise ValueError("evaluate: the prompts have greedy responses only; sample at least one response per prompt")
    return Alike(n, greedy, frozenset(classes))


def evaluate(
    rollouts: pl.DataFrame, verdicts: pl.DataFrame, styles: Sequence[StyleRule], dataset: Alike | None = None
) -> pl.DataFrame:
    """One row per prompt: how many samples are right and how varied they are.

    Args:
        rollouts: prompt_id, sample_index (greedy = -1 for all prompts or none, samples 0..n-1), text.
        verdicts: prompt_id, sample_index, verdict, correct, answer_class, program_class: one row for each rollout.
        styles: rules tried in order on the text after leading white space; a text that none matches is "other", which
            counts as a style of its own (arXiv 2509.07430, appendix B). Without rules no style is told: `styles` is
            an empty list and both counts of styles are 0.
        dataset: of which these are some prompts; None: they are all.

    Returns:
        prompt_id str, n i32, c i32, correct list[bool] and styles list[str] in sample order, greedy_correct bool|null,
        distinct_styles i32 (of all n samples), distinct_styles_correct, distinct_answers and distinct_programs i32
        (among the correct samples; a program that does not parse has no class). Greedy counts in greedy_correct only.
        Sorted by prompt_id.

    Raises:
        ValueError: as `judged_samples`.
    """
    rows = judged_samples(rollouts, verdicts, dataset or alike([verdicts]))
    rows = rows.with_columns(style=_style(styles)).drop("text")
    greedy = rows.filter(pl.col("sample_index") == -1).select("prompt_id", greedy_correct="correct")
    drawn = rows.filter(pl.col("sample_index") >= 0)
    evaluated = drawn.group_by("prompt_id", maintain_order=True).agg(
        n=pl.len().cast(pl.Int32), c=pl.col("correct").sum().cast(pl.Int32), samples="correct", styles="style"
    )
    evaluated = evaluated.rename({"samples": "correct"}).join(greedy, on="prompt_id", how="left", maintain_order="left")
    if not styles:
        evaluated = evaluated.with_columns(styles=pl.lit([], pl.List(pl.String)))
        drawn = drawn.with_columns(style=pl.lit(None, pl.String))
    right = drawn.filter("correct")
    for name, column, among in (
        ("distinct_styles", "style", drawn),
        ("distinct_styles_correct", "style", right),
        ("distinct_answers", "answer_class", right),
        ("distinct_programs", "program_class", right),
    ):
        evaluated = evaluated.join(_distinct(among, column, name), on="prompt_id", how="left", maintain_order="left")
    evaluated = evaluated.with_columns(pl.selectors.starts_with("distinct_").fill_null(0).cast(pl.Int32))
    columns = ["prompt_id", "n", "c", "correct", "greedy_correct", "styles"]
    return evaluated.select(*columns, pl.selectors.starts_with("distinct_"))


def judged_samples(rollouts: pl.DataFrame, verdicts: pl.DataFrame, dataset: Alike) -> pl.DataFrame:
    """The columns of `rollouts` and `verdicts` side by side, checked and sorted by prompt_id and sample_index.

    Raises:
        ValueError: greedy responses of some prompts only, a prompt with other samples than 0..n-1 of the dataset,
            a rollout without a verdict or a verdict without a rollout, a verdict that is no judgement of the response.
    """
    rollouts = _in_order(rollouts.select(*KEY, "text"), "rollouts")
    verdicts = _in_order(verdicts.select(*KEY, *_JUDGED), "verdicts")
    same_rows = rollouts.height == verdicts.height
    if not same_rows or not all((rollouts[name] == verdicts[name]).all() for name in KEY):
        unscored = rollouts.join(verdicts, on=KEY, how="anti")
        _refuse(unscored, "has no verdict; run the score stage for these rollouts again")
        unknown = verdicts.join(rollouts, on=KEY, how="anti")
        _refuse(unknown, "has a verdict but no rollout; score the rollouts given here")
    _refuse(
        verdicts.filter(pl.col("verdict").is_in(_NOT_A_RESULT)),
        f"has one of the verdicts {', '.join(_NOT_A_RESULT)}, which say nothing about the response;"
        " repair the machine or the gold answer and score again",
    )
    _check_counts(rollouts, dataset)
    return rollouts.hstack(verdicts.drop(*KEY, "verdict"))


def _in_order(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    """The frame sorted by its key; what a stage wrote is sorted already, and comparing is cheaper than sorting."""
    prompt, sample = (pl.col(column) for column in KEY)
    before, last = prompt.shift(), sample.shift()
    if frame.select((prompt > before) | ((prompt == before) & (sample > last))).to_series().all():
        return frame
    _refuse(frame.filter(pl.struct(KEY).is_duplicated()), f"occurs more than once in {name}; expected one row")
    return frame.sort(KEY)


def _style(rules: Sequence[StyleRule]) -> pl.Expr:
    text = pl.col("text").str.strip_chars_start()
    style = pl.lit(OTHER_STYLE)
    for rule in reversed(rules):
        style = pl.when(text.str.starts_with(rule.prefix)).then(pl.lit(rule.name)).otherwise(style)
    return style


def _distinct(rows: pl.DataFrame, column: str, name: str) -> pl.DataFrame:
    return rows.drop_nulls(column).group_by("prompt_id").agg(pl.col(column).n_unique().alias(name))


def _check_counts(rows: pl.DataFrame, dataset: Alike) -> None:
    sample = pl.col("sample_index")
    found = rows.group_by("prompt_id", maintain_order=True).agg(
        greedy=(sample == -1).any(), n=(sample >= 0).sum(), last=sample.max()
    )
    # Sample numbers do not repeat, so n of them that end at n - 1 are 0..n-1.
    counted = (pl.col("n") == dataset.n) & (pl.col("last") == dataset.n - 1)
    for prompt, greedy, *_ in found.filter(~counted | (pl.col("greedy") != dataset.greedy)).iter_rows():
        if greedy != dataset.greedy:
            raise ValueError(
                f"evaluate: prompt {prompt!r} has no greedy response (sample_index -1) as the other prompts have;"
                " sample this dataset again, greedy for all prompts or for none"
            )
        samples = rows.filter((pl.col("prompt_id") == prompt) & (sample >= 0))["sample_index"].to_list()
        raise ValueError(
            f"evaluate: prompt {prompt!r} has samples {samples}, expected 0..{dataset.n - 1} as for the"
            " other prompts; sample this dataset again with one n for all prompts"
        )


def _refuse(rows: pl.DataFrame, problem: str) -> None:
    if rows.height:
        prompt, sample = rows.sort(KEY).select(KEY).row(0)
        raise ValueError(f"evaluate: prompt {prompt!r}, sample {sample} {problem} ({rows.height} such rows)")
