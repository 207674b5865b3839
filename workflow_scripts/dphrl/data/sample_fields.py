"""Fields of a record: where they are, and their values as ours."""

import json
import math
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from dphrl.config.errors import show
from dphrl.data.records import Record, leaves, names_of

_RIGHT: Final = frozenset({"c", "correct", "right", "pass", "passed", "true", "1"})
_WRONG: Final = frozenset({"i", "incorrect", "wrong", "n", "fail", "failed", "timeout", "false", "0"})
_CUT: Final = frozenset({"length", "max_tokens", "model_length"})
_PLACE: Final = re.compile(r"-?\d+", re.ASCII)
_ABSENT: Final = object()


class FieldError(ValueError):
    """Error for a value of the wrong kind. It names the field, the expected kind and the value."""


class Field:
    """A field with several possible names. `find` returns the value under the first name present, or None."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)

    def __str__(self) -> str:
        return " or ".join(self._names)

    def is_in(self, record: Record) -> bool:
        """Whether the field is in a record. A null counts, and so does a field inside a null or empty object."""
        return any(name in record or _nested(record, name.split(".")) is not _ABSENT for name in self._names)

    def find(self, record: Record) -> Any:
        for name in self._names:
            value = record.get(name)
            if value is None and "." in name:
                value = _nested(record, name.split("."))
            if value is not None and value is not _ABSENT:
                return value
        return None

    def expected(self, what: str, found: Any, advice: str = "") -> FieldError:
        name = self._names[0]
        inner = names_of({leaf: None for leaf in leaves({name: found}) if leaf != name})
        held = f" (it holds {inner}: --map names one)" if inner else ""
        return FieldError(f"{self}: expected {what}, found {'nothing' if found is None else show(found)}{held}{advice}")


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
    """An id as text; pandas writes whole numbers as floats where some are missing."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, bool) or not isinstance(value, int):
        raise field.expected("a text or a whole number", value)
    return str(value)


def verdict_of(field: Field, value: Any) -> bool | None:
    """Whether a response is correct; a number that is not one (a failed judge) gives None."""
    value = _reward(value)
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
    advice = (
        ": with --threshold T a response is correct if its score is at least T; or name a field that says it, "
        "--map correct=FIELD"
    )
    raise field.expected("0 or 1, true or false", value, advice)


def _reward(value: Any) -> Any:
    """The sum of rewards {name: {score, weight}}, as verifiers has it, None without any; other values as they are."""
    if not isinstance(value, dict):
        return value
    rewards = [reward for reward in value.values() if reward is not None]
    if not all(isinstance(reward, dict) and "score" in reward for reward in rewards):
        return value
    return sum(reward["score"] * reward.get("weight", 1.0) for reward in rewards) if rewards else None


def at_least(threshold: float) -> Callable[[Field, Any], bool | None]:
    """Whether a score reaches the threshold, as `verdict_of`."""

    def judged(field: Field, value: Any) -> bool | None:
        value = _reward(value)
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


def group_of(field: Field, value: Any) -> str | None:
    """A group of questions; None where it is not a text or a number."""
    return str(value) if isinstance(value, str | int | float) and value != "" else None


def cut_of(field: Field, value: Any) -> bool | None:
    """Whether a response stopped at the length limit, by a flag or by its reason to stop."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value in _CUT
    if value in (0, 1):
        return bool(value)
    raise field.expected("true or false, or a text such as stop or length", value)


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


def _nested(value: Any, parts: Sequence[str]) -> Any:
    """The value under the parts of a name; `*` leads into all objects of a list. `_ABSENT` where a part is missing.

    Everything is null inside of a null or an empty value.
    """
    while parts:
        if value is None or value == {} or value == []:
            return None
        if parts[0] == "*" and isinstance(value, list):
            values = [_nested(inner, parts[1:]) for inner in value]
            absent = all(inner is _ABSENT for inner in values)
            return _ABSENT if absent else [None if inner is _ABSENT else inner for inner in values]
        place = int(parts[0]) if isinstance(value, list) and _PLACE.fullmatch(parts[0]) else None
        if place is not None and -len(value) <= place < len(value):
            value, parts = value[place], parts[1:]
            continue
        # A key may have dots, such as a temperature.
        joined = ((".".join(parts[:size]), size) for size in range(1, len(parts) + 1))
        key, size = next(((key, size) for key, size in joined if isinstance(value, dict) and key in value), ("", 0))
        if not size:
            return _ABSENT
        value, parts = value[key], parts[size:]
    return value
