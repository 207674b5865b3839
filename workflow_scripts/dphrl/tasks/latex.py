r"""LaTeX answers as text: the last \boxed{} and the parts between commas."""

import re
from typing import Final

_BRACE_OR_BOX: Final = re.compile(r"\\boxed\s*\{|\\(?!\\boxed).|[{}]", re.DOTALL)


def last_boxed(text: str) -> str | None:
    r"""The content of the last complete \boxed{...} (nested braces allowed), or None. Linear in the length."""
    open_braces: list[int | None] = []
    best: tuple[int, int] | None = None
    for match in _BRACE_OR_BOX.finditer(text):
        token = match.group()
        if token == "}":
            start = open_braces.pop() if open_braces else None
            if start is not None and (best is None or start > best[0]):
                best = (start, match.start())
        elif token.endswith("{") and len(token) != 2:
            open_braces.append(None if token == "{" else match.end())
    return None if best is None else text[best[0] : best[1]].strip()


def split_at_commas(text: str) -> list[str]:
    """The parts of a text between the commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for index, character in enumerate(text):
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    return [*parts, text[start:]]
