"""Batches of records as tables of samples, column by column: a million rows take seconds."""

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from itertools import chain
from typing import Any, Final
from unicodedata import normalize

import numpy as np
import polars as pl

from dphrl.data.records import Record
from dphrl.data.sample_fields import (
    Field,
    FieldError,
    at_least,
    cut_of,
    gold_of,
    group_of,
    id_of,
    question_of,
    responses_of,
    verdict_of,
)
from dphrl.data.sample_formats import CLASSES, COLUMNS

# Characters of an id: a prompt of a chat takes kilobytes, once for each sample in some steps of a comparison.
_LONG: Final = 80

Convert = Callable[[Field, Any], Any]


class Reader:
    """Reads batches of records.

    Args:
        names: our field -> its names in the file.
        threshold: of scores; None: verdicts and scores are 0 or 1.
    """

    def __init__(self, names: Mapping[str, tuple[str, ...]], threshold: float | None = None) -> None:
        self._fields = {name: Field(theirs) for name, theirs in names.items()}
        self._classes = [name for name in CLASSES if name in names]
        self.schema = COLUMNS | dict.fromkeys(self._classes, pl.String())
        judges = ("correct", "score") if threshold is None else ("score",)
        self._verdict = Field([theirs for name in judges for theirs in names.get(name, ())])
        self._judge = verdict_of if threshold is None else at_least(threshold)

    def read(self, records: Sequence[Record]) -> pl.DataFrame:
        """The samples of a batch, columns `schema`.

        Raises:
            FieldError: a value does not fit.
            UnicodeEncodeError: a lone surrogate, half of a character.
        """
        verdicts = self._verdicts(records)
        texts = self._texts(records, verdicts)
        sizes = list(map(len, texts))
        # Two programs may write one text in two forms of Unicode, or with white space around it.
        questions = [normalize("NFC", text.strip()) for text in self._column("question", question_of, records)]
        of_records = pl.DataFrame(
            {
                "question_id": _shared(self._ids(records, questions)),
                "question": _shared(questions),
                "cluster": self._column("cluster", group_of, records),
                **{name: self._column(name, gold_of, records) for name in ("gold", *self._classes)},
            },
            schema_overrides=dict.fromkeys(("cluster", "gold", *self._classes), pl.String()),
        )
        cut = self._fields.get("truncated", Field(()))
        repeated = of_records[np.repeat(np.arange(len(records)), sizes)]
        of_samples = {
            "text": list(chain.from_iterable(texts)),
            "correct": _each(self._verdict, self._judge, verdicts, sizes),
            "truncated": _each(cut, cut_of, list(map(cut.find, records)), sizes),
        }
        samples = pl.DataFrame(of_samples, schema={name: self.schema[name] for name in of_samples})
        return pl.concat([repeated, samples], how="horizontal").select(list(self.schema))

    def _column(self, name: str, convert: Convert, records: Sequence[Record]) -> list[Any]:
        """A value for each record."""
        field = self._fields.get(name, Field(()))
        return [convert(field, value) for value in map(field.find, records)]

    def _ids(self, records: Sequence[Record], questions: Sequence[str]) -> list[str]:
        """The file's ids; a question without one is known by its text."""
        field = self._fields.get("question_id", Field(()))
        by_text = {question: _known_as(question) for question in set(questions)}
        keys = [
            by_text[question] if key is None else normalize("NFC", id_of(field, key).strip())
            for key, question in zip(map(field.find, records), questions, strict=True)
        ]
        if "" in keys:
            names = " or ".join(str(self._fields[name]) for name in ("question_id", "question") if name in self._fields)
            raise FieldError(f"{names}: expected an id or the text of the question, found nothing")
        return keys

    def _verdicts(self, records: Sequence[Record]) -> list[Any]:
        """What judges the responses of each record: one value, a list, or from counts a list in no order."""
        if "text" in self._fields or not {"n", "c"} <= self._fields.keys():
            return list(map(self._verdict.find, records))
        verdicts = []
        for record in records:
            number, right = (self._fields[name].find(record) for name in "nc")
            if type(number) is not int or number < 1:
                raise self._fields["n"].expected("a number of samples, 1 or more", number)
            if type(right) is not int or not 0 <= right <= number:
                raise self._fields["c"].expected(f"a whole number from 0 to {number}", right)
            verdicts.append([True] * right + [False] * (number - right))
        return verdicts

    def _texts(self, records: Sequence[Record], verdicts: Sequence[Any]) -> list[list[str]]:
        """The responses of each record; a null is an empty one, but a record must have the field."""
        field = self._fields.get("text")
        if field is None:
            return [[""] * (len(verdict) if isinstance(verdict, list) else 1) for verdict in verdicts]
        values = list(map(field.find, records))
        for value, record in zip(values, records, strict=True):
            if value is None and not field.is_in(record):
                raise field.expected("a response", None)
        return [responses_of(field, value) for value in values]


def _known_as(question: str) -> str:
    """The id of a question without one: its text, or the start of a long text with a digest of it all."""
    if len(question) <= _LONG:
        return question
    return f"{question[:_LONG]}... {blake2b(question.encode('utf-8'), digest_size=8).hexdigest()}"


def _each(field: Field, convert: Convert, values: Sequence[Any], sizes: Sequence[int]) -> list[Any]:
    """A value for each response, from one or a list of each record.

    One value for several responses (a metric of lm-evaluation-harness with repeats) says nothing of each of them.
    """
    of_responses: list[Any] = []
    for value, size in zip(values, sizes, strict=True):
        listed = value if isinstance(value, list) else [value if size == 1 else None] * size
        if len(listed) != size:
            raise FieldError(f"{field}: expected {size} values, one per response, found {len(listed)}")
        of_responses += [convert(field, element) for element in listed]
    return of_responses


def _shared(values: Sequence[str]) -> pl.Series:
    """A column in which equal texts share their memory: a question is there once, not once per sample."""
    places = {value: place for place, value in enumerate(dict.fromkeys(values))}
    return pl.Series(list(places), dtype=pl.String()).gather([places[value] for value in values])
