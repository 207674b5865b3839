"""One policy on one dataset, prompt by prompt: how many samples are right, and which samples are alike."""

from collections.abc import Iterable, Iterator, Sequence

import polars as pl

from dphrl.config.blocks.data import MATH
from dphrl.config.blocks.evaluation import StyleRule
from dphrl.store.catalogue import SCHEMAS
from dphrl.store.parquet import by_prompts

_KEY = SCHEMAS["rollouts"].key
_JUDGED = ("verdict", "correct", "answer_class", "program_class", "reads_table", "extracted")
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


def classes_shown(parts: Iterable[pl.DataFrame]) -> frozenset[str]:
    """The columns of a dataset's verdicts that hold a class for any sample; a part of the prompts does not show them.

    Raises:
        ValueError: there are no verdicts on samples.
    """
    rows, classes = 0, set[str]()
    for verdicts in parts:
        drawn = verdicts.filter(pl.col("sample_index") >= 0)
        rows += drawn.height
        classes |= {name for name in ("answer_class", "program_class") if drawn[name].count()}
    if not rows:
        raise ValueError("evaluate: no verdicts; the dataset has no prompt to evaluate")
    return frozenset(classes)


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
    shown = classes_shown(_rows_of(part, here) for part, here in by_prompts(classes, kept))
    texts, levels = rollouts.select(*_KEY, "text"), prompts.select("prompt_id", "level")
    for *samples, clusters, level in by_prompts(texts, verdicts, kept, levels):
        drawn, judged = (_rows_of(frame, clusters) for frame in samples)
        if drawn.height or judged.height:
            part = evaluate(drawn, judged, styles, shown, solutions)
            for column in (clusters, level):
                part = part.join(column, on="prompt_id", how="left", validate="1:1", maintain_order="left")
            yield part


def evaluate(
    rollouts: pl.DataFrame,
    verdicts: pl.DataFrame,
    styles: Sequence[StyleRule],
    classes: frozenset[str],
    solutions: bool = True,
) -> pl.DataFrame:
    """One row per prompt: how many samples are right, and which of them are alike.

    Args:
        rollouts: prompt_id, sample_index (greedy = -1, samples 0.. without gaps), text.
        verdicts: prompt_id, sample_index and the columns of `_JUDGED`: one row for each rollout.
        styles: the longest prefix of the text after leading white space decides, and if none matches the longest of
            the answer that the scorer extracted; else the style is "other" (arXiv 2509.07430, appendix B). Without
            rules `styles` is an empty list.
        classes: of `classes_shown` for the dataset.
        solutions: whether texts are solutions in mathematics; without programs, these have skeletons.

    Returns:
        The columns of the table "evaluation" but cluster and level, sorted by prompt_id. `correct` and `styles` are in
        sample order. `answers`, `programs` and `skeletons` hold for each sample the index of the prompt's first sample
        in the same class, null without a class, as of a program that does not parse. Such a list is empty if no sample
        of the dataset is in a class. Samples have a `skeleton` only in mathematics, where they have no programs.
        `constants` counts the right samples whose program read no table; null if no verdict on a right sample tells
        whether it read any. The greedy response counts in `greedy_correct` only, which is null without it.

    Raises:
        ValueError: rollouts and verdicts are of other samples, or a verdict does not judge the response.
    """
    samples = _judged_samples(rollouts, verdicts)
    if solutions and "program_class" not in classes:
        samples, classes = samples.with_columns(skeleton=skeleton(pl.col("text"))), classes | {"skeleton"}
    samples = samples.with_columns(style=_style_of(styles)).drop(*_STYLED)
    reads = pl.col("reads_table").filter("correct")
    greedy = samples.filter(pl.col("sample_index") == -1).select("prompt_id", greedy_correct="correct")
    drawn = samples.filter(pl.col("sample_index") >= 0).with_columns(row=pl.col("prompt_id").rle_id())
    # One column after the other: windows over all samples are the peak of memory.
    lists = dict[str, pl.Series]()
    for name, column in _CLASS_LISTS.items():
        if column in classes:
            first = pl.col("sample_index").min().over("row", column)
            lists[name] = drawn.select(pl.when(pl.col(column).is_not_null()).then(first)).to_series()
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
    to it. Two solutions with one skeleton take the same steps in the same order, perhaps for different reasons.
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


def _judged_samples(rollouts: pl.DataFrame, verdicts: pl.DataFrame) -> pl.DataFrame:
    """Each rollout with its verdict, checked as `evaluate` says and sorted by prompt_id and sample_index."""
    rollouts, verdicts = rollouts.select(*_KEY, "text").sort(_KEY), verdicts.select(*_KEY, *_JUDGED).sort(_KEY)
    if not rollouts.select(_KEY).equals(verdicts.select(_KEY)):
        raise ValueError("evaluate: rollouts and verdicts are of other samples; run the score stage again")
    unjudged = verdicts.filter(pl.col("verdict").is_in(_NOT_A_RESULT))
    if unjudged.height:
        prompt, sample = unjudged.select(_KEY).row(0)
        raise ValueError(
            f"evaluate: prompt {prompt!r}, sample {sample} has one of the verdicts {', '.join(_NOT_A_RESULT)}, which do"
            f" not judge the response ({unjudged.height} such rows); repair the machine or the gold answer and score"
            " again"
        )
    return rollouts.hstack(verdicts.drop(*_KEY, "verdict"))


def _rows_of(rows: pl.DataFrame, prompts: pl.DataFrame) -> pl.DataFrame:
    return rows.join(prompts, on="prompt_id", how="semi")


def _style_of(rules: Sequence[StyleRule]) -> pl.Expr:
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
