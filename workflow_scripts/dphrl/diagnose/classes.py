r"""Which samples are alike: the evaluation of a file of samples, with classes of answers, ways and styles.

Where a scorer of the workflow judged all files, its classes count. Else the class of an answer is its normal form: of
the last \boxed{}, or of what follows the last `####` or `A:` at the start of a line, if at least half of the samples of
all files have such an answer; otherwise of the whole response without its spacing, as for SQL. In the first case the
ways to an answer are distinguished by the skeletons of the arithmetic (`dphrl.evaluation.per_prompt`).
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import polars as pl

from dphrl.config.blocks.evaluation import EvaluateConfig, StyleRule
from dphrl.diagnose.joined import Joined
from dphrl.evaluation.per_prompt import DatasetShape, evaluate
from dphrl.evaluation.study import Study
from dphrl.scoring.math.answers import MAX_CHARACTERS, clean, extract_boxed
from dphrl.scoring.math.members import answer_class, members

DATASET = "questions"
_BOXED = r"(?s)^.*(\\boxed\s*\{.*)$"
_MARKED = r"(?s)^(?:.*\n)?[ \t]*(?:####|A:)[ \t]*(\S[^\n]*)"
# A whole number that Int64 holds, boxed or marked.
_WHOLE = (r"^\\boxed\{(-?\d{1,18})\}", r"^(-?\d{1,18})$")
_SCORED = ("answer_class", "program_class")


def study_of(joined: Joined, styles: Sequence[StyleRule], k: Sequence[int], seed: int) -> Study:
    """The study of all files, as one dataset without trainings.

    Args:
        styles: rules tried in order on the start of a response.
        k: of pass@k, ascending.
        seed: of the intervals that resample questions.
    """
    rows = joined.rows
    if not all("answer_class" in one.columns for one in rows.values()):
        rows = _with_answers({name: one.drop("program_class", strict=False) for name, one in rows.items()})
    levels, zero = joined.questions.select("prompt_id", "level"), pl.lit(0, pl.Int32)
    # Polars works on a column in one thread, without Python's lock.
    with ThreadPoolExecutor() as threads:
        evaluated = list(threads.map(partial(_evaluated, styles=styles), rows.values()))
    frames = []
    for name, frame in zip(rows, evaluated, strict=True):
        named = {"method": pl.lit(name), "seed": zero, "step": zero, "dataset": pl.lit(DATASET)}
        frame = frame.with_columns(**named, cluster=pl.lit(None, pl.String))
        frames.append(frame.join(levels, on="prompt_id", how="left", maintain_order="left"))
    return Study.from_evaluations(pl.concat(frames), EvaluateConfig(k=tuple(k)), seed)


def _evaluated(samples: pl.DataFrame, styles: Sequence[StyleRule]) -> pl.DataFrame:
    """The table "evaluation" of a file; skeletons only where answers were found inside the responses."""
    found = frozenset(name for name in _SCORED if name in samples.columns and samples[name].count())
    without = [pl.lit(None, pl.String).alias(name) for name in _SCORED if name not in samples.columns]
    verdict = pl.when("correct").then(pl.lit("correct")).otherwise(pl.lit("wrong"))
    verdicts = samples.with_columns(*without, verdict=verdict, reads_table=pl.lit(None, pl.Boolean))
    shape = DatasetShape(None, greedy=False, classes=found, solutions="whole" not in samples.columns)
    return evaluate(samples, verdicts, styles, shape)


def _with_answers(rows: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The samples with answer_class; and with the column `whole` where it is that of the whole response."""
    text = pl.col("text")
    found = pl.coalesce(text.str.extract(_BOXED), text.str.extract(_MARKED))
    with ThreadPoolExecutor() as threads:
        series = threads.map(lambda samples: samples.select(found).to_series(), rows.values())
        extracted = dict(zip(rows, series, strict=True))
    samples, answers = (sum(count(one) for one in extracted.values()) for count in (pl.Series.len, pl.Series.count))
    if 2 * answers < samples:
        spaced = text.str.replace_all(r"\s+", " ").str.strip_chars()
        whole = pl.when(spaced != "").then(spaced)
        return {name: one.with_columns(answer_class=whole, whole=True) for name, one in rows.items()}
    return {name: one.with_columns(answer_class=_normal(extracted[name])) for name, one in rows.items()}


def _normal(extracted: pl.Series) -> pl.Series:
    """The class of each answer; equal for equal values."""
    # Most answers are whole numbers, which need no parser.
    found = pl.select(pl.coalesce(extracted.str.extract(pattern) for pattern in _WHOLE)).to_series()
    whole = found.cast(pl.Int64).cast(pl.String)
    others = extracted.filter(whole.is_null() & extracted.is_not_null()).unique()
    classes = pl.Series([_class_of(text[:MAX_CHARACTERS]) for text in others], dtype=pl.String)
    return whole.fill_null(extracted.replace_strict(others, classes, default=None, return_dtype=pl.String))


def _class_of(text: str) -> str | None:
    answer = extract_boxed(text) if text.startswith("\\boxed") else text
    if answer is None:
        return None
    listed = members(clean(answer))
    value = listed[0].value if len(listed) == 1 and listed[0].base is None else None
    return str(value) if value is not None and value.denominator == 1 else answer_class(listed)
