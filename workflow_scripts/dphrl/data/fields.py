"""Fields of rows, under our names or the names in files of others."""

import json
from collections import ChainMap
from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

from dphrl.config.blocks.data import FieldName
from dphrl.data.records import is_unicode

Row = Mapping[str, Any]
Renames = Mapping[str, str | Sequence[str]]

# Our name of a field -> its names in files of datasets, golds and samples; the first with a value counts. Golds come
# before `answer`, which is the model's in some files of samples. Of questions there are only names that mean nothing
# else: `query` is the gold of Spider, `instruction` and `input` are two parts of one question.
NAMES: Final[dict[str, tuple[str, ...]]] = {
    **{name: (name,) for name in get_args(FieldName)},
    "question_id": (
        *("question_id", "prompt_id", "source_index", "id", "idx", "index", "qid", "uid", "unique_id", "problem_id"),
        *("task_id", "doc_id", "example_id", "instance_id"),
    ),
    "question": ("question", "problem"),
    "answer": (
        *("gold", "gold_answer", "expected_answer", "reference_answer", "answer", "target", "final_answer", "gt"),
    ),
    "gold_sql": ("gold_sql", "query", "SQL"),
    "comparison": ("comparison", "cmp_method"),
    "tolerance": ("tolerance", "error"),
    "level": ("level", "difficulty", "hardness", "category", "subject"),
    "cluster": ("cluster", "db_id", "gold.db_id"),
    "text": (
        *("text", "response", "responses", "completion", "completions", "output", "outputs"),
        *("generation", "generations", "prediction", "predictions", "model_response", "model_output"),
    ),
    "correct": ("correct", "is_correct", "corrects", "passed", "is_passed", "acc", "accuracy", "match"),
    "score": ("score", "scores", "reward", "rewards"),
    "truncated": ("truncated", "finish_reason"),
    "n": ("n", "num_samples", "n_samples", "total"),
    "c": ("c", "num_correct", "n_correct", "correct_count"),
}


class MalformedError(ValueError):
    """A row does not fit the task; the text names the field and its value."""


class Fields:
    """Looks up fields by our names.

    Args:
        renames: our name of a field -> the dataset's name. A list joins the texts of its fields, for instance
            `{"question": ["Body", "Question"]}`. `NAMES` holds the names that need no entry.
    """

    def __init__(self, renames: Renames) -> None:
        self._names = {**NAMES, **{name: (theirs,) for name, theirs in renames.items() if isinstance(theirs, str)}}
        self._joined = {name: tuple(theirs) for name, theirs in renames.items() if not isinstance(theirs, str)}

    def find(self, row: Row, name: FieldName) -> tuple[str, Any]:
        """The field's name in this row and its value; a null value counts as absent and gives None.

        Of texts to join, all must be there. Raises MalformedError where one is not text.
        """
        parts = self._joined.get(name)
        if parts:
            texts = [text(part, row[part]).strip() for part in parts if row.get(part) is not None]
            return " and ".join(parts), " ".join(texts) if len(texts) == len(parts) else None
        names = self._names[name]
        return next(((theirs, row[theirs]) for theirs in names if row.get(theirs) is not None), (names[0], None))

    def text(self, row: Row, name: FieldName) -> str:
        """The value of a field; MalformedError if it is absent, blank or not text."""
        theirs, value = self.find(row, name)
        if value is None:
            raise self.missing(row, name)
        return text(theirs, value)

    def missing(self, row: Row, *names: FieldName) -> MalformedError:
        """Error for a row without these fields. It lists the fields of the row, nested ones by their top name."""
        row = row.maps[0] if isinstance(row, ChainMap) else row
        wanted = " or ".join(dict.fromkeys(self._written(name) for name in names))
        present = ", ".join(str(name) for name, value in row.items() if value is not None)
        return MalformedError(f"expected {wanted}, found only {show(present)}")

    def _written(self, name: FieldName) -> str:
        own = self._names[name] == NAMES[name]
        return " and ".join(self._joined.get(name, (name,) if own else self._names[name]))


def text(name: str, value: Any) -> str:
    """The value; MalformedError if it is not text or is blank."""
    if not isinstance(value, str) or not value.strip():
        raise MalformedError(f"{name}: expected text, found {show(value)}")
    if not is_unicode(value):
        raise MalformedError(f"{name}: holds a lone surrogate, which is no text")
    return value


def json_text(value: Any) -> str:
    """Sorted compact JSON: equal values give equal text."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def show(value: Any) -> str:
    """A value for a message, in ASCII and at most 80 characters."""
    try:
        shown = ascii(value)
    except (ValueError, RecursionError):
        # An integer of thousands of digits, or too deep a nesting.
        shown = f"<too large a value: {type(value).__name__}>"
    return shown if len(shown) <= 80 else f"{shown[:77]}..."
