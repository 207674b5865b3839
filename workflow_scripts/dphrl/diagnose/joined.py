"""Samples of several models on the questions that all of them answered."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Self

import polars as pl

from dphrl.data.records import SourceError, leaves, names_of
from dphrl.data.sample_files import SampleFile, listed
from dphrl.data.sample_formats import CLASSES
from dphrl.evaluation.names import BASE, BASE_ITSELF
from dphrl.text import visible

UNANSWERED = "unanswered"
"""The column of samples without an answer, of files that are judged here."""


@dataclass(frozen=True)
class Joined:
    """The samples of all files on their common questions.

    Attributes:
        rows: by policy, the base first: prompt_id, sample_index 0.. without gaps, text, correct, truncated; and
            program_class, answer_class and unanswered if a scorer gave them. Sorted by prompt_id and sample_index.
        questions: prompt_id, question, gold and cluster of each question, sorted by prompt_id.
        left_out: by policy, the questions that some other file lacks.
        notes: remarks on the files for the reader.
        whole: whether an answer_class is a whole response.
    """

    rows: dict[str, pl.DataFrame]
    questions: pl.DataFrame
    left_out: dict[str, list[str]]
    notes: tuple[str, ...]
    whole: bool = False

    def without(self, questions: Sequence[str]) -> Self:
        """Without these questions."""
        rest = ~pl.col("prompt_id").is_in(list(questions))
        rows = {name: frame.filter(rest) for name, frame in self.rows.items()}
        return replace(self, rows=rows, questions=self.questions.filter(rest))


def policy_names(files: Sequence[SampleFile]) -> list[str]:
    """`base`, then a name for each tuned file, with a number where two are the same: as `shown_as`."""
    names = [BASE]
    for short_name in shown_as([file.path for file in files])[1:]:
        taken = {*names, BASE_ITSELF}
        numbered = (f"{short_name} ({number})" for number in range(2, len(files) + 2))
        names.append(short_name if short_name not in taken else next(name for name in numbered if name not in taken))
    return names


def shown_as(paths: Sequence[Path]) -> list[str]:
    """A short name of each path: its stem. Equal stems get the parts of their paths that differ."""
    every = [Path(os.path.abspath(path)) for path in paths]
    stems = [path.name if path.is_dir() else path.stem for path in every]
    short_names = []
    for path, stem in zip(every, stems, strict=True):
        alike = [(*other.parent.parts, name) for other, name in zip(every, stems, strict=True) if name == stem]
        start = _same(alike)
        end = _same([parts[start:][::-1] for parts in alike])
        own = (*path.parent.parts, stem)
        short_names.append(visible("/".join(own[start : len(own) - end]) or stem, ""))
    return short_names


def _same(sequences: Sequence[Sequence[str]]) -> int:
    """With how many equal elements all of them start."""
    return len(list(takewhile(lambda elements: len({*elements}) == 1, zip(*sequences, strict=False))))


def join(files: Mapping[str, SampleFile]) -> Joined:
    """The samples of the base (first) and of tuned models, by policy, joined by the ids of questions or by their texts.

    Ids decide unless they name different questions in different files: then the texts do. Samples that are not judged
    are left out, with a note.

    Raises:
        SourceError: a file without any judged sample, or files without a common question.
    """
    notes = [f"{name}: {note}" for name, file in files.items() for note in file.notes]
    judged = {}
    for name, file in files.items():
        missing = file.rows["correct"].null_count()
        judged[name] = file.rows.drop_nulls("correct") if missing else file.rows
        if judged[name].is_empty():
            raise SourceError(
                f"{file.path}: no sample is judged: verdicts are missing, or one for several responses; judge them"
                " here with --task math or --task sql, or name the field of the verdict with --map correct=FIELD (and"
                f" --threshold for scores){_fields(file)}. A scorer that you wrote judges them in a run of recorded"
                " answers (docs/replay.md)"
            )
        if missing:
            notes.append(f"{name}: {missing:,} of {file.rows.height:,} samples are not judged and left out")
    key, common, of_key = _common(judged)
    if not common.len():
        first, *_, last = files.values()
        shown = [repr(rows["question_id"][0])[:60] for rows in judged.values()]
        raise SourceError(
            f"{first.path} and {last.path} have no question in common, neither by id nor by text (for instance"
            f" {shown[0]} and {shown[-1]}); name the field of the id with --map question_id=FIELD, or of the text with"
            f" --map question=FIELD{_fields(first)}"
        )
    index = pl.int_range(pl.len(), dtype=pl.Int32).over("prompt_id").alias("sample_index")
    every = {name: rows.with_columns(pl.col(key).alias("prompt_id")) for name, rows in judged.items()}
    here = pl.col("prompt_id").is_in(common.implode())
    rows, left_out, of_left_out = {}, {}, []
    for name, frame in every.items():
        kept = [column for column in (*CLASSES, UNANSWERED) if column in frame.columns]
        samples = frame.select("prompt_id", index, "text", "correct", "truncated", *kept)
        rows[name] = samples.filter(here).sort("prompt_id", maintain_order=True)
        # Without ids and without a text a question has no name.
        others = frame.filter(~here, pl.col("prompt_id") != "")["prompt_id"]
        left_out[name] = others.unique(maintain_order=True).to_list()
        if left_out[name]:
            number, first_ones = len(left_out[name]), listed(left_out[name])
            of_left_out.append(f"{name}: {number:,} questions are not in every file and left out: {first_ones}")
    columns = ("question", "gold", "cluster")
    of_files = [frame.filter(here).unique("prompt_id", keep="first", maintain_order=True) for frame in every.values()]
    questions = (
        pl.concat(of_file.select("prompt_id", pl.col(columns).cast(pl.String)) for of_file in of_files)
        .group_by("prompt_id")
        .agg(pl.col(column).drop_nulls().first() for column in columns)
        .sort("prompt_id")
    )
    return Joined(rows, questions, left_out, (*of_left_out, *notes, *of_key))


def _fields(file: SampleFile) -> str:
    """The fields of a file, for a message."""
    return f"; it has the fields {names_of(leaves(file.head))}" if file.head else ""


def _common(files: Mapping[str, pl.DataFrame]) -> tuple[str, pl.Series, list[str]]:
    """The column that joins questions, its values in all files, and a note on the choice."""
    pairs = pl.concat(
        rows.select("question_id", "question").unique().with_columns(file=pl.lit(name)) for name, rows in files.items()
    ).with_columns(pl.col("question").replace("", None))
    in_all = pl.col("file").n_unique() == len(files)
    ids = (
        pairs.group_by("question_id")
        .agg(in_all, texts=pl.col("question").drop_nulls().n_unique())
        .filter("file")
        .sort("question_id")
    )
    texts = pairs.drop_nulls("question").group_by("question").agg(in_all).filter("file").sort("question")
    differing = ids.filter(pl.col("texts") > 1)["question_id"]
    if ids.height and (differing.is_empty() or texts.height <= ids.height - differing.len()):
        note = (
            f"Questions are joined by their ids, but {differing.len():,} have different texts in different files"
            f" ({listed(differing.to_list())}): another prompt template, or other questions."
        )
        return "question_id", ids["question_id"], [note] if differing.len() else []
    why = (
        f"{differing.len():,} ids name different questions ({listed(differing.to_list())})"
        if ids.height
        else "no id is in all files"
    )
    return "question", texts["question"], [f"Questions are joined by their texts, as {why}."]
