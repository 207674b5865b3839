"""One policy on one dataset: what became of the samples of each prompt."""

from collections.abc import Sequence

import polars as pl

from dphrl.config.evaluate import OTHER_STYLE, StyleRule

_KEY = ["prompt_id", "sample_index"]
_NOT_A_RESULT = ("infrastructure_error", "gold_error")


def evaluate(rollouts: pl.DataFrame, verdicts: pl.DataFrame, styles: Sequence[StyleRule]) -> pl.DataFrame:
    """One row per prompt: how many samples are right and how varied they are.

    Args:
        rollouts: prompt_id, sample_index (greedy = -1 for all prompts or none, samples 0..n-1), text.
        verdicts: prompt_id, sample_index, verdict, correct, answer_class, program_class: one row for each rollout.
        styles: rules tried in order on the text after leading white space; a text that none matches is "other", which
            counts as a style of its own (arXiv 2509.07430, appendix B). Without rules no style is told: `styles` is
            an empty list and both counts of styles are 0.

    Returns:
        prompt_id str, n i32, c i32, correct list[bool] and styles list[str] in sample order, greedy_correct bool|null,
        distinct_styles i32 (of all n samples), distinct_styles_correct, distinct_answers and distinct_programs i32
        (among the correct samples; a program that does not parse has no class). Greedy counts in greedy_correct only.
        Sorted by prompt_id.

    Raises:
        ValueError: greedy responses of some prompts only, a prompt with other samples than 0..n-1 (the same n for all),
            a rollout without a verdict or a verdict without a rollout, a verdict that is no judgement of the response.
    """
    _check_verdicts(rollouts, verdicts)
    rows = rollouts.select(*_KEY, _style(styles).alias("style")).join(
        verdicts.select(*_KEY, "correct", "answer_class", "program_class"), on=_KEY, how="inner", validate="1:1"
    )
    rows = rows.sort(_KEY)
    _check_counts(rows)
    greedy = rows.filter(pl.col("sample_index") == -1).select("prompt_id", greedy_correct="correct")
    right = pl.col("correct")
    told = pl.lit(bool(styles))
    evaluated = (
        rows.filter(pl.col("sample_index") >= 0)
        .group_by("prompt_id", maintain_order=True)
        .agg(
            n=pl.len().cast(pl.Int32),
            c=right.sum().cast(pl.Int32),
            samples=right,
            styles=pl.col("style").filter(told),
            distinct_styles=_distinct("style", told),
            distinct_styles_correct=_distinct("style", right & told),
            distinct_answers=_distinct("answer_class", right),
            distinct_programs=_distinct("program_class", right),
        )
        .rename({"samples": "correct"})
        .join(greedy, on="prompt_id", how="left", validate="1:1", maintain_order="left")
    )
    columns = ["prompt_id", "n", "c", "correct", "greedy_correct", "styles"]
    return evaluated.select(*columns, pl.selectors.starts_with("distinct_")).sort("prompt_id")


def _style(rules: Sequence[StyleRule]) -> pl.Expr:
    text = pl.col("text").str.strip_chars_start()
    style = pl.lit(OTHER_STYLE)
    for rule in reversed(rules):
        style = pl.when(text.str.starts_with(rule.prefix)).then(pl.lit(rule.name)).otherwise(style)
    return style


def _distinct(column: str, among: pl.Expr) -> pl.Expr:
    return pl.col(column).filter(among).drop_nulls().n_unique().cast(pl.Int32)


def _check_verdicts(rollouts: pl.DataFrame, verdicts: pl.DataFrame) -> None:
    for name, frame in (("rollouts", rollouts), ("verdicts", verdicts)):
        _refuse(frame.filter(pl.struct(_KEY).is_duplicated()), f"occurs more than once in {name}; expected one row")
    _refuse(
        rollouts.join(verdicts, on=_KEY, how="anti"), "has no verdict; run the score stage for these rollouts again"
    )
    _refuse(verdicts.join(rollouts, on=_KEY, how="anti"), "has a verdict but no rollout; score the rollouts given here")
    _refuse(
        verdicts.filter(pl.col("verdict").is_in(_NOT_A_RESULT)),
        f"has one of the verdicts {', '.join(_NOT_A_RESULT)}, which say nothing about the response;"
        " repair the machine or the gold answer and score again",
    )


def _check_counts(rows: pl.DataFrame) -> None:
    if rows.is_empty():
        raise ValueError("evaluate: no rollouts; the dataset has no prompt to evaluate")
    found = (
        rows.group_by("prompt_id", maintain_order=True)
        .agg(
            greedy=(pl.col("sample_index") == -1).sum(),
            samples=pl.col("sample_index").filter(pl.col("sample_index") != -1),
        )
        .with_columns(n=pl.col("samples").list.len())
    )
    expected, drawn = max(found["n"].to_list()), max(found["greedy"].to_list())
    for prompt, greedy, samples, n in found.select("prompt_id", "greedy", "samples", "n").iter_rows():
        if greedy != drawn:
            raise ValueError(
                f"evaluate: prompt {prompt!r} has no greedy response (sample_index -1) as the other prompts have;"
                " sample this dataset again, greedy for all prompts or for none"
            )
        if n != expected or n == 0 or samples != list(range(n)):
            raise ValueError(
                f"evaluate: prompt {prompt!r} has samples {samples}, expected 0..{max(expected, 1) - 1} as for the"
                " other prompts; sample this dataset again with one n for all prompts"
            )


def _refuse(rows: pl.DataFrame, problem: str) -> None:
    if rows.height:
        prompt, sample = rows.sort(_KEY).select(_KEY).row(0)
        raise ValueError(f"evaluate: prompt {prompt!r}, sample {sample} {problem} ({rows.height} such rows)")
