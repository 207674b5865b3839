"""One policy on one dataset, prompt by prompt: how many samples are right, and which samples are alike."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from dphrl.config.blocks.data import MATH
from dphrl.config.blocks.evaluation import StyleRule
from dphrl.store.catalogue import SCHEMAS
from dphrl.store.parquet import by_prompts

_KEY = SCHEMAS["rollouts"].key
_JUDGED = ("verdict", "correct", "answer_class", "program_class", "reads_table")
# Columns in which styles are looked for, in this order.
_STYLED = ("text", "extracted")
_OTHER_STYLE = "other"
_NOT_A_RESULT = ("infrastructure_error", "gold_error")
# The lists of an evaluation, each with its column of the samples.
_CLASS_LISTS = {"answers": "answer_class", "programs": "program_class", "skeletons": "skeleton"}
# Columns of an evaluation that describe the prompt, not its samples.
_OF_PROMPT = ("cluster", "level")
# Operators of a mathematical solution, one character each.
_OPERATORS = {
    r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}": "$1/$2",
    r"\\[dt]?frac\b": "/",
    r"\\div\b|÷": "/",
    r"\\times\b|\\cdot\b|\u{D7}|·": "*",
    r"\\sqrt\b": "√",
    r"[\u{2212}\u{2013}]": "-",
}
# Marks of lists, headings and emphasis, and words with the hyphens and slashes inside them, are no arithmetic.
_PROSE = r"(?m)</?answer>|^[ \t]*(?:[-*+•]|#+|\d+[.)])\s+|\*\*|\\?[A-Za-z]{2,}(?:[-/][A-Za-z]{2,})*"
# The final answer of a solution, and in it anything but a plain number.
_FINAL = r"\\boxed\s*\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}|<answer>[^<]*</answer>|(?m:^[ \t]*(?:####|A:).*$)"
_NOTATION = (
    r"(?s)^(?:\\boxed\s*\{|<answer>|[ \t]*(?:####|A:))\s*"
    r"(.*?\d.*?[^\d.,\s}<].*?|.*?[^\d.,\s}].*?\d.*?)\s*(?:\}|</answer>)?$"
)
_NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?|\.\d+"


@dataclass(frozen=True)
class DatasetShape:
    """Properties that all prompts of a dataset share; a part of the prompts does not show them.

    Attributes:
        n: samples per prompt; None: each prompt can have another number.
        greedy: whether the prompts also have greedy responses.
        classes: the columns of verdicts that hold a class for at least one sample.
        solutions: whether texts are solutions in mathematics; without programs, these have skeletons.
    """

    n: int | None
    greedy: bool
    classes: frozenset[str]
    solutions: bool = True


def dataset_shape(parts: Iterable[pl.DataFrame], solutions: bool = True) -> DatasetShape:
    """The shape of a dataset from its verdicts, each prompt in one part. Raises `ValueError` without samples."""
    n, greedy, rows, classes = 0, False, 0, set[str]()
    for verdicts in parts:
        drawn = verdicts.filter(pl.col("sample_index") >= 0)
        greedy, rows = greedy or drawn.height < verdicts.height, rows + verdicts.height
        n = max([n, *drawn.group_by("prompt_id").len()["len"]])
        classes |= {name for name in ("answer_class", "program_class") if drawn[name].count()}
    if not rows:
        raise ValueError("evaluate: no verdicts; the dataset has no prompt to evaluate")
    if not n:
        raise ValueError("evaluate: the prompts have greedy responses only; sample at least one response per prompt")
    return DatasetShape(n, greedy, frozenset(classes), solutions)


def evaluate_parts(
    rollouts: pl.LazyFrame,
    verdicts: pl.LazyFrame,
    gold: pl.LazyFrame,
    prompts: pl.LazyFrame,
    styles: Sequence[StyleRule],
) -> Iterator[pl.DataFrame]:
    """The table "evaluation", some prompts at a time: the columns of `evaluate` with cluster and level of each prompt.

    Args:
        rollouts, verdicts: of a policy on a dataset, in key order; prompts whose gold is not kept are left out.
        gold, prompts: of the dataset.
        styles: as for `evaluate`, which also lists the errors.
    """
    # Questions on one database are not independent of each other.
    kept = gold.filter("kept").select("prompt_id", cluster=pl.col("ground_truth").str.json_path_match("$.db_id"))
    classes = verdicts.select(*_KEY, "answer_class", "program_class")
    # For other tasks only the scorer knows which answers are alike.
    solutions = prompts.select(pl.col("task").first() == MATH).collect().item()
    shape = dataset_shape((_rows_of(part, here) for part, here in by_prompts(classes, kept)), solutions)
    texts, levels = rollouts.select(*_KEY, "text"), prompts.select("prompt_id", "level")
    for *samples, clusters, level in by_prompts(texts, verdicts, kept, levels):
        drawn, judged = (_rows_of(frame, clusters) for frame in samples)
        if drawn.height or judged.height:
            part = evaluate(drawn, judged, styles, shape)
            for column in (clusters, level):
                part = part.join(column, on="prompt_id", how="left", validate="1:1", maintain_order="left")
            yield part


def evaluate(
    rollouts: pl.DataFrame, verdicts: pl.DataFrame, styles: Sequence[StyleRule], shape: DatasetShape | None = None
) -> pl.DataFrame:
    """One row per prompt: how many samples are right, and which of them are alike.

    Args:
        rollouts: prompt_id, sample_index (greedy = -1 for all prompts or none, samples 0..n-1), text.
        verdicts: prompt_id, sample_index and the columns of `_JUDGED`: one row for each rollout.
        styles: the longest prefix of the text after leading white space decides, and if none matches the longest of
            the answer that the scorer extracted; else the style is "other" (arXiv 2509.07430, appendix B). Without
            rules `styles` is an empty list.
        shape: of the dataset, where these are some of its prompts; None: they are all.

    Returns:
        The columns of the table "evaluation" but cluster and level, sorted by prompt_id. `correct` and `styles` are in
        sample order. `answers`, `programs` and `skeletons` hold for each sample the index of the prompt's first sample
        in the same class, null without a class, as of a program that does not parse. Such a list is empty if no sample
        of the dataset is in a class. Samples have a `skeleton` only in mathematics, where they have no programs.
        `constants` counts the right samples whose program read no table; null if no verdict on a right sample tells
        whether it read any. The greedy response counts in `greedy_correct` only, which is null without it.

    Raises:
        ValueError: greedy responses of some prompts only, a prompt with other samples than 0..n-1 of the dataset,
            a rollout without a verdict or a verdict without a rollout, a verdict that does not judge the response.
    """
    shape = shape or dataset_shape([verdicts])
    if not styles:
        verdicts = verdicts.drop("extracted", strict=False)
    elif "extracted" not in verdicts.columns:
        verdicts = verdicts.with_columns(extracted=pl.lit(None, pl.String))
    samples, classes = _judged_samples(rollouts, verdicts, shape), shape.classes
    if shape.solutions and "program_class" not in classes:
        samples, classes = samples.with_columns(skeleton=skeleton(pl.col("text"))), classes | {"skeleton"}
    samples = samples.with_columns(style=style_of(styles)).drop(*_STYLED, strict=False)
    reads = pl.col("reads_table").filter("correct")
    greedy = samples.filter(pl.col("sample_index") == -1).select("prompt_id", greedy_correct="correct")
    drawn = samples.filter(pl.col("sample_index") >= 0).with_columns(row=pl.col("prompt_id").rle_id())
    # One column after the other: windows over all samples are the peak of memory.
    listed = {name: column for name, column in _CLASS_LISTS.items() if column in classes}
    lists = {name: drawn.select(_first_alike(column)).to_series() for name, column in listed.items()}
    counted = (
        drawn.with_columns(**lists)
        .group_by("prompt_id", maintain_order=True)
        .agg(
            pl.col("correct", *lists),
            n=pl.len(),
            c=pl.col("correct").sum(),
            styles=pl.col("style").drop_nulls(),
            distinct_styles=pl.col("style").drop_nulls().n_unique(),
            constants=pl.when(reads.count() > 0).then(reads.not_().sum()),
        )
    )
    counted = counted.with_columns(pl.lit([]).alias(name) for name in _CLASS_LISTS if name not in lists)
    columns = {name: dtype for name, dtype in SCHEMAS["evaluation"].columns.items() if name not in _OF_PROMPT}
    evaluated = counted.join(greedy, on="prompt_id", how="left", validate="1:1", maintain_order="left")
    return evaluated.select(pl.col(name).cast(dtype) for name, dtype in columns.items())


def skeleton(text: pl.Expr) -> pl.Expr:
    """The calculation in a mathematical solution: lines with numbers as `#` and operators, without words and letters.

    "First, 3 + 4 = 7" and "Adding: 12 + 5 = 17." are both `#+#=#`. Lines without an operator are left out, so that the
    skeleton of a bare answer is empty. The final answer counts as a number, so that 1/2 and 0.5 are no different ways
    to it. Two solutions with one skeleton take the same steps in the same order; it does
    not show whether their reasons are the same.
    """
    final = text.str.extract_all(_FINAL).list.last().str.extract(_NOTATION)
    text = pl.coalesce(text.str.split(final).list.join("0"), text)
    for pattern, operator in _OPERATORS.items():
        text = text.str.replace_all(pattern, operator)
    text = text.str.replace_all(_PROSE, "").str.replace_all(_NUMBER, "#").str.replace_all(r"[^#+\-*/^=<>√\n]", "")
    # Two numbers without an operator between them had words between them: "Step 1: 3 + 4".
    text = text.str.replace_all("#+", "#")
    # Only lines with an operator and a number stay.
    text = text.str.replace_all(r"(?m)^(?:#|[^#\n]*)$", "").str.replace_all(r"\n+", "\n")
    return text.str.strip_chars("\n")


def _judged_samples(rollouts: pl.DataFrame, verdicts: pl.DataFrame, shape: DatasetShape) -> pl.DataFrame:
    """Each rollout with its verdict, checked as `evaluate` says and sorted by prompt_id and sample_index."""
    rollouts = rollouts.select(*_KEY, "text").sort(_KEY)
    judged = (name for name in (*_JUDGED, "extracted") if name in verdicts.columns)
    verdicts = verdicts.select(*_KEY, *judged).sort(_KEY)
    if not rollouts.select(_KEY).equals(verdicts.select(_KEY)):
        unscored = rollouts.join(verdicts, on=_KEY, how="anti")
        _refuse(unscored, "has no verdict; run the score stage for these rollouts again")
        unknown = verdicts.join(rollouts, on=_KEY, how="anti")
        _refuse(unknown, "has a verdict but no rollout; score the rollouts given here")
    _refuse(
        verdicts.filter(pl.col("verdict").is_in(_NOT_A_RESULT)),
        f"has one of the verdicts {', '.join(_NOT_A_RESULT)}, which do not judge the response;"
        " repair the machine or the gold answer and score again",
    )
    _check_counts(rollouts, shape)
    return rollouts.hstack(verdicts.drop(*_KEY, "verdict"))


def _check_counts(rows: pl.DataFrame, shape: DatasetShape) -> None:
    sample = pl.col("sample_index")
    by_prompt = rows.group_by("prompt_id", maintain_order=True).agg(
        greedy=(sample == -1).any(), n=(sample >= 0).sum(), last=sample.max()
    )
    # A table has each sample once, so n of them that end at n - 1 are 0..n-1.
    n = pl.col("n") if shape.n is None else pl.lit(shape.n)
    counted = (pl.col("n") == n) & (pl.col("last") == n - 1)
    differing = by_prompt.filter(~counted | (pl.col("greedy") != shape.greedy))
    if differing.is_empty():
        return
    prompt, greedy, *_ = differing.row(0)
    if greedy != shape.greedy:
        raise ValueError(
            f"evaluate: prompt {prompt!r} has no greedy response (sample_index -1) as the other prompts have;"
            " sample this dataset again, greedy for all prompts or for none"
        )
    samples = rows.filter((pl.col("prompt_id") == prompt) & (sample >= 0))["sample_index"].to_list()
    raise ValueError(
        f"evaluate: prompt {prompt!r} has samples {samples}, expected 0..{(shape.n or len(samples)) - 1} as for the"
        " other prompts; sample this dataset again with one n for all prompts"
    )


def _refuse(rows: pl.DataFrame, problem: str) -> None:
    if rows.height:
        prompt, sample = rows.sort(_KEY).select(_KEY).row(0)
        raise ValueError(f"evaluate: prompt {prompt!r}, sample {sample} {problem} ({rows.height} such rows)")


def _rows_of(rows: pl.DataFrame, prompts: pl.DataFrame) -> pl.DataFrame:
    return rows.join(prompts, on="prompt_id", how="semi")


def style_of(rules: Sequence[StyleRule]) -> pl.Expr:
    """The style of each row: the rule with the longest prefix of the text, else of the extracted answer.

    "other" where none matches; null without rules.
    """
    style = pl.lit(_OTHER_STYLE if rules else None, pl.String)
    # A response in a code fence begins with the fence, its answer with the SQL.
    for column in reversed(_STYLED) if rules else ():
        text = pl.col(column).str.strip_chars_start()
        for rule in sorted(rules, key=lambda rule: len(rule.prefix)):
            style = pl.when(text.str.starts_with(rule.prefix)).then(pl.lit(rule.name)).otherwise(style)
    return style


def unmatched_styles(evaluation: pl.LazyFrame) -> str | None:
    """A warning where most samples have no style of the configuration; None otherwise."""
    style = pl.col("styles").explode()
    other, samples = evaluation.select((style == _OTHER_STYLE).sum(), style.count().alias("n")).collect().row(0)
    if not samples or 2 * other <= samples:
        return None
    return f"WARNING: {other} of {samples} samples begin with no prefix of evaluate.styles and are '{_OTHER_STYLE}'"


def _first_alike(column: str) -> pl.Expr:
    first = pl.col("sample_index").min().over("row", column)
    return pl.when(pl.col(column).is_not_null()).then(first)
