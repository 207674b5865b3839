"""Samples of several models on the questions that all of them answered."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

import polars as pl

from dphrl.data.records import SourceError, leaves, names_of
from dphrl.data.sample_batches import key_of_text
from dphrl.data.sample_files import SampleFile
from dphrl.data.sample_formats import CLASSES
from dphrl.evaluation.names import BASE, BASE_ITSELF

UNANSWERED = "unanswered"
"""The column of samples without an answer, of files that are judged here."""
_KEY = "prompt_id"
_SHOWN = 3
# Samples of the base that are compared with samples of a tuned model, at most.
_COMPARED = 20_000


@dataclass(frozen=True)
class Joined:
    """The samples of all files on their common questions.

    Attributes:
        rows: by policy, the base first: prompt_id, sample_index 0.. without gaps, text, correct, truncated; and
            program_class, answer_class and unanswered if a scorer gave them. Sorted by prompt_id and sample_index.
        questions: prompt_id, question, level, gold and cluster of each question, sorted by prompt_id.
        left_out: by policy, the questions that some other file lacks, as a reader knows them.
        notes: remarks on the files for the reader.
        trainings: by policy, the model and the number of the training. Only for models with several trainings.
    """

    rows: dict[str, pl.DataFrame]
    questions: pl.DataFrame
    left_out: dict[str, list[str]]
    notes: tuple[str, ...]
    trainings: dict[str, tuple[str, int]] = field(default_factory=dict)

    @property
    def tuned(self) -> list[str]:
        """The names of the tuned models."""
        return list(self.rows)[1:]


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
        short_names.append("/".join(own[start : len(own) - end]) or stem)
    return short_names


def _same(sequences: Sequence[Sequence[str]]) -> int:
    """With how many equal elements all of them start."""
    return len(list(takewhile(lambda elements: len({*elements}) == 1, zip(*sequences, strict=False))))


def join(files: Sequence[SampleFile], names: Sequence[str] | None = None) -> Joined:
    """The samples of the base (first) and of tuned models, joined by the ids of questions, or else by their texts.

    Ids decide unless they name different questions in different files: then the texts do. Samples that are not judged
    are left out, with a note.

    Args:
        names: of the policies; None: `policy_names`.

    Raises:
        SourceError: a file without any judged sample, or files without a common question.
    """
    names = names or policy_names(files)
    notes = [f"{name}: {note}" for name, file in zip(names, files, strict=True) for note in file.notes]
    judged = {}
    for name, file in zip(names, files, strict=True):
        missing = file.rows["correct"].null_count()
        judged[name] = file.rows.filter(pl.col("correct").is_not_null()) if missing else file.rows
        if judged[name].is_empty():
            raise SourceError(
                f"{file.path}: no sample is judged; judge them here with --task math or --task sql, or name the field"
                f" of the verdict with --map correct=FIELD (and --threshold for scores){_fields(file)}."
                " A scorer that you wrote judges them in a run of recorded answers (docs/replay.md)"
            )
        if missing:
            notes.append(f"{name}: {missing:,} of {file.rows.height:,} samples are not judged and left out")
    keyed, said = _keyed(judged)
    common = _common([rows[_KEY] for rows in keyed.values()])
    if not common.len():
        ids = [
            known_as(*rows.row(0)) for rows in (frame.select("question_id", "question") for frame in judged.values())
        ]
        raise SourceError(
            f"{files[0].path} and {files[-1].path} have no question in common, neither by id nor by text (for instance"
            f" {ids[0][:60]!r} and {ids[-1][:60]!r}); name the field of the id with --map question_id=FIELD, or of the"
            f" text with --map question=FIELD{_fields(files[0])}"
        )
    left_out = {name: _left_out(rows, common) for name, rows in keyed.items()}
    rows = {name: _numbered(rows, common) for name, rows in keyed.items()}
    return Joined(rows, _questions(keyed, common), left_out, (*notes, *said, *_copied(rows)))


def _fields(file: SampleFile) -> str:
    """The fields of a file, for a message."""
    return f"; it has the fields {names_of(leaves(file.head))}" if file.head else ""


def _keyed(files: Mapping[str, pl.DataFrame]) -> tuple[dict[str, pl.DataFrame], list[str]]:
    """The rows with the column prompt_id, and notes on how it was chosen."""
    stripped = pl.col("question").str.strip_chars().str.normalize("NFC")
    named = {
        name: rows.select("question_id", "question").unique().with_columns(stripped).unique()
        for name, rows in files.items()
    }
    with_text = [pairs.filter(pl.col("question") != "")["question"] for pairs in named.values()]
    ids, texts = _common([pairs["question_id"] for pairs in named.values()]).len(), _common(with_text).len()
    differing = _differing(named)
    if ids and (differing.is_empty() or texts <= ids - differing.len()):
        notes = []
        if differing.len():
            notes.append(
                f"Questions are joined by their ids, but {differing.len():,} have different texts in different files"
                f" ({_listed(differing)}): another prompt template, or other questions."
            )
        return {name: rows.with_columns(pl.col("question_id").alias(_KEY)) for name, rows in files.items()}, notes
    key = stripped.alias(_KEY)
    why = f"{differing.len():,} ids name different questions ({_listed(differing)})" if ids else "no id is in all files"
    return (
        {name: rows.with_columns(key).filter(pl.col(_KEY) != "") for name, rows in files.items()},
        [f"Questions are joined by their texts, as {why}."] if texts else [],
    )


def _differing(named: Mapping[str, pl.DataFrame]) -> pl.Series:
    """Ids that occur in all files, but with different texts."""
    common = _common([pairs["question_id"] for pairs in named.values()])
    texts = (
        pl.concat(named.values())
        .unique()
        .filter(pl.col("question") != "", pl.col("question_id").is_in(common.implode()))
    )
    several = texts.group_by("question_id").agg(pl.col("question").n_unique()).filter(pl.col("question") > 1)
    return several["question_id"].sort()


def _common(keys: Sequence[pl.Series]) -> pl.Series:
    """The keys that occur in every series, sorted."""
    common = keys[0].unique()
    for others in keys[1:]:
        common = common.filter(common.is_in(others.unique().implode()))
    return common.sort()


def _listed(keys: pl.Series) -> str:
    return ", ".join(repr(key) for key in keys.head(_SHOWN)) + (", ..." if keys.len() > _SHOWN else "")


def known_as(key: str, question: str | None) -> str:
    """A question as a reader knows it: its id in the file, or its text in a file without ids."""
    return question if question and key == key_of_text(question) else key


def _left_out(rows: pl.DataFrame, common: pl.Series) -> list[str]:
    left = rows.filter(~pl.col(_KEY).is_in(common.implode())).unique(_KEY, keep="first", maintain_order=True)
    return [known_as(*row) for row in left.select(_KEY, "question").iter_rows()]


def _numbered(rows: pl.DataFrame, common: pl.Series) -> pl.DataFrame:
    """The rows of the common questions, samples counted anew from 0."""
    index = pl.int_range(pl.len(), dtype=pl.Int32).over(_KEY)
    kept = [name for name in (*CLASSES, UNANSWERED) if name in rows.columns]
    shared = rows.select(_KEY, index.alias("sample_index"), "text", "correct", "truncated", *kept)
    return shared.filter(pl.col(_KEY).is_in(common.implode())).sort(_KEY, maintain_order=True)


def _questions(keyed: Mapping[str, pl.DataFrame], common: pl.Series) -> pl.DataFrame:
    columns = ("question", "level", "gold", "cluster")
    of_files = (rows.select(_KEY, *columns).unique(_KEY, maintain_order=True) for rows in keyed.values())
    rows = pl.concat(of_file.cast(pl.String()) for of_file in of_files)
    first = rows.filter(pl.col(_KEY).is_in(common.implode())).group_by(_KEY, maintain_order=True)
    return first.agg(pl.col(name).drop_nulls().first() for name in columns).sort(_KEY)


def _copied(rows: Mapping[str, pl.DataFrame]) -> list[str]:
    """A note on each tuned file that repeats samples of the base: both must be independent draws."""
    key, notes = [_KEY, "sample_index", "text"], []
    base = rows[BASE].head(_COMPARED).select(key).filter(pl.col("text") != "")
    for name, every in list(rows.items())[1:]:
        # Both are sorted by prompt_id.
        of_tuned = every.filter(pl.col(_KEY) <= base[_KEY].max()) if base.height else every.head(0)
        same = base.join(of_tuned.select(key), on=key, how="semi").height / max(base.height, 1)
        # Short answers are equal by chance too; those at another place show how often.
        shifted = of_tuned.select(_KEY, (pl.col("sample_index") + 1).alias("sample_index"), "text")
        chance = base.join(shifted, on=key, how="semi").height / max(base.height, 1)
        if same > chance + 0.2:
            notes.append(
                f"{name}: {same:.0%} of its samples equal the base's sample of the same number, {chance:.0%} that of"
                " the number before it: the draws are not independent, so that more seems kept and less lost."
            )
    return notes
