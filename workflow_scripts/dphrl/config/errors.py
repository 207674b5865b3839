"""Problems of a configuration, in words that a user can act on."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path


@dataclass(frozen=True)
class Problem:
    """A problem of a configuration.

    Attributes:
        path: of the key (train.lr).
        value: of the key, as text.
        allowed: the values that the key accepts.
        nearest: the most similar name that exists.
    """

    path: str
    value: str
    allowed: str
    nearest: str | None = None

    def __str__(self) -> str:
        lines = {"value": self.value, "allowed": self.allowed, "nearest": self.nearest}
        return "\n".join([self.path, *(f"  {name + ':':<8} {text}" for name, text in lines.items() if text)])


class ConfigError(Exception):
    """A configuration that cannot be used; the text has its files and every problem."""

    def __init__(self, problems: Sequence[Problem], files: Iterable[Path] = ()) -> None:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        name = f"The configuration {', '.join(map(str, files))}".rstrip()
        super().__init__("\n".join([f"{name} has {count}:", *map(str, problems)]))
        self.problems = tuple(problems)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The name in `known` that is most similar to `name`; None if no name is similar."""
    return next(iter(get_close_matches(name, sorted(known), n=1)), None)


def show(value: object, limit: int = 80) -> str:
    """The value as in YAML, cut after `limit` characters."""
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."
