r"""The sides of an answer that is a relation, and which of them is its value.

`x=5` and `f(2)=5` name a value, `\log_6(216)=3` computes it, `x+y=7` repeats an expression of a question: the last
side counts. `2x=10` is not solved yet: its solutions count. A gold `\frac{40}{3}\approx13.33` stands for both sides.
"""

import re
from dataclasses import dataclass
from typing import Final

_RELATION: Final = re.compile(
    r"(?P<open>\\?[(\[{])|(?P<close>\\?[)\]}])|(?P<equal>(?<![<>!=:]):?==?(?!=)|\\(?:equiv|approx|simeq|cong)(?![A-Za-z]))|"
    r"(?P<inequality>[<>]|\\(?:leq?|geq?|neq?|lt|gt)(?![A-Za-z]))|"
    r"(?P<other>\\(?:in|(?:long)?(?:left|right|leftright)arrow|to|Rightarrow|implies|iff|sim|"
    r"propto|mapsto|Leftrightarrow|subset|mid)(?![A-Za-z]))"
)
_LETTER: Final = (
    r"(?:[A-Za-z]|\\(?:alpha|beta|gamma|delta|epsilon|varepsilon|zeta|eta|theta|lambda|mu|nu|xi|rho|sigma|tau|phi|"
    r"varphi|chi|psi|omega|Gamma|Delta|Theta|Lambda|Sigma|Phi|Psi|Omega|ell)(?![A-Za-z]))"
)
_ACCENT: Final = r"\\(?:vec|bar|hat|overline|overrightarrow|tilde|widehat|mathbb|text|operatorname)"
_SCRIPTS: Final = (
    r"(?:\s*(?:_|\^(?=\s*\{?\s*(?:-\s*\d|\\prime|\*|'|\()))\s*(?:\{[^{}]*+\}|[A-Za-z0-9*]|\\[A-Za-z]+))*+\s*'*"
)
_SIMPLE: Final = rf"(?:{_LETTER}|{_ACCENT}\s*(?:\{{[^{{}}]*+\}}|[A-Za-z])){_SCRIPTS}"
_ANY: Final = r"\((?:[^()]++|\((?:[^()]++|\([^()]*+\))*+\))*+\)"
_NAME: Final = re.compile(
    rf"\s*(?:{_SIMPLE}|{_SIMPLE}\s*{_ANY}|d?\s*{_SIMPLE}|[A-Z]{{2,4}}(?:\s*{_ANY})?|\\(?:det|gcd|max|min|dim|deg|arg|Re|Im|Pr|"
    rf"lim|sup|inf|ker|i*int|sum|prod)(?![A-Za-z]).*|(?:m\s*)?\\(?:angle|triangle)\s*\\?[A-Za-z]*|\|.*\||\\\|.*\\\||\(\s*{_SIMPLE}(?:,\s*{_SIMPLE})*\)|"
    rf"\\frac\s*\{{\s*d[^{{}}]*\}}\s*\{{\s*d[^{{}}]*\}}|\\text\s*\{{.*\}}|{_SIMPLE}:\s*{_SIMPLE}|[A-Z]{{2}}:\s*[A-Z]{{2}}|\\(?:lfloor|lceil).*|"
    rf"\\mathbb\{{[A-Z]\}}\s*(?:\[.*\]|{_ANY})|E\s*\[.*\])\s*",
    re.DOTALL,
)
_SYMBOL: Final = re.compile(rf"\\text\s*\{{[^{{}}]*\}}|{_LETTER}|\\[A-Za-z]+")
_CONSTANTS: Final = frozenset({"e", "i"})
_WORD: Final = re.compile(r"\\(?:text|operatorname)")
_NAME_WORDS: Final = re.compile(r"\\(?:text|operatorname)\s*\{([^{}]*)\}|\\(max|min)(?![A-Za-z])")
_SAY_NOTHING: Final = frozenset({"the", "answer", "final", "value", "total", "result", "solution", "of", "is", "my"})
_LETTERS_IN_TEXT: Final = re.compile(r"\\text\{([A-Z]{1,3})\}")
_NAME_PARTS: Final = re.compile(rf"m?\s*\\angle|({_LETTER}|\d|-)|\\[A-Za-z]+")
_ORDERED: Final = re.compile(r"[(\d:/_]|\\(?:frac|vec|overrightarrow)")
_ONE_LETTER: Final = re.compile(rf"{_LETTER}(?:\s*_\s*(?:\{{[^{{}}]*\}}|\w))?")
_WORD_FUNCTION: Final = re.compile(r"(?<![A-Za-z\\])(?:abs|sqrt|sin|cos|tan|log|ln|exp)(?=\s*\()")
_SPACE: Final = re.compile(r"\s+")
_DECIMAL: Final = re.compile(r"[-+]?\d*\.?(\d*)(?:\\?%)?")


@dataclass(frozen=True)
class Sides:
    """A text at its relations outside of brackets.

    `kind` is `value` (no relation), `named` (the left side is a name), `computed` (all sides are numbers), `asked`
    (an expression in several symbols), `unsolved` (an equation in one symbol), `inequality` or `other` (an arrow).
    `name` is the left side of a named one; `values` the other sides (all sides of one that is not named), and
    `approximate` says for each whether it follows a sign of approximation.
    """

    kind: str
    name: str
    values: tuple[str, ...]
    approximate: tuple[bool, ...]

    @property
    def is_equation(self) -> bool:
        return self.kind in ("named", "asked", "unsolved") and not any(self.approximate)


def sides(text: str) -> Sides:
    """Split a text at its relations."""
    pieces, signs, others, end, depth = list[str](), list[str](), set[str | None](), 0, 0
    for match in _RELATION.finditer(text):
        if match["open"]:
            depth += 1
        elif match["close"]:
            depth -= 1
        elif depth == 0 and match["equal"]:
            pieces.append(text[end : match.start()].strip())
            signs.append(match["equal"])
            end = match.end()
        elif depth == 0:
            others.add(match.lastgroup)
    pieces.append(text[end:].strip())
    if not signs and not others:
        return Sides("value", "", (text,), (False,))
    approximate = (False, *(sign in ("\\approx", "\\simeq", "\\cong") for sign in signs))
    if others:
        return Sides("inequality" if others == {"inequality"} else "other", "", (text,), (False,))
    if not pieces[0]:
        # A sign of approximation before a number.
        pieces, approximate = pieces[1:], approximate[1:]
        if len(pieces) == 1:
            return Sides("value", "", tuple(pieces), approximate)
    return _classified(tuple(pieces), approximate)


def _classified(pieces: tuple[str, ...], approximate: tuple[bool, ...]) -> Sides:
    if not all(pieces):
        return Sides("other", "", ("=".join(pieces),), (False,))
    if _NAME.fullmatch(pieces[0]):
        return Sides("named", pieces[0], pieces[1:], approximate[1:])
    letters = symbols(pieces[0])
    if not letters and symbols(pieces[-1]) and len(pieces) == 2 and not approximate[1]:
        return _classified(pieces[::-1], approximate)
    if not letters:
        return Sides("computed", "", pieces, approximate)
    return Sides("unsolved" if len(letters | symbols(pieces[-1])) == 1 else "asked", "", pieces, approximate)


def symbols(text: str) -> frozenset[str]:
    """The letters of a text that are no constants and no commands."""
    letters = (name for name in _SYMBOL.findall(_WORD_FUNCTION.sub("", text)) if _ONE_LETTER.fullmatch(name))
    return frozenset(letters) - _CONSTANTS


def names_agree(gold: str, answer: str) -> bool:
    """Whether two left sides may name the same: letters, primes and arguments must be equal.

    Of words, one name may have more than the other.
    """
    gold_words, answer_words = _words(gold), _words(answer)
    if gold_words and answer_words and not (gold_words <= answer_words or gold_words >= answer_words):
        return False
    names = [_LETTERS_IN_TEXT.sub(r"\1", _SPACE.sub("", name)) for name in (gold, answer)]
    if gold.count("'") != answer.count("'"):
        return False
    if len({"(" in name for name in names}) > 1 or any(map(_WORD.search, names)):
        return True
    # Commands such as `\\angle` do not count. Only letters may have any order (`AB`, `BA`).
    parts = [list(filter(None, _NAME_PARTS.findall(name.lower()))) for name in names]
    return parts[0] == parts[1] if _ORDERED.search(names[0]) else sorted(parts[0]) == sorted(parts[1])


def _words(name: str) -> frozenset[str]:
    """The words of a name, but for those that every answer may have."""
    texts = " ".join(map("".join, _NAME_WORDS.findall(name))).lower().replace("imum", "")
    return frozenset(word for word in texts.split() if len(word) > 1) - _SAY_NOTHING


def decimals(text: str) -> int | None:
    """How many decimal places a plain number shows; None for anything else."""
    match = _DECIMAL.fullmatch(_SPACE.sub("", text))
    return len(match[1]) if match and match[0] else None
