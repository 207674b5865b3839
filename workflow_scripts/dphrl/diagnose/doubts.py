"""Doubts about a diagnosis: answers not found, copied samples, missing questions, truncation, unequal settings."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import polars as pl

from dphrl.data.sample_files import SampleFile
from dphrl.data.sample_formats import DPHRL
from dphrl.diagnose.joined import UNANSWERED, Joined
from dphrl.diagnose.measures import of_question
from dphrl.evaluation.diagnosis import COLLAPSED, LOSSES, NARROWED, NOT_COLLAPSED, Diagnosis, Unanswered
from dphrl.evaluation.names import BASE
from dphrl.text import percent, points, visible

QUALIFIES = 0.05
"""A difference of the shares of truncated or empty answers above it qualifies the diagnosis."""
# A share of samples without an answer above it leaves no verdict.
_MOST = 0.5
# A colder model seems narrower.
_SAMPLING = ("temperature", "top_p")
# Characters of a response without an answer.
_END = 80
# Texts with fewer characters are equal by chance.
_LONG = 20
# The share of questions with equal responses that qualifies, and of samples that may differ in a file of copies.
_FEW = 0.01
_VARIED = 10


def unanswered(joined: Joined, own: Sequence[str]) -> Unanswered | None:
    """The shares of samples without an answer, if one is above a half or they differ by more than `QUALIFIES`.

    None too where they are not known.

    Args:
        own: the policies of the model.
    """
    if not all(UNANSWERED in joined.rows[name].columns for name in (BASE, *own)):
        return None
    base, *tuned = (float(joined.rows[name][UNANSWERED].mean()) for name in (BASE, *own))  # type: ignore[arg-type]
    mine = float(np.mean(tuned))
    if abs(mine - base) <= QUALIFIES and max(mine, base) <= _MOST:
        return None
    larger = own[int(np.argmax(tuned))] if mine > base else BASE
    text = joined.rows[larger].filter(UNANSWERED)["text"][0]
    return Unanswered(base, mine, visible(text[-_END:].strip(), ""))


def doubts(diagnosis: Diagnosis, joined: Joined, shares: pl.DataFrame, files: Mapping[str, SampleFile]) -> list[str]:
    """Sentences that qualify a diagnosis.

    Args:
        shares: the table of `answers`.
        files: by policy, the base and the trainings of the model.
    """
    return [
        *_copies({name: joined.rows[name] for name in files}),
        *_missing(diagnosis, len(joined.left_out[BASE])),
        *_unfinished(diagnosis, shares, files),
        *_settings(diagnosis, files),
    ]


def _copies(rows: Mapping[str, pl.DataFrame]) -> Iterator[str]:
    """Samples that are no new draws: each of them twice, or the responses of another question or of the base."""
    for name, samples in rows.items():
        texts = samples.filter(pl.col("text") != "")
        times = texts.select(of_question("text").alias("pair")).to_series().value_counts()["count"]
        # A model with one response to each question repeats it any number of times.
        varied = times.len() >= texts["prompt_id"].n_unique() + _VARIED
        if varied and (times % 2).mean() <= _FEW:  # type: ignore[operator]
            yield f"each sample of {name} is there twice: only half of the samples are draws."
        digest = (pl.col("text").hash() % 2**40).sum()
        long = pl.col("text").str.len_chars().mean() >= _LONG
        of_questions = texts.group_by("prompt_id").agg(digest, pl.len(), long=long).filter("long")
        same = of_questions.height - of_questions.select("text", "len").n_unique()
        if same > _FEW * samples["prompt_id"].n_unique():
            yield (
                f"{same:,} questions of {name} have exactly the responses of another question: one question under two"
                " ids makes intervals too narrow."
            )
        columns = ("prompt_id", "text", "correct")
        if name != BASE and samples.select(columns).equals(rows[BASE].select(columns)):
            yield f"{name} has exactly the samples of the base: is it a copy of the same file?"


def _missing(diagnosis: Diagnosis, missing: int) -> Iterator[str]:
    """Questions of the base without an answer of the model, where they could change a diagnosis of health."""
    coverage, number = diagnosis.coverage, diagnosis.coverage.questions
    # Not answered may mean not solved.
    value = (number * coverage.value - missing * coverage.base) / (number + missing)
    if missing and diagnosis.word in (NOT_COLLAPSED, NARROWED) and value <= -diagnosis.margin:
        yield (f"{missing:,} questions of the base are not in every file; as losses: {points(value)} points.")


def _unfinished(diagnosis: Diagnosis, shares: pl.DataFrame, files: Mapping[str, SampleFile]) -> Iterator[str]:
    """Shares of truncated or empty answers: above the base's they look like a loss, below they hide a loss."""
    shares = shares.filter(pl.col("method").is_in(list(files)))
    # The texts of a run are extracted answers.
    empty = "have no answer" if files[BASE].format == DPHRL.name else "are empty"
    for share, are in (("truncated", "are truncated"), ("empty", empty)):
        base, *own = shares[share]
        if base is None or None in own:
            continue
        more = float(np.mean(own)) - base
        if more > QUALIFIES and diagnosis.word not in (NOT_COLLAPSED, NARROWED):
            effect = "the difference may come from that"
        elif more < -QUALIFIES and diagnosis.word not in LOSSES:
            effect = "that may hide a loss"
        else:
            continue
        yield (
            f"{percent(base + more)} % of the responses of {diagnosis.policy} {are}, {percent(base)} % of the base's:"
            f" {effect}."
        )


def _settings(diagnosis: Diagnosis, files: Mapping[str, SampleFile]) -> Iterator[str]:
    """Settings of sampling that differ, or a temperature that no file names."""
    for key in dict.fromkeys(key for file in files.values() for key in file.settings):
        named = {name: file.settings[key] for name, file in files.items() if key in file.settings}
        if len(set(named.values())) > 1:
            values = ", ".join(f"{value} ({name})" for name, value in named.items())
            effect = " and a colder model seems narrower" if key in _SAMPLING else ""
            yield f"the files differ in {key}: {values}; coverage compares at equal settings only{effect}."
    # A run of this workflow draws all its policies alike.
    unnamed = [name for name, file in files.items() if "temperature" not in file.settings and file.format != DPHRL.name]
    if unnamed and diagnosis.word in (COLLAPSED, NARROWED):
        yield f"no temperature is named for {' and '.join(unnamed)}: a model that was drawn colder seems narrower."
