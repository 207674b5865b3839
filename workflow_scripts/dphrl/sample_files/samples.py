"""A file of samples, whatever tool wrote it, as one table."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from types import MappingProxyType
from typing import Final

import polars as pl
from tqdm import tqdm

from dphrl.config.errors import nearest, show
from dphrl.sample_files.batches import Reader, RecordError
from dphrl.sample_files.columns import CLASSES, SampleFileError
from dphrl.sample_files.fields import Field
from dphrl.sample_files.formats import DPHRL, FORMATS, LM_EVAL, OUR_FIELDS, PLAIN, Format, recognise, score_field
from dphrl.sample_files.notes import notes_of
from dphrl.sample_files.records import Record, leaves, names_of, place, read_records
from dphrl.sample_files.settings import settings_of

_AT_ONCE: Final = 16_384

Numbered = tuple[Path, int, Record]


@dataclass(frozen=True)
class SampleFile:
    """The samples of one model.

    `format` is a key of `FORMATS`. `rows` has one row per sample, in file order within a
    question:
        question_id: the file's id as text, or a stable hash of the question's text where the file has none.
        question: text of the question, as it is in the file; "" where the file has none.
        sample_index: 0, 1, ... within the question.
        text: the whole response.
        correct: null where the file does not judge.
        gold: null where the file has none.
        level: level or category; null without.
        truncated: the response stopped at the length limit; null where the file does not say.
        answer_class, program_class: of verdicts of this workflow only.
    `settings` is what the file says of temperature, top_p, max_tokens, grader and model; it may be empty.
    `notes` are sentences that the user should read: duplicates, rows without an answer. `head` is the first object.
    """

    path: Path
    format: str
    rows: pl.DataFrame
    settings: dict[str, str]
    notes: tuple[str, ...]
    head: Record = field(default_factory=dict)


def read_samples(
    path: Path,
    *,
    format: str | None = None,
    mapping: Mapping[str, str] = MappingProxyType({}),
    threshold: float | None = None,
) -> SampleFile:
    """Read a file of samples.

    Args:
        path: .jsonl, .json or .parquet, or a folder of parquet files, which are read as one.
        format: a key of `FORMATS`; by default recognised by the fields of the first object.
        mapping: our name of a field -> the file's, with dots into nested objects. It comes before the format's; a field
            that the first object lacks is an error in a plain file, and a note in one of a known format.
        threshold: a response is correct if its score is at least this; needed where scores are not 0 or 1.

    Raises:
        SampleFileError: the file is in no known format, or a row is not as its format has it.
        OSError: the file cannot be read.
    """
    _check(format, mapping)
    records = read_records(path)
    head = next(records, None)
    if head is None:
        raise SampleFileError(f"{path}: found no samples")
    first = head[2]
    known = FORMATS[format] if format else recognise(path, first, mapping)
    absent = {name: given for name, given in mapping.items() if not Field((given,)).is_in(first)}
    if absent and known is PLAIN:
        raise _no_such_field(path, first, absent)
    mapping = {name: given for name, given in mapping.items() if name not in absent}
    score = score_field(path, known, first, mapping)
    reader = Reader(_names(path, known, score, mapping, threshold), threshold)
    shown = tqdm(chain([head], records), desc=path.name, unit=" rows", delay=2, disable=None, leave=False)
    kept = _Kept(known)
    rows = _table(iter(shown), kept, reader)
    # One --map is for all files of a comparison, which may be in several formats.
    other = [f"no field {given}: {name} is read as in other {known.name} files" for name, given in absent.items()]
    notes = [*other, *kept.notes(), *_of_reader(reader, score)]
    if rows.is_empty():
        raise SampleFileError("; ".join([f"{path}: found no samples", *notes]))
    notes += notes_of(rows, extracted=known is DPHRL)
    rows = rows.drop(name for name in CLASSES[1:] if name in rows.columns and not rows[name].count())
    settings = settings_of(path, known, first) | ({"grader": score} if score else {})
    # The file's own numbers were for the notes.
    index = pl.int_range(pl.len(), dtype=pl.Int32).over("question_id").alias("sample_index")
    return SampleFile(path, known.name, rows.with_columns(index), settings, tuple(notes), first)


def _check(format: str | None, mapping: Mapping[str, str]) -> None:
    for what, given, allowed in (("--format", [format] if format else [], FORMATS), ("--map", mapping, OUR_FIELDS)):
        for name in given:
            if name not in allowed:
                near = nearest(name, allowed)
                hint = f" (nearest: {near})" if near else ""
                raise SampleFileError(f"{what}: unknown {show(name)}{hint}: expected one of {', '.join(allowed)}")


def _no_such_field(path: Path, record: Record, absent: Mapping[str, str]) -> SampleFileError:
    name, given = next(iter(absent.items()))
    fields = leaves(record)
    near = nearest(given, fields)
    found = f" (nearest: {near})" if near else f"; it has {names_of(fields)}"
    return SampleFileError(f"{path}: --map {name}={given}: the first object has no such field{found}")


def _names(
    path: Path, known: Format, score: str | None, mapping: Mapping[str, str], threshold: float | None
) -> dict[str, tuple[str, ...]]:
    """Our field -> its names in this file."""
    names = {**known.names, **({"score": (score,)} if score else {})}
    if "correct" in mapping or "score" in mapping:
        # What the user names comes alone.
        names = {name: given for name, given in names.items() if name not in ("correct", "score")}
    names |= {name: (given,) for name, given in mapping.items()}
    missing = [
        what for what, wanted in (("text", True), ("score", threshold is not None)) if wanted and what not in names
    ]
    if missing:
        raise SampleFileError(f"{path}: which field is the {missing[0]}? Say --map {missing[0]}=FIELD")
    return names


class _Kept:
    """Which records are samples of the policy; counts the others."""

    def __init__(self, known: Format) -> None:
        self._known = known
        self._parts: Counter[str] = Counter()
        self._failed = 0

    def of(self, batch: list[Numbered]) -> list[Numbered]:
        if error := self._known.error:
            kept = [numbered for numbered in batch if numbered[2].get(error) is None]
            self._failed += len(batch) - len(kept)
            batch = kept
        if part := self._known.part:
            values = [str(record.get(part)) for *_, record in batch]
            self._parts.update(values)
            if self._known is LM_EVAL and len(self._parts) > 1:
                # With another filter it has the same responses again.
                first = next(iter(self._parts))
                batch = [numbered for numbered, value in zip(batch, values, strict=True) if value == first]
        return batch

    def notes(self) -> Iterator[str]:
        if self._failed:
            yield f"{self._failed:,} rows are left out: the tool failed there (field {self._known.error})"
        if len(self._parts) > 1:
            first, *others = map(show, self._parts)
            if self._known is LM_EVAL:
                yield (
                    f"judged with the filter {first}; the file has {', '.join(others)} too: to be judged with another, "
                    "keep its lines alone"
                )
            else:
                yield (
                    f"{self._known.part} has {len(self._parts)} values ({first}, {others[0]}, ...): are these samples "
                    "of one policy?"
                )


def _table(records: Iterator[Numbered], kept: _Kept, reader: Reader) -> pl.DataFrame:
    """The samples of all records, read in batches: records take several times the memory of the table."""
    frames = [pl.DataFrame(schema=reader.schema)]
    while read := list(islice(records, _AT_ONCE)):
        batch = kept.of(read)
        try:
            frames.append(reader.read([record for *_, record in batch]))
        except RecordError as error:
            path, number, _ = batch[error.position]
            raise SampleFileError(f"{place(path, number)}: {error}") from None
    return pl.concat(frames)


def _of_reader(reader: Reader, score: str | None) -> Iterator[str]:
    if reader.counts["greedy"]:
        yield f"{reader.counts['greedy']:,} greedy responses (sample_index -1) are left out"
    if reader.counts["one for all"]:
        yield (
            f"{score or 'the score'} is one number for several responses in {reader.counts['one for all']:,} rows, so "
            "it judges none of them: judge them here, with --task"
        )
