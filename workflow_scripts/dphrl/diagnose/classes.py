r"""The evaluation of a file of samples: which of its answers, ways of calculating and styles are alike.

If a scorer of the workflow judged all files, the classes of the scorer count. Otherwise the text decides:

- The answer is the last \boxed{} or <answer>, or the text after the last `####` or `A:` of a line. The class is the
  normal form of the answer. Skeletons of the arithmetic distinguish the ways to it (`dphrl.evaluation.per_prompt`).
- If fewer than half of all samples contain such an answer, the class is the whole response with its spacing removed, as
  for SQL.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import pairwise

import polars as pl

from dphrl.config.blocks.evaluation import StyleRule
from dphrl.data.answer_text import last_boxed
from dphrl.data.sample_formats import CLASSES
from dphrl.diagnose.joined import Joined
from dphrl.evaluation.per_prompt import evaluate
from dphrl.scoring.math.answers import MAX_CHARACTERS, clean
from dphrl.scoring.math.members import answer_class, members

DATASET = "questions"
_BOXED = r"(?s)^.*(\\boxed\s*\{.*)$"
_MARKED = r"(?s)^(?:.*\n)?[ \t]*(?:####|A:)[ \t]*(\S[^\n]*)"
_TAGGED = r"(?s)^.*<answer>\s*(.*?)\s*</answer>"
# A whole number that Int64 holds, boxed or marked.
_WHOLE = (r"^\\boxed\{(-?\d{1,18})\}", r"^(-?\d{1,18})$")
# Samples that are evaluated at once; windows over all of them would be the peak of memory.
_AT_ONCE = 65_536


def evaluations(joined: Joined, keys: Mapping[str, tuple[str, int]], styles: Sequence[StyleRule]) -> pl.DataFrame:
    """The evaluations of all files: one policy per file, trainings of a model under its name with their numbers.

    Args:
        joined: as `with_answers` gives it.
        keys: by policy, the model and the number of the training.
        styles: rules tried in order on the start of a response.
    """
    # Each question without a group counts as one group.
    cluster = pl.when(pl.col("cluster").count() > 0).then(pl.coalesce("cluster", "prompt_id"))
    of_question = joined.questions.select("prompt_id", cluster.alias("cluster"))
    # Polars works on a column in one thread, without Python's lock.
    with ThreadPoolExecutor() as threads:
        evaluated = list(threads.map(partial(_evaluated, whole=joined.whole, styles=styles), joined.rows.values()))
    frames = []
    for (method, seed), frame in zip((keys[name] for name in joined.rows), evaluated, strict=True):
        key = {"method": pl.lit(method), "seed": pl.lit(seed, pl.Int32), "step": pl.lit(0, pl.Int32)}
        frame = frame.with_columns(**key, dataset=pl.lit(DATASET))
        frames.append(frame.join(of_question, on="prompt_id", how="left", maintain_order="left"))
    return pl.concat(frames)


def _evaluated(samples: pl.DataFrame, whole: bool, styles: Sequence[StyleRule]) -> pl.DataFrame:
    """The table "evaluation" of a file; skeletons only where answers were found inside the responses."""
    classes = frozenset(name for name in CLASSES if name in samples.columns and samples[name].count())
    without = [pl.lit(None, pl.String).alias(name) for name in CLASSES if name not in samples.columns]
    verdict = pl.when("correct").then(pl.lit("correct")).otherwise(pl.lit("wrong"))
    columns = dict(verdict=verdict, reads_table=pl.lit(None, pl.Boolean), extracted=pl.lit(None, pl.String))
    prompts = samples["prompt_id"]
    starts = prompts.search_sorted(prompts.gather_every(_AT_ONCE)).unique(maintain_order=True).to_list()
    parts = (samples[start:end] for start, end in pairwise([*starts, None]))
    return pl.concat(
        evaluate(part, part.with_columns(*without, **columns), styles, classes, not whole) for part in parts
    )


def with_answers(joined: Joined) -> Joined:
    """The samples with answer_class, from the text where a file has none."""
    if all("answer_class" in frame.columns for frame in joined.rows.values()):
        return joined
    rows = {name: frame.drop("program_class", strict=False) for name, frame in joined.rows.items()}
    text = pl.col("text")
    marked = pl.coalesce(text.str.extract(pattern) for pattern in (_BOXED, _TAGGED, _MARKED))
    extracted = pl.collect_all(frame.lazy().select(marked) for frame in rows.values())
    texts = {name: frame.to_series() for name, frame in zip(rows, extracted, strict=True)}
    whole = 2 * sum(map(pl.Series.count, texts.values())) < sum(map(pl.Series.len, texts.values()))
    if whole:
        spaced = text.str.replace_all(r"\s+", " ").str.strip_chars().replace("", None)
        rows = {name: frame.with_columns(answer_class=spaced) for name, frame in rows.items()}
    else:
        rows = {name: frame.with_columns(answer_class=_normal(texts[name])) for name, frame in rows.items()}
    return replace(joined, rows=rows, whole=whole)


def _normal(extracted: pl.Series) -> pl.Series:
    """The class of each answer; equal for equal values."""
    # Most answers are whole numbers, which need no parser.
    digits = pl.select(pl.coalesce(extracted.str.extract(pattern) for pattern in _WHOLE)).to_series()
    whole = digits.cast(pl.Int64).cast(pl.String)
    others = extracted.filter(whole.is_null() & extracted.is_not_null()).unique()
    classes = pl.Series([_class_of(text[:MAX_CHARACTERS]) for text in others], dtype=pl.String)
    return whole.fill_null(extracted.replace_strict(others, classes, default=None, return_dtype=pl.String))


def _class_of(text: str) -> str | None:
    answer = (last_boxed(text) or None) if text.startswith("\\boxed") else text
    if answer is None:
        return None
    listed = members(clean(answer))
    value = listed[0].value if len(listed) == 1 and listed[0].base is None else None
    return str(value) if value is not None and value.denominator == 1 else answer_class(listed)
