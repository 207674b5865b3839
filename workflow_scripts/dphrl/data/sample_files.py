"""A file of samples, whatever tool wrote it, as one table."""

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import polars as pl
from pydantic_core import from_json
from tqdm import tqdm

from dphrl.config.errors import nearest, show
from dphrl.data.records import Numbered, Record, SourceError, is_unicode, leaves, names_of, place, read_records
from dphrl.data.sample_batches import Reader, RecordError
from dphrl.data.sample_fields import Field
from dphrl.data.sample_formats import (
    CLASSES,
    DPHRL,
    FORMATS,
    LM_EVAL,
    OUR_FIELDS,
    PLAIN,
    QWEN_MATH,
    REASONING_GYM,
    VERIFIERS,
    VERL,
    Format,
    last_outputs,
    recognise,
    score_field,
)

_AT_ONCE: Final = 16_384
# A model that samples hardly writes a text of this length twice.
_LONG: Final = 200
_NAMED: Final = 3
_FORMS: Final = frozenset({"text", "n", "c"})
# Recorded answers (docs/replay.md) have one in some rows and several in others.
_RECORDED: Final = ("response", "responses")
_VERDICTS: Final = frozenset({"correct", "score", "n", "c"})
# test_qwen25-math-cot_-1_seed0_t0.6_s0_e-1.jsonl
_QWEN_NAME: Final = re.compile(r"_seed\d+_t(\d+(?:\.\d+)?)_s\d+_e-?\d+$")


@dataclass(frozen=True)
class SampleFile:
    """The samples of one model.

    `format` is a key of `FORMATS`. `rows` are the samples, in file order within a question:
        question_id: the id in the file, as text in NFC; without ids, a stable hash of the question's text.
        question: text of the question, as it is in the file; "" without.
        sample_index: 0, 1, ... within the question.
        text: the whole response.
        correct: null where the file does not judge.
        gold: null without.
        level: level or category; null without.
        cluster: the group of questions that this question belongs to, such as a database; null without.
        truncated: the response stopped at the length limit; null where the file does not say.
        answer_class, program_class: of verdicts of this workflow only.
    gold, level and cluster are of type Null where no sample has one.
    `settings` are temperature, top_p, max_tokens, grader and model, as far as the file names them.
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
        mapping: our name of a field -> the file's, with dots into nested objects. It replaces the names of the format.
            A field that the first object lacks is an error in a plain file, and a note in a file of a known format.
        threshold: a response is correct if its score is at least this; needed where scores are not 0 or 1.

    Raises:
        SourceError: the file is in no known format, or a row does not fit the format.
        OSError: the file cannot be read.
    """
    _check(format, mapping)
    records = read_records(path)
    head = next(records, None)
    if head is None:
        raise SourceError(f"{path}: found no samples")
    first = head[2]
    file_format = FORMATS[format] if format else recognise(path, first, mapping)
    absent = {name: theirs for name, theirs in mapping.items() if not Field((theirs,)).is_in(first)}
    if absent and file_format is PLAIN:
        name, theirs = next(iter(absent.items()))
        fields = names_of(leaves(first))
        raise SourceError(f"{path}: --map {name}={theirs}: the first object has no such field; it has {fields}")
    mapping = {name: theirs for name, theirs in mapping.items() if name not in absent}
    score = score_field(path, file_format, first, mapping)
    reader = Reader(_names(path, file_format, score, first, mapping, threshold), threshold)
    shown = tqdm(chain([head], records), desc=path.name, unit=" rows", delay=2, disable=None, leave=False)
    kept = _Kept(file_format)
    rows = _table(last_outputs(shown) if file_format is VERL else iter(shown), kept, reader)
    # One --map is for all files of a comparison, which may be in several formats.
    other = [
        f"no field {theirs}: {name} is read as in other {file_format.name} files" for name, theirs in absent.items()
    ]
    notes = [*other, *kept.notes(), *_of_reader(reader, score)]
    if rows.is_empty():
        raise SourceError("; ".join([f"{path}: found no samples", *notes]))
    notes += _notes_of(rows, file_format)
    if file_format is DPHRL:
        rows = _in_databases(path, rows)
    rows = rows.drop(name for name in CLASSES[1:] if name in rows.columns and not rows[name].count())
    # A text column takes 16 bytes a row even without a text.
    bare = [name for name in ("gold", "level", "cluster") if not rows[name].count()]
    rows = rows.with_columns(pl.lit(None).alias(name) for name in bare)
    settings = _settings_of(path, file_format, first) | ({"grader": score} if score else {})
    # The file's own numbers were for the notes.
    index = pl.int_range(pl.len(), dtype=pl.Int32).over("question_id").alias("sample_index")
    return SampleFile(path, file_format.name, rows.with_columns(index), settings, tuple(notes), first)


def _check(format: str | None, mapping: Mapping[str, str]) -> None:
    for option, names, allowed in (("--format", [format] if format else [], FORMATS), ("--map", mapping, OUR_FIELDS)):
        for name in names:
            if name not in allowed:
                near = nearest(name, allowed)
                hint = f" (nearest: {near})" if near else ""
                raise SourceError(f"{option}: unknown {show(name)}{hint}: expected one of {', '.join(allowed)}")


def _names(
    path: Path,
    known: Format,
    score: str | None,
    first: Record,
    mapping: Mapping[str, str],
    threshold: float | None,
) -> dict[str, tuple[str, ...]]:
    """Our field -> its names in this file."""
    names = {**known.names, **({"score": (score,)} if score else {})}
    if known in (PLAIN, REASONING_GYM):
        # The first object says which names the file has, and whether it has texts, verdicts alone, or counts.
        present = {name: tuple(one for one in theirs if Field((one,)).is_in(first)) for name, theirs in names.items()}
        names = {name: present[name] or (name,) for name in names if name not in _FORMS or present[name]}
        if set(_RECORDED).intersection(present["text"]):
            names["text"] = tuple(dict.fromkeys((*present["text"], *_RECORDED)))
    if mapping.keys() & _VERDICTS:
        # A verdict that the user names replaces all verdicts of the format.
        names = {name: theirs for name, theirs in names.items() if name not in _VERDICTS}
    names |= {name: (theirs,) for name, theirs in mapping.items()}
    if threshold is not None and "score" not in names:
        raise SourceError(f"{path}: which field is the score? Say --map score=FIELD")
    return names


class _Kept:
    """Which records are samples of the policy; counts the others."""

    def __init__(self, known: Format) -> None:
        self._known = known
        self._parts: Counter[str] = Counter()
        self._failed = 0

    def of(self, batch: list[Numbered]) -> list[Numbered]:
        if error := self._known.error:
            # A trace that a further try repaired is ok.
            kept = [row for row in batch if not row[2].get(error) or row[2].get("ok") is True]
            self._failed += len(batch) - len(kept)
            batch = kept
        if part := self._known.part:
            values = [str(record.get(part)) for *_, record in batch]
            self._parts.update(values)
            if self._known is LM_EVAL and len(self._parts) > 1:
                # The file repeats the same responses for each filter.
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
            raise SourceError(f"{place(path, number)}: {error}") from None
        except UnicodeEncodeError:
            path, number, _ = next(
                row for row in batch if not is_unicode(json.dumps(row[2], ensure_ascii=False, default=str))
            )
            problem = "a lone surrogate, half of a character: replace it, for instance by U+FFFD"
            raise SourceError(f"{place(path, number)}: {problem}") from None
    return pl.concat(frames)


def _of_reader(reader: Reader, score: str | None) -> Iterator[str]:
    if reader.counts["greedy"]:
        yield f"{reader.counts['greedy']:,} greedy responses (sample_index -1) are left out"
    if reader.counts["none"]:
        yield f"{reader.counts['none']:,} rows have an empty list of responses, so they count for no question"
    if reader.counts["one for all"]:
        yield (
            f"{score or 'the score'} is one number for several responses in {reader.counts['one for all']:,} rows, so "
            "it judges none of them: judge them here, with --task"
        )


def _in_databases(path: Path, rows: pl.DataFrame) -> pl.DataFrame:
    """Verdicts of this workflow with the database of each question, where the golds of their run are there."""
    parts = Path(os.path.abspath(path)).parts
    if "verdicts" not in parts:
        return rows
    place = len(parts) - 1 - parts[::-1].index("verdicts")
    dataset = next((part.partition(".")[0] for part in parts[place:] if ".evaluate" in part), "")
    golds = Path(*parts[:place], "gold", f"{dataset}.parquet")
    if not golds.is_file():
        return rows
    database = pl.col("ground_truth").str.json_path_match("$.db_id")
    of_question = dict(pl.read_parquet(golds, glob=False).select("prompt_id", database).iter_rows())
    cluster = pl.col("question_id").replace_strict(of_question, default=None, return_dtype=pl.String)
    return rows.with_columns(cluster=cluster)


def _settings_of(path: Path, known: Format, record: Record) -> dict[str, str]:
    """temperature, top_p, max_tokens, grader and model, as far as they are there.

    They are in the first record, for verifiers in metadata.json in the file's folder, and for Qwen2.5-Math the
    temperature is in the file's name.
    """
    source = _metadata(path.with_name("metadata.json")) if known is VERIFIERS else record
    settings = {name: Field(names).find(source) for name, names in known.settings.items()}
    named = _QWEN_NAME.search(path.stem)
    if known is QWEN_MATH and named:
        settings["temperature"] = named[1]
    # 1 and 1.0 are the same setting.
    whole = {name: int(value) for name, value in settings.items() if isinstance(value, float) and value.is_integer()}
    return {name: str(value) for name, value in {**settings, **whole}.items() if isinstance(value, str | int | float)}


def _metadata(path: Path) -> dict[str, Any]:
    """The file's content; empty where there is none, as nothing but a comparison of settings depends on it."""
    try:
        content = from_json(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _notes_of(rows: pl.DataFrame, known: Format) -> Iterator[str]:
    """Notes on the samples of a file; `sample_index` is still the number in the file, null without a number."""
    # Copies of extracted answers are no surprise.
    extracted = known is DPHRL
    total = f"{rows.height:,} responses"
    empty = int(rows["text"].str.strip_chars().eq("").sum())
    if empty == rows.height:
        yield "no texts: nothing is said about variety; --map text=FIELD names the responses"
    elif empty:
        yield f"{empty:,} of {total} {'have no extracted answer' if extracted else 'are empty'}"
    repeated = int(rows.select("question_id", "sample_index").drop_nulls().is_duplicated().sum())
    if repeated:
        yield f"{repeated:,} rows have the sample_index of another row of the question: was a file joined with itself?"
    long = rows.filter(pl.col("text").str.len_bytes() >= _LONG)
    copies = long.height - long.select(pl.struct("question_id", pl.col("text").hash()).n_unique()).item()
    if copies and not extracted:
        yield (
            f"{copies:,} of {total} are exact copies of an earlier one to the same question, {_LONG} bytes or longer"
        )
    pairs = rows.select("question_id", "question").unique(maintain_order=True)
    mixed = _repeated(pairs, "question_id")
    if mixed:
        yield f"{len(mixed):,} question ids have more than one question: {_first(mixed)}"
    same = _repeated(pairs.filter(pl.col("question") != ""), "question")
    if same:
        yield f"{len(same):,} questions have more than one id: {_first(same)}"


def _repeated(pairs: pl.DataFrame, column: str) -> list[str]:
    """Values of a column that are in more than one pair."""
    counts = pairs.group_by(column, maintain_order=True).len()
    return counts.filter(pl.col("len") > 1)[column].to_list()


def _first(values: Sequence[str]) -> str:
    named = ", ".join(show(value, 60) for value in values[:_NAMED])
    return f"{named}, ..." if len(values) > _NAMED else named
