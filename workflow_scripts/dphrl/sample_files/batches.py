"""Batches of records as tables of samples, column by column: a million rows take seconds."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import chain, repeat
from typing import Any, Final

import polars as pl

from dphrl.sample_files.columns import COLUMNS
from dphrl.sample_files.fields import (
    Field,
    FieldError,
    at_least,
    cut_of,
    flag_of,
    gold_of,
    id_of,
    index_of,
    level_of,
    question_of,
    responses_of,
    truth_of,
)
from dphrl.sample_files.records import Record

# The index of a greedy response in recorded answers (docs/replay.md).
_GREEDY: Final = -1
# As read, sample_index is the file's; null where it has none.
AS_READ: Final = COLUMNS | {"sample_index": pl.Int64()}

Convert = Callable[[Field, Any], Any]


class RecordError(ValueError):
    """A record cannot be used; `position` is its place in the batch."""

    def __init__(self, position: int, problem: object) -> None:
        super().__init__(str(problem))
        self.position = position


class Reader:
    """Reads batches of records; `counts` has the greedy responses left out and the rows whose score judges none.

    Args:
        names: our field -> its names in the file.
        threshold: of scores; by default they are 0 or 1.
    """

    def __init__(self, names: Mapping[str, tuple[str, ...]], threshold: float | None = None) -> None:
        self._fields = {name: Field(given) for name, given in names.items()}
        self._judges: dict[str, Convert] = {"correct": truth_of, "score": truth_of}
        if threshold is not None:
            self._judges = {"score": at_least(threshold), "correct": truth_of}
        self._with_ids: bool | None = None
        self._hashes: dict[str, str] = {}
        self.counts: Counter[str] = Counter()

    def read(self, records: Sequence[Record]) -> pl.DataFrame:
        """The samples of a batch, columns `AS_READ`. Raises RecordError."""
        responses = self._responses(records)
        sizes = [len(texts) for texts in responses]
        questions = self._column("question", question_of, records)
        columns = {
            "question_id": _repeated(self._keys(questions, records), sizes),
            "question": _repeated(questions, sizes),
            "sample_index": self._indices(records, sizes),
            "text": list(chain.from_iterable(responses)),
            "correct": self._truths(records, sizes),
            "gold": _repeated(self._column("gold", gold_of, records), sizes),
            "level": _repeated(self._column("level", level_of, records), sizes),
            "truncated": self._cuts(records, sizes),
        }
        rows = pl.DataFrame(columns, schema=AS_READ)
        greedy = rows["sample_index"].eq_missing(_GREEDY)
        self.counts["greedy"] += int(greedy.sum())
        return rows.filter(~greedy)

    def _column(self, name: str, convert: Convert, records: Sequence[Record]) -> list[Any]:
        """One value per record, that of a field without names if the file has none."""
        field = self._fields.get(name)
        return [convert(Field(()), None)] * len(records) if field is None else _converted(field, convert, records)

    def _responses(self, records: Sequence[Record]) -> list[list[str]]:
        """The responses of each record; a null is an empty one, but a record must have the field."""
        found = self._column("text", responses_of, records)
        field = self._fields["text"]
        for position, texts in enumerate(found):
            if texts == [""] and not field.is_in(records[position]):
                raise RecordError(position, field.expected("a response", None))
        return found

    def _keys(self, questions: Sequence[str], records: Sequence[Record]) -> list[str]:
        """The file's ids, or hashes of the questions; the first record decides which."""
        field = self._fields.get("question_id")
        if field and self._with_ids is None:
            self._with_ids = field.find(records[0]) is not None
        if field and self._with_ids:
            return _converted(field, id_of, records)
        if "" in questions:
            names = " or ".join(str(self._fields[name]) for name in ("question_id", "question") if name in self._fields)
            problem = f"{names}: expected an id or the text of the question, found nothing"
            raise RecordError(questions.index(""), problem)
        for question in set(questions).difference(self._hashes):
            self._hashes[question] = blake2b(question.encode("utf-8"), digest_size=16).hexdigest()
        return [self._hashes[question] for question in questions]

    def _indices(self, records: Sequence[Record], sizes: Sequence[int]) -> list[int | None]:
        first = self._column("sample_index", index_of, records)
        return [
            None if start is None else start + number
            for start, size in zip(first, sizes, strict=True)
            for number in range(size)
        ]

    def _truths(self, records: Sequence[Record], sizes: Sequence[int]) -> list[bool | None]:
        found: list[bool | None] = [None] * sum(sizes)
        for name, judge in self._judges.items():
            if field := self._fields.get(name):
                values = list(map(field.find, records))
                for position, (value, size) in enumerate(zip(values, sizes, strict=True)):
                    if size > 1 and value is not None and not isinstance(value, list):
                        # One number for several responses (lm-evaluation-harness with repeats) judges none of them.
                        self.counts["one for all"] += 1
                        values[position] = None
                judged = _spread(field, judge, values, sizes)
                found = [old if old is not None else new for old, new in zip(found, judged, strict=True)]
        return found

    def _cuts(self, records: Sequence[Record], sizes: Sequence[int]) -> list[bool | None]:
        found: list[bool | None] = [None] * sum(sizes)
        for name, convert in (("truncated", flag_of), ("finish_reason", cut_of)):
            if field := self._fields.get(name):
                read = _spread(field, convert, list(map(field.find, records)), sizes)
                found = [old if old is not None else new for old, new in zip(found, read, strict=True)]
        return found


def _converted(field: Field, convert: Convert, records: Iterable[Record]) -> list[Any]:
    found: list[Any] = []
    try:
        for value in map(field.find, records):
            found.append(convert(field, value))
    except FieldError as error:
        raise RecordError(len(found), error) from None
    return found


def _spread(field: Field, convert: Convert, values: Sequence[Any], sizes: Sequence[int]) -> list[Any]:
    """One value per response: that of its record, or its own where the record has a list."""
    found: list[Any] = []
    for position, (value, size) in enumerate(zip(values, sizes, strict=True)):
        try:
            if not isinstance(value, list):
                found.extend(repeat(convert(field, value), size))
            elif len(value) == size:
                found.extend(convert(field, one) for one in value)
            else:
                raise FieldError(f"{field}: expected {size} values, one per response, found {len(value)}")
        except FieldError as error:
            raise RecordError(position, error) from None
    return found


def _repeated(values: list[Any], sizes: Sequence[int]) -> list[Any]:
    """The value of each record, once per response."""
    return [value for value, size in zip(values, sizes, strict=True) for _ in range(size)]
