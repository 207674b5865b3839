r"""The answer in a text: the part behind a thought, the last \boxed{}, and the parts between commas."""

import re
from collections.abc import Mapping
from typing import Final

_BOX: Final = re.compile(r"\\boxed\s*\{")
_BRACES: Final = re.compile(_BOX.pattern + r"|\\(?!\\boxed).|\{+|\}+", re.DOTALL)


def answer_part(response: str, thoughts: Mapping[str, str], opened: bool) -> str | None:
    """The part of a response that answers: what follows the last end of a thought. None while a thought is open.

    A thought is open at the start if the prompt opens it, and where a text or the part behind an end begins with an
    opening. Openings elsewhere are text: a response may write about them.

    Args:
        thoughts: the end of a thought by its opening.
        opened: the prompt ends inside of a thought.
    """
    ends = [at + len(end) for end in thoughts.values() if (at := response.rfind(end)) >= 0]
    answer = response[max(ends, default=0) :]
    if answer.lstrip().startswith(tuple(thoughts)) or (opened and not ends):
        return None
    return answer


def last_boxed(text: str) -> str | None:
    r"""The content of the last complete \boxed{...} that is in no other, or None. Linear in the length."""
    first = _BOX.search(text)
    if first is None:
        return None
    # Of each open box, where it and its content start, and how many other braces are open in it.
    open_boxes: list[list[int]] = []
    # Of the last complete one, where it and its content start, and where that ends.
    best = (-1, -1, -1)
    for match in _BRACES.finditer(text, first.start()):
        token = match.group()
        if token[0] == "\\" and len(token) > 2:
            open_boxes.append([match.start(), match.end(), 0])
        elif token[0] == "{" and open_boxes:
            open_boxes[-1][2] += len(token)
        elif token[0] == "}":
            closing = len(token)
            while open_boxes and closing > open_boxes[-1][2]:
                opened, start, others = open_boxes.pop()
                closing -= others + 1
                end = match.end() - closing - 1
                # A box with nothing but a box in it is that box.
                if not (start == best[0] and best[2] + 1 == end):
                    best = (opened, start, end)
                else:
                    best = (opened, best[1], best[2])
            if open_boxes:
                open_boxes[-1][2] -= closing
    return text[best[1] : best[2]].strip() if best[0] >= 0 else None


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
