r"""LaTeX answers as text: the last \boxed{} and the parts between commas."""

import re
from typing import Final

_BOX: Final = re.compile(r"\\boxed\s*\{")
_BRACES: Final = re.compile(_BOX.pattern + r"|\\(?!\\boxed).|\{+|\}+", re.DOTALL)


def last_boxed(text: str) -> str | None:
    r"""The content of the last complete \boxed{...} (nested braces allowed), or None. Linear in the length."""
    first = _BOX.search(text)
    if first is None:
        return None
    # Of each open box, where its content starts and how many other braces are open in it.
    open_boxes: list[list[int]] = []
    best = (-1, -1)
    for match in _BRACES.finditer(text, first.start()):
        token = match.group()
        if token[0] == "\\" and len(token) > 2:
            open_boxes.append([match.end(), 0])
        elif token[0] == "{" and open_boxes:
            open_boxes[-1][1] += len(token)
        elif token[0] == "}":
            closing = len(token)
            while open_boxes and closing > open_boxes[-1][1]:
                start, others = open_boxes.pop()
                closing -= others + 1
                best = max(best, (start, match.end() - closing - 1))
            if open_boxes:
                open_boxes[-1][1] -= closing
    return text[best[0] : best[1]].strip() if best[0] >= 0 else None


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
