r"""Capital letters beside their small ones (`M` and `m`), which math-verify reads as one symbol."""

import re
from collections.abc import Callable, Sequence
from typing import Final

# Words, names of sets and the exponent of `1E5` are no letters of an expression.
_TOKEN: Final = re.compile(
    r"\\(?:text|operatorname)\s*\{[^{}]{2,}\}|\\mathbb\s*\{?[A-Z]\}?|[A-Z]?[a-z]{3,}|"
    r"(?<=\d)E(?=[-+\d])|(?P<greek>\\(?:[Gg]amma|[Dd]elta|[Tt]heta|[Ll]ambda|[Xx]i|[Pp]i|[Ss]igma|[Pp]hi|[Pp]si|[Oo]mega))"
    r"(?![A-Za-z])|\\[A-Za-z]+|(?P<latin>[A-Za-z])"
)
# Neither constants nor functions of the library.
_UNUSED: Final = "qhjkuvwyzpoabcglmnrstx"


def capitals_renamed(texts: Sequence[str]) -> Callable[[str], str]:
    """Renames each capital that meets its small letter in the texts to a letter that none of them has; `i` is `I`."""
    letters = {token[0] for text in texts for token in _TOKEN.finditer(text) if token.lastgroup}
    both = sorted(letter for letter in letters if letter.lower() in letters - {letter} and letter != "I")
    unused = [letter for letter in _UNUSED if letters.isdisjoint((letter, letter.upper()))]
    names = {capital: f" {name} " if len(capital) > 1 else name for capital, name in zip(both, unused, strict=False)}
    return lambda text: _TOKEN.sub(lambda token: names.get(token[0], token[0]), text) if names else text
