"""Errors in a configuration, in words that a user can act on."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches


@dataclass(frozen=True)
class Problem:
    """One problem of a configuration.

    Attributes:
        path: of the key (train.lr).
        given: its value.
        allowed: the values that it can have.
        nearest: the most similar known name.
        is_default: the configuration lacks the key, and `given` is its default.
        file: the file that has the key, where a configuration consists of several.
    """

    path: str
    given: str
    allowed: str
    nearest: str | None = None
    is_default: bool = False
    file: str = ""

    def __str__(self) -> str:
        source = "default:" if self.is_default else "given:  "
        lines = [self.path or "(the whole file)", f"  {source} {self.given}", f"  allowed: {self.allowed}"]
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
    """A configuration without data: it changes another one, and was started without it."""

    def __init__(self, files: Sequence[str] = ()) -> None:
        names = " ".join(files) or "FILE"
        self.problems = ()
        Exception.__init__(
            self,
            f"{names} only changes another configuration (it has no training set): name that one first, as in "
            f"BASE.yaml {names}",
        )


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most similar to `name`; None if none is similar."""
    return next(iter(get_close_matches(name, sorted(known), n=1)), None)


def show(value: object, limit: int = 80) -> str:
    """`value` as in YAML, cut after `limit` characters."""
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."
