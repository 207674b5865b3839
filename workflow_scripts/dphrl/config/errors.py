"""Errors in a configuration, in words that a user can act on."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches


@dataclass(frozen=True)
class Problem:
    """A problem of a configuration.

    Attributes:
        path: of the key (train.lr).
        value: of the key, as text.
        allowed: the values that the key accepts.
        nearest: the most similar name that exists.
        is_default: the configuration lacks the key, and `value` is its default.
        file: the file with the key, where a configuration consists of several files.
    """

    path: str
    value: str
    allowed: str
    nearest: str | None = None
    is_default: bool = False
    file: str = ""

    def __str__(self) -> str:
        source = "default:" if self.is_default else "given:  "
        lines = [self.path or "(the whole file)", f"  {source} {self.value}", f"  allowed: {self.allowed}"]
        if self.file:
            lines.insert(1, f"  file:    {self.file}")
        if self.nearest:
            lines.append(f"  nearest: {self.nearest}")
        return "\n".join(lines)


class ConfigError(Exception):
    """A configuration that cannot be used; the text lists every problem, after the file with the configuration."""

    def __init__(self, problems: Sequence[Problem], file: object = "") -> None:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        name = f"The configuration {file}".rstrip()
        super().__init__("\n".join([f"{name} has {count}:", *map(str, problems)]))
        self.problems = tuple(problems)


class OverlayError(ConfigError):
    """A configuration that only changes another one was started alone; it names no training set."""

    def __init__(self, files: Sequence[str] = ()) -> None:
        names = " ".join(files) or "FILE"
        self.problems = ()
        Exception.__init__(
            self,
            f"{names} only changes another configuration (it has no training set): name that one first, as in "
            f"BASE.yaml {names}",
        )


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The name in `known` that is most similar to `name`; None if no name is similar."""
    return next(iter(get_close_matches(name, sorted(known), n=1)), None)


def show(value: object, limit: int = 80) -> str:
    """The value as in YAML, cut after `limit` characters."""
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."
