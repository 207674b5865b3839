"""Fields of a record: where they are, and their values as ours."""

import json
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import accumulate
from operator import methodcaller
from typing import Any, Final

from dphrl.config.errors import nearest, show
from dphrl.data.records import Record

_RIGHT: Final = frozenset({"c", "correct", "right", "pass", "passed", "true", "1"})
_WRONG: Final = frozenset({"i", "incorrect", "wrong", "n", "fail", "failed", "timeout", "false", "0"})
_CUT: Final = frozenset({"length", "max_tokens", "model_length"})


class FieldError(ValueError):
    """Error for a value of the wrong kind. It names the field, the expected kind and the value."""


class Field:
    """A field with several possible names. `find` returns the value under the first name present, or None."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        # The first keys under which a name with dots can start: a key may have dots too.
        self._starts = {name: frozenset(accumulate(name.split("."), "{}.{}".format)) for name in names if "." in name}
        # Most fields have one name: no loop for a million rows.
        is_plain = len(names) == 1 and "." not in names[0]
        self.find: Callable[[Record], Any] = methodcaller("get", names[0]) if is_plain else self._first

    def __str__(self) -> str:
        return " or ".join(self._names)

    def is_in(self, record: Record) -> bool:
        """Whether the field is in a record. A null counts, and so does a field inside a null or empty object."""
        return any(name in record or _has(record, name) for name in self._names)

    def _first(self, record: Record) -> Any:
        for name in self._names:
            value = record.get(name)
            if value is None and name in self._starts and not self._starts[name].isdisjoint(record):
                value = _nested(record, name)
            if value is not None:
                return value
        return None

    def expected(self, what: str, found: Any) -> FieldError:
        return FieldError(f"{self}: expected {what}, found {'nothing' if found is None else show(found)}")


def responses_of(field: Field, value: Any) -> list[str]:
    """The responses of a record: one text, the messages of a chat, or a list of these; a null is an empty response."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and not (value and isinstance(value[0], dict)):
        return [_text(field, response, "assistant") for response in value]
    return ["" if value is None else _text(field, value, "assistant")]


def question_of(field: Field, value: Any) -> str:
    """The question: a text, or the messages of the user in a chat; "" without a question."""
    if isinstance(value, str):
        return value
    return "" if value is None else _text(field, value, "user")


def id_of(field: Field, value: Any) -> str:
    """An id as text."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise field.expected("a text or a whole number", value)
    return str(value)


def truth_of(field: Field, value: Any) -> bool | None:
    """Whether a response is correct; a number that is not one (a failed judge) gives None."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        if value == 0 or value == 1:
            return value == 1
        if math.isnan(value):
            return None
    elif isinstance(value, str):
        word = value.strip().lower()
        if word in _RIGHT or word in _WRONG:
            return word in _RIGHT
    if isinstance(value, dict) and value:
        numbers = (name for name, number in value.items() if isinstance(number, bool | int | float))
        inner = next(numbers, next(iter(value)))
        raise FieldError(f"{field}: expected 0 or 1, found {show(value)}: --map score={field}.{inner}")
    raise FieldError(
        f"{field}: expected 0 or 1, true or false, found {show(value)}: with --threshold T a response is correct if "
        "its score is at least T; or name a field that says it, --map correct=FIELD"
    )


def likely_verdict(fields: Record) -> str | None:
    """The field with the name most like `correct` or `score` whose value could be one."""
    names = {name.rpartition(".")[2]: name for name, value in fields.items() if _could_judge(value)}
    near = next(filter(None, (nearest(ours, names) for ours in ("correct", "score"))), None)
    return names[near] if near else None


def _could_judge(value: Any) -> bool:
    verdict = value[0] if isinstance(value, list) and value else value
    if isinstance(verdict, str):
        return verdict.strip().lower() in _RIGHT | _WRONG
    return isinstance(verdict, int | float)


def is_verdict(value: Any) -> bool:
    """Whether a value says right or wrong by itself. A letter or a digit as text does not: it may be an answer."""
    if isinstance(value, str):
        return len(value) > 1 and _could_judge(value)
    return isinstance(value, bool | int | float) and value in (0, 1)


def could_be_text(value: Any) -> bool:
    """Whether a value may be a question or responses: a text, the messages of a chat, or a list of these."""
    if isinstance(value, list):
        return all("content" in inner if isinstance(inner, dict) else could_be_text(inner) for inner in value)
    return isinstance(value, str)


def at_least(threshold: float) -> Callable[[Field, Any], bool | None]:
    """Whether a score reaches the threshold, as `truth_of`."""

    def judged(field: Field, value: Any) -> bool | None:
        if value is None:
            return None
        if isinstance(value, str):
            with suppress(ValueError):
                value = float(value)
        if not isinstance(value, int | float):
            raise field.expected("a number, as a threshold was given", value)
        return None if math.isnan(value) else value >= threshold

    return judged


def gold_of(field: Field, value: Any) -> str | None:
    """A gold answer as text: a text as it is, another value as JSON; None where it is empty."""
    if value is None or value == "":
        return None
    if isinstance(value, list):
        # As texts: the text `[1, 2]` is an interval.
        value = [str(answer) if isinstance(answer, int | float) else answer for answer in value]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def level_of(field: Field, value: Any) -> str | None:
    """A level or category; None where it is not a text or a number."""
    return str(value) if isinstance(value, str | int | float) and value != "" else None


def index_of(field: Field, value: Any) -> int | None:
    """The place of a response among the responses to its prompt; -1 is the greedy response, None a missing value."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and -1 <= value < 2**31):
        return value
    raise field.expected("-1 (a greedy response), 0, 1, ...", value)


def flag_of(field: Field, value: Any) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    if value in (0, 1):
        return bool(value)
    raise field.expected("true or false", value)


def cut_of(field: Field, value: Any) -> bool | None:
    """Whether a reason to stop is the length limit."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise field.expected("a text such as stop or length", value)
    return value in _CUT


def _text(field: Field, value: Any, role: str) -> str:
    """A text, or the messages of a chat in that role (all, if none is)."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(message, dict) and "content" in message for message in value):
        spoken = [message for message in value if message.get("role") == role] or value
        return "\n\n".join(filter(None, (_content(field, message["content"]) for message in spoken)))
    raise field.expected("a text, or messages with role and content", value)


def _content(field: Field, content: Any) -> str:
    """The text of a message; its content may be in parts, or null (a call of a tool)."""
    if content is None:
        return ""
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(text for text in texts if isinstance(text, str))
    if not isinstance(content, str):
        raise field.expected("messages whose content is text", content)
    return content


def _has(record: Record, name: str) -> bool:
    """Whether each step of a name is there, up to a null or an empty value."""
    value: Any = record
    parts = name.split(".")
    while parts:
        if value in (None, {}, []) and value is not record:
            return True
        if parts[0] == "*" and isinstance(value, list):
            value, parts = value[0], parts[1:]
            continue
        place = _place(value, parts)
        if place is None:
            return False
        value, parts = value[place[0]], parts[place[1] :]
    return True


def _nested(record: Any, name: str) -> Any:
    """The value under a name with dots; under `*`, the list of the values in all objects; None without."""
    value: Any = record
    parts = name.split(".")
    while parts:
        if parts[0] == "*" and isinstance(value, list):
            rest = ".".join(parts[1:])
            return [_nested(inner, rest) if rest else inner for inner in value]
        place = _place(value, parts)
        if place is None:
            return None
        value, parts = value[place[0]], parts[place[1] :]
    return value


def _place(value: Any, parts: Sequence[str]) -> tuple[Any, int] | None:
    """The key or index of the next step, and how many parts it takes: a key may have dots, such as a temperature."""
    if isinstance(value, dict):
        # Nearly every key is one part: no joined keys for a million rows.
        if parts[0] in value:
            return parts[0], 1
        keys = ((".".join(parts[:size]), size) for size in range(2, len(parts) + 1))
        return next(((key, size) for key, size in keys if key in value), None)
    if isinstance(value, list) and parts[0].isdecimal() and int(parts[0]) < len(value):
        return int(parts[0]), 1
    return None
