"""Likely fields of a file in no known format, for the `--map` options of a message."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from dphrl.config.errors import show
from dphrl.data.records import Record
from dphrl.data.sample_fields import could_be_text, is_verdict

# How words in the names of likely fields begin, the most telling first.
_QUESTION: Final = (
    *("question", "problem", "prompt", "query", "input", "item", "task", "example", "instance", "name", "id"),
)
_TEXT: Final = ("response", "output", "completion", "generation", "text", "reply", "solution", "pred", "answer")
_RIGHT: Final = (
    *("right", "correct", "pass", "solved", "ok", "success", "match", "verdict", "verif", "grade", "judg", "label"),
    *("status", "score", "reward", "acc"),
)
_TOTAL: Final = ("sample", "total", "tries", "attempt", "num", "n")
# A word of a name in snake_case or camelCase.
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")

# How many values a field has in one row. None: one. A number: a list of that length. A name: one in each object of
# that list.
Group = int | str | None


def nearest_fields(fields: Record, names: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Likely fields for the question, the response and the verdict, or for counts; FIELD where none is likely.

    A list of eight verdicts judges a list of eight texts: the response is from the group of the verdict.

    Args:
        fields: the leaves of the first row.
        names: our fields that were found by their usual names.
    """
    texts = _by_group(fields, could_be_text)
    marks = _by_group(fields, is_verdict)
    single = texts.get(None, [])
    asked = "question_id" if "question" not in names and "question_id" in names else "question"
    question = names.get(asked, (_like(single, _QUESTION),))[0]
    group, verdict = _verdict(marks, texts)
    others = [name for name in texts.get(group, ()) if name != question]
    candidates = [name for name in others if name not in names.get("gold", ())] or others
    usual = names.get("text", ("",))[0]
    longest = max(candidates, key=lambda name: len(str(fields[name])), default=None)
    text = usual if usual in candidates else _like(candidates, _TEXT) or longest
    numbers = [name for name, value in fields.items() if isinstance(value, int) and not isinstance(value, bool)]
    right = _like(numbers, _RIGHT)
    total = _like([name for name in numbers if name != right], _TOTAL)
    likely = {"text": text, asked: question, "correct": verdict}
    if text is None and right and total:
        likely = {"question_id": question, "n": total, "c": right}
    elif text is None and verdict:
        del likely["text"]
    return {ours: "FIELD" if name is None else show(name, 60)[1:-1] for ours, name in likely.items()}


def _by_group(fields: Record, fits: Callable[[Any], bool]) -> dict[Group, list[str]]:
    """The fields whose values all fit, by their group. Fields of a chat's messages do not count."""
    groups: dict[Group, list[str]] = {}
    for name, value in fields.items():
        start, star, _ = name.partition(".*.")
        if star and f"{start}.*.role" not in fields and fits(value):
            groups.setdefault(start, []).append(name)
        elif not star and isinstance(value, list) and value and all(map(fits, value)):
            groups.setdefault(len(value), []).append(name)
        elif not star and fits(value):
            groups.setdefault(None, []).append(name)
    return groups


def _verdict(marks: Mapping[Group, Sequence[str]], texts: Mapping[Group, Sequence[str]]) -> tuple[Group, str | None]:
    """The likely verdict and its group: several in a row with as many texts, then a single one, then any others."""
    several = [group for group in marks if group is not None]
    matched = [group for group in several if group in texts]
    for group in (*matched, None, *several):
        if verdict := _like(marks.get(group, ()), _RIGHT):
            return group, verdict
    return None, None


def _like(names: Sequence[str], starts: Sequence[str]) -> str | None:
    """The first name with a word that starts so, in order of the starts; "n" is a whole word."""
    words = {name: [word.lower() for word in _WORD.findall(name)] for name in names}
    for start in starts:
        for name in names:
            if any(word == start or (len(start) > 1 and word.startswith(start)) for word in words[name]):
                return name
    return None
