"""A file of samples, whatever tool wrote it, as one table."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import polars as pl
from pydantic_core import from_json
from tqdm import tqdm

from dphrl.config.errors import nearest, show
from dphrl.data.records import Numbered, Record, SourceError, leaves, names_of, place, read_records
from dphrl.data.sample_batches import Reader
from dphrl.data.sample_fields import Field, FieldError
from dphrl.data.sample_formats import (
    DPHRL,
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
_NAMED: Final = 3
_FORMS: Final = frozenset({"text", "n", "c"})
# Recorded answers (docs/replay.md) have one in some rows and several in others. Their greedy response is no draw.
_RECORDED: Final = ("response", "responses")
_GREEDY: Final = -1
_VERDICTS: Final = frozenset({"correct", "score", "n", "c"})
# test_qwen25-math-cot_-1_seed0_t0.6_s0_e-1.jsonl
_QWEN_NAME: Final = re.compile(r"_seed\d+_t(\d+(?:\.\d+)?)_s\d+_e-?\d+$")


@dataclass(frozen=True)
class SampleFile:
    """The samples of one model.

    `format` is the name of a `Format`. `rows` are the samples, in file order within a question:
        question_id: the id in the file, as text in NFC; without one the question, or its start and a digest.
        question: text of the question in NFC, without white space around it; "" without.
        text: the whole response.
        correct: null where the file does not judge.
        gold: null without.
        cluster: the group of questions that this question belongs to, such as a database; null without.
        truncated: the response stopped at the length limit; null where the file does not say.
        answer_class, program_class: of verdicts of this workflow only.
    gold and cluster are of type Null where no sample has one.
    `settings` are temperature, top_p, max_tokens and grader, as far as the file names them.
    `notes` are sentences that the user should read. `head` is the first object.
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
    mapping: Mapping[str, str] = MappingProxyType({}),
    threshold: float | None = None,
    verdicts: bool = True,
) -> SampleFile:
    """Read a file of samples.

    Args:
        path: .jsonl, .json or .parquet, or a folder of parquet files, which are read as one.
        mapping: our name of a field -> the file's, with dots into nested objects. It replaces the names of the format.
            A field that the first object lacks is an error in a plain file, and a note in a file of a known format.
        threshold: a response is correct if its score is at least this; needed where scores are not 0 or 1.
        verdicts: False: they and the threshold are not read, for samples that are judged anew.

    Raises:
        SourceError: the file is in no known format, or a row does not fit the format.
        OSError: the file cannot be read.
    """
    for name in mapping:
        if name not in OUR_FIELDS:
            near = nearest(name, OUR_FIELDS)
            hint = f" (nearest: {near})" if near else ""
            raise SourceError(f"--map: unknown {show(name)}{hint}: expected one of {', '.join(OUR_FIELDS)}")
    records = read_records(path)
    head = next(records, None)
    if head is None:
        raise SourceError(f"{path}: expected samples, found no rows")
    first = head[2]
    known = recognise(path, first, mapping)
    absent = {name: theirs for name, theirs in mapping.items() if not Field((theirs,)).is_in(first)}
    if absent and known is PLAIN:
        name, theirs = next(iter(absent.items()))
        fields = names_of(leaves(first))
        raise SourceError(f"{path}: --map {name}={theirs}: the first object has no such field; it has {fields}")
    mapping = {name: theirs for name, theirs in mapping.items() if name not in absent}
    names, score = _names(known, first, mapping), None
    if verdicts:
        score = score_field(path, known, first, mapping)
        names |= {"score": (score,)} if score else {}
    else:
        names, threshold = {name: theirs for name, theirs in names.items() if name not in _VERDICTS}, None
    if threshold is not None and not Field(names.get("score", ())).is_in(first):
        raise SourceError(f"{path}: which field is the score? Say --map score=FIELD")
    shown = tqdm(chain([head], records), desc=path.name, unit=" rows", delay=2, disable=None, leave=False)
    left_out: Counter[str] = Counter()
    draws = _samples(last_outputs(shown) if known is VERL else shown, known, names, first, left_out)
    rows = _table(draws, Reader(names, threshold))
    # One --map is for all files of a comparison, which may be in several formats.
    notes = [f"no field {theirs}: {name} is read as in other {known.name} files" for name, theirs in absent.items()]
    notes += [f"{count:,} rows are left out: {why}" for why, count in left_out.items()]
    if rows.is_empty():
        raise SourceError("; ".join([f"{path}: found no samples", *notes]))
    notes += _ids_and_questions(rows)
    if known is DPHRL:
        rows = _in_databases(path, rows)
    if "program_class" in rows.columns and not rows["program_class"].count():
        rows = rows.drop("program_class")
    # A text column takes 16 bytes a row even without a text.
    rows = rows.with_columns(pl.lit(None).alias(name) for name in ("gold", "cluster") if not rows[name].count())
    settings = _settings_of(path, known, first) | ({"grader": score} if score else {})
    return SampleFile(path, known.name, rows, settings, tuple(notes), first)


def _names(known: Format, first: Record, mapping: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Our field -> its names in this file."""
    names = dict(known.names)
    if known in (PLAIN, REASONING_GYM):
        # The first object says which names the file has, and whether it has texts, verdicts alone, or counts.
        present = {
            name: tuple(name for name in theirs if Field((name,)).is_in(first)) for name, theirs in names.items()
        }
        names = {name: present[name] or (name,) for name in names if name not in _FORMS or present[name]}
        if set(_RECORDED).intersection(present["text"]):
            names["text"] = tuple(dict.fromkeys((*present["text"], *_RECORDED)))
    if mapping.keys() & _VERDICTS:
        # A named verdict replaces all verdicts of the format.
        names = {name: theirs for name, theirs in names.items() if name not in _VERDICTS}
    return names | {name: (theirs,) for name, theirs in mapping.items()}


def _samples(
    rows: Iterable[Numbered], known: Format, names: Mapping[str, tuple[str, ...]], first: Record, left_out: Counter[str]
) -> Iterator[Numbered]:
    """The rows that are draws of the model; counts the others by the reason."""
    index, judged_with = Field(names.get("sample_index", ())), first.get("filter")
    for row in rows:
        record = row[2]
        # A trace that a further try repaired is ok.
        if known.error and record.get(known.error) and record.get("ok") is not True:
            why = f"the tool failed there (field {known.error})"
        # The file repeats the same responses for each filter.
        elif known is LM_EVAL and record.get("filter") != judged_with:
            why = f"not of the filter {show(judged_with)} of the first row; to judge with another, keep its rows alone"
        elif index.find(record) == _GREEDY:
            why = "greedy responses (sample_index -1)"
        else:
            yield row
            continue
        left_out[why] += 1


def _table(rows: Iterator[Numbered], reader: Reader) -> pl.DataFrame:
    """The samples of all rows, read in batches: records take several times the memory of the table."""
    frames = [pl.DataFrame(schema=reader.schema)]
    while batch := list(islice(rows, _AT_ONCE)):
        frames.append(_read(batch, reader))
    return pl.concat(frames)


def _read(batch: Sequence[Numbered], reader: Reader) -> pl.DataFrame:
    """The samples of a batch. One that does not fit is halved, to name the first wrong row."""
    try:
        return reader.read([record for *_, record in batch])
    except (FieldError, UnicodeEncodeError) as error:
        if len(batch) > 1:
            half = len(batch) // 2
            return pl.concat([_read(batch[:half], reader), _read(batch[half:], reader)])
        path, number, _ = batch[0]
        surrogate = "a lone surrogate, half of a character: replace it, for instance by U+FFFD"
        problem = error if isinstance(error, FieldError) else surrogate
        raise SourceError(f"{place(path, number)}: {problem}") from None


def _ids_and_questions(rows: pl.DataFrame) -> Iterator[str]:
    """Notes on ids with several questions, and questions with several ids."""
    pairs = rows.select("question_id", "question").unique(maintain_order=True).filter(pl.col("question") != "")
    for column, problem in (
        ("question_id", "question ids have more than one question"),
        ("question", "questions have more than one id"),
    ):
        counts = pairs.group_by(column, maintain_order=True).len()
        several = counts.filter(pl.col("len") > 1)[column].to_list()
        if several:
            yield f"{len(several):,} {problem}: {listed(several)}"


def listed(questions: Sequence[str]) -> str:
    """The first questions, for a note."""
    named = ", ".join(show(question, 60) for question in questions[:_NAMED])
    return f"{named}, ..." if questions[_NAMED:] else named


def _in_databases(path: Path, rows: pl.DataFrame) -> pl.DataFrame:
    """Verdicts of this workflow with the database of each question, where the golds of their run are there."""
    folders = [path.absolute(), *path.absolute().parents]
    run = next((folder.parent for folder in folders if folder.name == "verdicts"), None)
    dataset = next((folder.name.partition(".")[0] for folder in folders if ".evaluate" in folder.name), None)
    golds = None if run is None else run / "gold" / f"{dataset}.parquet"
    if golds is None or not golds.is_file():
        return rows
    database = pl.col("ground_truth").str.json_path_match("$.db_id")
    of_question = pl.read_parquet(golds, glob=False).select(question_id="prompt_id", cluster=database)
    return rows.drop("cluster").join(of_question, on="question_id", how="left", maintain_order="left")


def _settings_of(path: Path, known: Format, record: Record) -> dict[str, str]:
    """The settings that are there.

    They are in the first record, for verifiers in metadata.json in the file's folder, and for Qwen2.5-Math the
    temperature is in the file's name.
    """
    source: Any = record
    if known is VERIFIERS:
        # Nothing but a comparison of settings depends on this file.
        try:
            source = from_json(path.with_name("metadata.json").read_bytes())
        except (OSError, ValueError):
            source = {}
        source = source if isinstance(source, dict) else {}
    settings = {name: Field(names).find(source) for name, names in known.settings.items()}
    named = _QWEN_NAME.search(path.stem)
    if known is QWEN_MATH and named:
        settings["temperature"] = named[1]
    # 1 and 1.0 are the same setting.
    whole = {name: int(value) for name, value in settings.items() if isinstance(value, float) and value.is_integer()}
    return {name: str(value) for name, value in {**settings, **whole}.items() if isinstance(value, str | int | float)}
