"""Batches of records as tables of samples, column by column: a million rows take seconds."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import chain, repeat
from types import NoneType
from typing import Any, Final
from unicodedata import normalize

import polars as pl

from dphrl.data.records import Record
from dphrl.data.sample_fields import (
    Field,
    FieldError,
    at_least,
    cut_of,
    gold_of,
    id_of,
    index_of,
    level_of,
    question_of,
    responses_of,
    truth_of,
)
from dphrl.data.sample_formats import CLASSES, COLUMNS

# The index of a greedy response in recorded answers (docs/replay.md).
_GREEDY: Final = -1
# Columns of a batch. Here sample_index is still the number in the file, null without a number.
AS_READ: Final = COLUMNS | {"sample_index": pl.Int64()}

_TEXT: Final = frozenset({str})
_NOTHING: Final = frozenset({NoneType})
_BOOL: Final = frozenset({bool})

Convert = Callable[[Field, Any], Any]


def key_of_text(question: str) -> str:
    """The id of a question in a file without ids."""
    return blake2b(normalize("NFC", question).encode("utf-8"), digest_size=16).hexdigest()


class RecordError(ValueError):
    """A record cannot be used; `position` is its place in the batch."""

    def __init__(self, position: int, problem: object) -> None:
        super().__init__(str(problem))
        self.position = position


class Reader:
    """Reads batches of records.

    `counts`: greedy responses left out, rows without a response, rows whose score judges no response.

    Args:
        names: our field -> its names in the file.
        threshold: of scores; by default they are 0 or 1.
    """

    def __init__(self, names: Mapping[str, tuple[str, ...]], threshold: float | None = None) -> None:
        self._fields = {name: Field(file_names) for name, file_names in names.items()}
        self._classes = [name for name in CLASSES if name in names]
        self.schema = AS_READ | dict.fromkeys(self._classes, pl.String())
        self._judges: dict[str, Convert] = {"correct": truth_of, "score": truth_of}
        if threshold is not None:
            self._judges = {"score": at_least(threshold), "correct": truth_of}
        self._cuts: dict[str, Convert] = {"truncated": cut_of}
        self._counted = "text" not in names and {"n", "c"} <= names.keys()
        self._with_ids: bool | None = None
        self._hashes: dict[str, str] = {}
        self.counts: Counter[str] = Counter()

    def read(self, records: Sequence[Record]) -> pl.DataFrame:
        """The samples of a batch, columns `schema`: `AS_READ`, and classes where there are. Raises RecordError."""
        if not records:
            return pl.DataFrame(schema=self.schema)
        responses = self._responses(records)
        sizes = [len(texts) for texts in responses]
        self.counts["none"] += sizes.count(0)
        questions = self._column("question", question_of, records, _TEXT)
        columns = {
            "question_id": _shared(_repeated(self._keys(questions, records), sizes)),
            "question": _shared(_repeated(questions, sizes)),
            "sample_index": self._indices(records, sizes),
            "text": list(chain.from_iterable(responses)),
            "correct": self._of_counts(records, sizes)
            if self._counted
            else self._per_response(self._judges, records, sizes),
            "gold": _repeated(self._column("gold", gold_of, records, _NOTHING), sizes),
            "level": _repeated(self._column("level", level_of, records, _NOTHING), sizes),
            "cluster": _repeated(self._column("cluster", level_of, records, _NOTHING), sizes),
            "truncated": self._per_response(self._cuts, records, sizes),
            **{name: _repeated(self._column(name, gold_of, records), sizes) for name in self._classes},
        }
        rows = pl.DataFrame(columns, schema=self.schema)
        greedy = rows["sample_index"].eq_missing(_GREEDY)
        self.counts["greedy"] += int(greedy.sum())
        return rows.filter(~greedy)

    def _column(
        self, name: str, convert: Convert, records: Sequence[Record], as_is: frozenset[type] = frozenset()
    ) -> list[Any]:
        """A value per record, all converted unless their types are in `as_is`; without the field, converted nulls."""
        field = self._fields.get(name)
        if field is None:
            return [convert(Field(()), None)] * len(records)
        values = list(map(field.find, records))
        return values if as_is.issuperset(map(type, values)) else _converted(field, convert, values)

    def _responses(self, records: Sequence[Record]) -> list[list[str]]:
        """The responses of each record; a null is an empty one, but a record must have the field."""
        field = self._fields.get("text")
        if field is None:
            return [[""] * self._size(position, record) for position, record in enumerate(records)]
        values = list(map(field.find, records))
        if _TEXT.issuperset(map(type, values)):
            return [[text] for text in values]
        responses: list[list[str]] = _converted(field, responses_of, values)
        for position, texts in enumerate(responses):
            if texts == [""] and not field.is_in(records[position]):
                raise RecordError(position, field.expected("a response", None))
        return responses

    def _size(self, position: int, record: Record) -> int:
        """The samples of a row without texts: n, or as many as there are verdicts."""
        number = self._fields["n"].find(record) if self._counted else None
        if self._counted and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
            raise RecordError(position, self._fields["n"].expected("a number of samples, 1 or more", number))
        if isinstance(number, int):
            return number
        verdicts = (self._fields[name].find(record) for name in self._judges if name in self._fields)
        first = next((verdict for verdict in verdicts if verdict is not None), None)
        return len(first) if isinstance(first, list) else 1

    def _of_counts(self, records: Sequence[Record], sizes: Sequence[int]) -> list[bool | None]:
        """c right samples of n for each row, spread evenly: their order is not known."""
        verdicts: list[bool | None] = []
        for position, (record, size) in enumerate(zip(records, sizes, strict=True)):
            right = self._fields["c"].find(record)
            if isinstance(right, bool) or not isinstance(right, int) or not 0 <= right <= size:
                raise RecordError(position, self._fields["c"].expected(f"a whole number from 0 to {size}", right))
            verdicts.extend((place + 1) * right // size > place * right // size for place in range(size))
        return verdicts

    def _keys(self, questions: Sequence[str], records: Sequence[Record]) -> list[str]:
        """The file's ids, or hashes of the questions; the first record decides which."""
        field = self._fields.get("question_id")
        if self._with_ids is None:
            self._with_ids = field is not None and field.find(records[0]) is not None
        if self._with_ids:
            # Two programs may write one id in two forms of Unicode.
            return [normalize("NFC", key) for key in self._column("question_id", id_of, records, _TEXT)]
        if "" in questions:
            names = " or ".join(str(self._fields[name]) for name in ("question_id", "question") if name in self._fields)
            problem = f"{names}: expected an id or the text of the question, found nothing"
            raise RecordError(questions.index(""), problem)
        for question in set(questions).difference(self._hashes):
            self._hashes[question] = key_of_text(question)
        return [self._hashes[question] for question in questions]

    def _indices(self, records: Sequence[Record], sizes: Sequence[int]) -> list[int | None]:
        first = self._column("sample_index", index_of, records, _NOTHING)
        return [
            None if start is None else start + number
            for start, size in zip(first, sizes, strict=True)
            for number in range(size)
        ]

    def _per_response(
        self, sources: Mapping[str, Convert], records: Sequence[Record], sizes: Sequence[int]
    ) -> list[bool | None]:
        """A verdict per response, from the first field with a value in the record: a single value or a list."""
        fields = [(self._fields[name], convert) for name, convert in sources.items() if name in self._fields]
        columns = [(field, convert, list(map(field.find, records))) for field, convert in fields]
        columns = [column for column in columns if not _NOTHING.issuperset(map(type, column[2]))]
        if not columns:
            return [None] * sum(sizes)
        _, convert, first = columns[0]
        if convert is truth_of and _BOOL.issuperset(map(type, first)) and sizes.count(1) == len(records):
            return first  # most files: no loop for a million rows
        verdicts: list[bool | None] = []
        for position, size in enumerate(sizes):
            field, convert, values = next((column for column in columns if column[2][position] is not None), columns[0])
            value = values[position]
            try:
                if isinstance(value, list):
                    verdicts.extend(convert(field, verdict) for verdict in _one_each(field, value, size))
                elif value is not None and size > 1 and sources is self._judges:
                    # One number for several responses (lm-evaluation-harness with repeats) judges none of them.
                    self.counts["one for all"] += 1
                    verdicts.extend(repeat(None, size))
                else:
                    verdicts.extend(repeat(convert(field, value), size))
            except FieldError as error:
                raise RecordError(position, error) from None
        return verdicts


def _converted(field: Field, convert: Convert, values: Iterable[Any]) -> list[Any]:
    converted: list[Any] = []
    try:
        for value in values:
            converted.append(convert(field, value))
    except FieldError as error:
        raise RecordError(len(converted), error) from None
    return converted


def _one_each(field: Field, values: list[Any], size: int) -> list[Any]:
    if len(values) != size:
        raise FieldError(f"{field}: expected {size} values, one per response, found {len(values)}")
    return values


def _shared(values: list[str]) -> pl.Series:
    """A column in which equal texts share their memory: a question is there once, not once per sample."""
    places = {value: place for place, value in enumerate(dict.fromkeys(values))}
    return pl.Series(list(places), dtype=pl.String()).gather([places[value] for value in values])


def _repeated(values: list[Any], sizes: Sequence[int]) -> list[Any]:
    """The value of each record, once per response."""
    if sizes.count(1) == len(sizes):
        return values
    return [value for value, size in zip(values, sizes, strict=True) for _ in range(size)]
