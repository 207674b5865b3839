r"""The usual form of LaTeX that models write: one spelling for each meaning, the same for answer and gold.

Nothing here computes: each rewriting replaces a text by another of about the same length.
"""

import re
import unicodedata
from collections.abc import Callable
from typing import Final

DEGREE: Final = "\u00b0"
PLAIN_NUMBER: Final = re.compile(r"[-+]?\d++(?:\.\d++)?", re.ASCII)
"""A decimal number and nothing else."""

_SIGNS: Final = str.maketrans(
    {
        **{"\u2032": "'", "\u2033": "''", "\u2019": "'", "\u00f7": "/", "\u221a": r"\sqrt "},
        **dict.fromkeys("\u2010\u2011\u2013\u2212", "-"),
        **dict.fromkeys("\u00a0\u2009\u202f\u3000", " "),
        **{"\u2264": r"\leq ", "\u2265": r"\geq ", "\u2260": r"\neq ", "\u2248": r"\approx ", "\u00b1": r"\pm "},
        **{"\u00b7": r"\cdot ", "\u22c5": r"\cdot ", "\u00d7": r"\times ", "\u221e": r"\infty ", "\u2228": r"\vee "},
        **{"\u222a": r"\cup ", "\u2229": r"\cap ", "\u2208": r"\in ", "\u2205": r"\emptyset ", "\u211d": r"\mathbb{R}"},
        **{"\u2192": r"\rightarrow ", "\u2190": r"\leftarrow ", "\u2220": r"\angle ", "\u2124": r"\mathbb{Z}"},
        **{"\u03b3": r"\gamma ", "\u03c0": r"\pi "},
    }
)
_COMMANDS: Final = {
    **dict.fromkeys(("left", "right", "middle"), ""),
    **{size + side: "" for size in ("big", "Big", "bigg", "Bigg") for side in ("", "l", "r", "m")},
    **{f"{size}style": "" for size in ("display", "text", "script", "scriptscript")},
    **dict.fromkeys(("small", "large", "Large", "LARGE", "huge", "hfill"), ""),
    **dict.fromkeys(("checkmark", "blacksquare", "therefore", "qed"), ""),
    **dict.fromkeys(("quad", "qquad", "thinspace", "enspace"), " "),
    **dict.fromkeys(("dfrac", "tfrac", "cfrac"), r"\frac"),
    **dict.fromkeys(("dbinom", "tbinom"), r"\binom"),
    **dict.fromkeys(("vert", "lvert", "rvert"), "|"),
    **dict.fromkeys(("varnothing", "oslash"), r"\emptyset "),
    **{"langle": "(", "rangle": ")", "lbrace": r"\{", "rbrace": r"\}", "leqslant": r"\leq", "geqslant": r"\geq"},
    **{"bmod": r"\mod", "lg": r"\log_{10}", "degree": DEGREE},
}
"""By command without its backslash, the text in its place."""
_NO_DELIMITER: Final = re.compile(r"\\(?:left|right)\s*\.")
_RAISED: Final = re.compile("[\u2070\u00b9\u00b2\u00b3\u2074-\u207b]+")
_LOWERED: Final = re.compile("[\u2080-\u2089]+")
_VULGAR: Final = re.compile("[\u00bc-\u00be\u2150-\u215e]")
_ROOT: Final = re.compile(r"\u221a\s*(\d+(?:\.\d+)?)")
_FULL_WIDTH: Final = re.compile("[\uff01-\uff5e]")

_ARGUMENT: Final = r"\s*\{((?:[^{}]++|\{(?:[^{}]++|\{[^{}]*+\})*+\})*+)\}"
_STYLED: Final = re.compile(
    rf"\\(?:boldsymbol|bm|mathbf|mathsf|mathcal|mathscr|mathnormal|underline|ensuremath|emph|"
    rf"(?:textcolor|color)\s*\{{[A-Za-z]*+\}}){_ARGUMENT}(?P<script>\s*[\^_])?"
)
_NESTED_STYLES: Final = 4

_FUNCTION_OF_DEGREES: Final = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)(?![A-Za-z])(?!\s*\^\s*\{?-)")
_ANGLE: Final = re.compile(rf"(\d++(?:\.\d++)?|[a-z]){DEGREE}")

_FRACTION_OF_UNITS: Final = (
    r"([\d})]\s*)\\frac\s*\{\s*\\text\s*\{([^{}\d]*)\}\s*\}"
    r"\s*\{\s*\\text\s*\{([^{}\d]*)\}\s*((?:\^\{?-?\d\}?)?)\s*\}"
)
# `\\textbf{(B) }7`: the choice becomes the name of the value.
_CHOICE_AND_VALUE: Final = (
    r"^\s*(?:\\text\s*\{\s*\(?([A-J])\)\s*\}\s*|\(([A-J])\)\s+)(?=-?[\d.]|\\(?:frac|sqrt)|[a-z]\s*=)"
)
_COMMAND: Final = re.compile(r"\\[A-Za-z]+")
_WORD: Final = re.compile("[A-Za-z]+")
_GREEK: Final = "alpha|beta|gamma|delta|theta|lambda|sigma|omega"
# An argument without braces: a digit, a letter, or a Greek letter.
_SINGLE: Final = rf"([0-9]|(?<![A-Za-z])[A-Za-z]|\\(?:pi|{_GREEK})(?![A-Za-z]))"
_IN_PARENTHESES: Final = r"\s*\(((?:[^()]++|\([^()]*+\))++)\)"
# `\\text{The answer is }5`: the words become the name of the value.
_LABEL: Final = r"^\s*\\text\s*\{([^{}\d]*?[A-Za-z])(?:\s+(?:is|are|equals)\s*:?|\s*:)\s*\}\s*(?=[^\s=])"
# `sec` is a second.
_FUNCTIONS: Final = "(?:arc)?(?:sin|cos|tan|cot|csc|ln|log)"
# A last part of nothing but words and letters: `, k \\in \\mathbb{Z}`, `\\text{ for all real numbers } x`.
_LAST_WORDS: Final = re.compile(
    r"(?:[,;(]|\\text\s*\{|\\forall|(?<![A-Za-z])for(?![A-Za-z]))(?:[A-Za-z\s{},;]|\\(?![{}]))*+\)?\.?\s*$"
)
_LONGEST_PART: Final = 100
_INTEGERS: Final = frozenset({"Z", "integer", "integers"})
_NUMBERS: Final = _INTEGERS | {"R", "all", "any", "every", "each", "some", "forall"}
_OTHER_WORDS: Final = frozenset(
    {"for", "where", "with", "is", "an", "in", "text", "mathbb", "real", "number", "numbers", "constant", "constants"}
)


def _primes(marks: re.Match[str]) -> str:
    written = marks[1] or "'"
    return "'" * (written.count("prime") + written.count("'"))


def _rows(environment: re.Match[str]) -> str:
    return environment[2].strip().replace("\\\\", ", ").replace("&", "")


def _periodic(match: re.Match[str]) -> str:
    r"""0.1\overline{6} as (16 - 1)/90."""
    whole, fixed, period = match[1], match[2], match[3] or match[4]
    top = int(whole + fixed + period) - int(whole + fixed)
    return f"\\frac{{{top}}}{{{'9' * len(period) + '0' * len(fixed)}}}"


def _semifactorial(match: re.Match[str]) -> str:
    """5!! by factorials; the library reads it as the factorial of a factorial."""
    n = int(match[1])
    half = (n + 1) // 2
    return f"\\frac{{({n + 1})!}}{{2^{{{half}}}({half})!}}" if n % 2 else f"2^{{{half}}}({half})!"


_Replacement = str | Callable[[re.Match[str]], str]
_REWRITINGS: Final[list[tuple[str, re.Pattern[str], _Replacement]]] = [
    (needed, re.compile(pattern), replacement)
    for needed, pattern, replacement in (
        # A comma that LaTeX does not space is no comma of a list.
        (",", r"(?<=\d)(?:\{,\}|,\s*\\!\s*|\\,)(?=\d{3}(?!\d))", ""),
        ("{,}", r"\{,\}", ","),
        ("\\!", r"(?<!\s)\s*\\!\s*", ""),
        ("\\", r"(?<!\\)\\[,;:> ]", " "),
        ("~", r"(?<!\\)~", " "),
        ("\\", r"\\(?:mbox|textbf|textrm|textit|textnormal|mathrm|mathit)(?=\s*\{)", r"\\text"),
        ("sqrt[", r"\\sqrt\[(\d+)\]\s*(\w)", r"\\sqrt[\1]{\2}"),
        # For sympy the cube root of -8 is complex.
        ("sqrt[", r"\\sqrt\[(\d*[13579])\]\s*\{\s*-\s*(\d+)\s*\}", r"(-\\sqrt[\1]{\2})"),
        ("^", r"\^\s*-\s*(\d+|[A-Za-z](?![A-Za-z]))", r"^{-\1}"),
        ("percent", r"\\text\s*\{\s*percent\s*\}|(?<=\d)\s*percent(?![A-Za-z])", r"\\%"),
        ("text", r"\\text\s*\{\s*[Aa]ll real(?:s| numbers)\s*\}", r"\\mathbb{R}"),
        ("text", r"(?<=\d)\^\s*\{\\text\{(?:st|nd|rd|th)\}\}", ""),
        ("mod", r"\\pmod\s*(?:\{([^{}]*)\}|(\w))|\(\s*\\(?:mod|text\s*\{\s*mod\s*\})\s*([^()]*)\)", r"\\pmod{\1\2\3}"),
        ("\\rm", r"\{\s*\\rm\s+([A-Za-z]+)\s*\}", r"\\text{\1}"),
        ("color", r"\\color\s*\{[A-Za-z]*+\}", ""),
        ("frac", rf"\\frac\s*(?:{_SINGLE}|\{{([^{{}}]*)\}})\s*(?:{_SINGLE}|\{{([^{{}}]*)\}})", r"\\frac{\1\2}{\3\4}"),
        ("hat", r"\\hat\s*(?:\{\s*\\?([ijk])(?:math)?\s*\}|\\?([ijk])(?:math)?(?![A-Za-z]))", r" \1\2 "),
        ("binom", r"\\binom\s*(\d)\s*(\d)", r"\\binom{\1}{\2}"),
        ("C", r"(?<![A-Za-z\\_^])C\s*\(\s*(\d+)\s*,\s*(\d+)\s*\)", r"\\binom{\1}{\2}"),
        ("C", r"(?:\{\s*\}\s*)?(?:\^|_)\s*(?:\{(\d+)\}|(\d))\s*C\s*_\s*(?:\{(\d+)\}|(\d))", r"\\binom{\1\2}{\3\4}"),
        ("\\}", r"\\\{\s*\\\}", r"\\emptyset "),
        ("\\\\", r"\\\\\s*\[\s*-?[\d.]+\s*[a-z]{2}\s*\]", r"\\\\"),
        ("]", r"^\s*\](?=[^\[\](),]++,[^\[\](),]++[\[\]]\s*$)", "("),
        ("[", r"^(\s*[\[(][^\[\](),]++,[^\[\](),]++)\[\s*$", r"\1)"),
        ("{", r"^\s*\\\{\s*([a-z])\s*(?:\\in\s*\\mathbb\{?R\}?\s*)?(?:\\mid|\||:)([^{}:]*?\1[^{}:]*)\\\}\s*$", r"\2"),
        ("text", r"\\text\s*\{\s*(?:[Cc]hoice|[Oo]ption)\s+\(?([A-J])\)?\s*\}", r"\\text{\1}"),
        (")", _CHOICE_AND_VALUE, r"\\text{choice\1\2}="),
        ("infinity", r"\\text\s*\{\s*infinity\s*\}|(?<![A-Za-z\\{ ])infinity(?![A-Za-z ])", r"\\infty "),
        ("oo", r"(?<![A-Za-z\\])oo(?![A-Za-z])", r"\\infty "),
        ("{or}", r"\{or\}", " or "),
        # Some copies of MATH lost `\\text`.
        ("{", r"(?:^|(?<=\d))\s*\{([mck]m|kg|ft|in|[A-Za-z]{4,}[A-Za-z ]*+)\}", r"\\text{\1}"),
        ("pi", r"(?<![A-Za-z\\{])pi(?![A-Za-z])", r"\\pi "),
        ("sqrt", r"(?<![A-Za-z\\])sqrt\s*(\d+)", r"\\sqrt{\1}"),
        ("sqrt", rf"\\?(?<![A-Za-z])sqrt{_IN_PARENTHESES}", r"\\sqrt{\1}"),
        ("exp", rf"\\?(?<![A-Za-z])exp{_IN_PARENTHESES}", r"e^{\1}"),
        # `abs(x)=5` is an equation, `|AB|=5` names a length.
        ("abs", rf"(?<![A-Za-z\\])abs{_IN_PARENTHESES}(?!\s*=)", r"|\1|"),
        ("a", rf"(?<![A-Za-z\\{{ ])({_GREEK})(?![A-Za-z])", r"\\\1 "),
        ("R", r"(\\mathbb\s*\{?R\}?)\s*-\s*(?=\\\{)", r"\1\\setminus "),
        ("log", r"\\log\s*_\s*(?:e|\{\s*e\s*\})(?![A-Za-z])", r"\\ln "),
        (
            "",
            rf"\\(?:text|operatorname)\s*\{{\s*({_FUNCTIONS})\s*\}}|"
            rf"(?<![A-Za-z\\])({_FUNCTIONS})(?=\s*(?:[(\d{{\\|]|[a-z](?![A-Za-z])))",
            r"\\\1\2 ",
        ),
        ("text", _LABEL, r"\\text{\1}="),
        ("mathbb ", r"\\mathbb\s+([A-Z])", r"\\mathbb{\1}"),
        ("", r"^\s*(\*\*|__|`|'|\")([^*`'\"]+?)\1?[.\s]*+$", r"\2"),
        ("**", r"\*\*", "^"),
        ("frac", _FRACTION_OF_UNITS, r"\1\\text{\2/\3}\4"),
        ("", r"(?<=\d)(?:st|nd|rd|th)(?![A-Za-z])", ""),
        ("circ", r"\^\s*(?:\\circ|\{\s*\\circ\s*\})", DEGREE),
        ("prime", r"\^\s*(?:\\prime(?![a-z])|\{\s*((?:\\prime\s*|')+)\})", _primes),
        (".", r"(?<![\d.])(\d{1,40})\.(\d{0,40})\\(?:overline|bar|dot)\s*(?:\{(\d{1,40})\}|(\d))(?!\d)", _periodic),
        ("!!", r"(?<![\d.])(\d{1,2})!!(?!!)", _semifactorial),
        ("\\begin", r"\\begin\{(cases|aligned)\}((?:[^&]|&=)*?)\\end\{\1\}", _rows),
        (" ", r"(?<![\d.,])\d{1,3}(?: \d{3})++(?![\d ])", lambda number: number[0].replace(" ", "")),
    )
]  # fmt: skip


def usual(text: str) -> str:
    """The text with one spelling of each command, sign and number; text without any of these is left as it is."""
    if not text.isascii():
        text = _ascii(text)
    if "\\" in text:
        text = _without_styles(_NO_DELIMITER.sub("", text))
        text = _COMMAND.sub(lambda command: _COMMANDS.get(command[0][1:], command[0]), text)
    for needed, pattern, replacement in _REWRITINGS:
        if needed in text:
            text = pattern.sub(replacement, text)
    if DEGREE in text and _FUNCTION_OF_DEGREES.search(text):
        text = _ANGLE.sub(r"(\1\\cdot\\frac{\\pi}{180})", text)
    return _without_domain(text) if "in" in text or "for" in text else text


def _ascii(text: str) -> str:
    """Signs of Unicode as LaTeX: superscripts, fractions, full width, relations."""
    text = _RAISED.sub(
        lambda digits: "^{" + unicodedata.normalize("NFKC", digits[0]).replace("\u2212", "-") + "}", text
    )
    text = _LOWERED.sub(lambda digits: "_{" + unicodedata.normalize("NFKC", digits[0]) + "}", text)
    text = _ROOT.sub(r"\\sqrt{\1}", _VULGAR.sub(_vulgar, text))
    text = _FULL_WIDTH.sub(lambda wide: unicodedata.normalize("NFKC", wide[0]), text).translate(_SIGNS)
    return "".join(str(unicodedata.decimal(char)) if char.isdecimal() else char for char in text)


def _without_domain(text: str) -> str:
    r"""`\frac{\pi}{4}+k\pi, k \in \mathbb{Z}` without its last part, which a text may leave out.

    The part says that letters of the value are any real numbers, or k, l, m and n any integers.
    """
    part = _LAST_WORDS.search(text, max(0, len(text) - _LONGEST_PART))
    words = frozenset(_WORD.findall(part[0])) if part else frozenset[str]()
    letters = words - _NUMBERS - _OTHER_WORDS
    if part is None or not letters or words.isdisjoint(_NUMBERS):
        return text
    value = text[: part.start()].rstrip()
    allowed = frozenset("klmn" if words & _INTEGERS else "abcdefghijklmnopqrstuvwxyz")
    return value if letters <= allowed & frozenset(_COMMAND.sub("", value)) else text


def _vulgar(match: re.Match[str]) -> str:
    top, _, bottom = unicodedata.normalize("NFKC", match[0]).partition("\u2044")
    return f"\\frac{{{top}}}{{{bottom}}}"


def _without_styles(text: str) -> str:
    """Bold, colour and the like are removed with their braces, which become parentheses before a script."""

    def content(match: re.Match[str]) -> str:
        inner, script = match[1], match["script"] or ""
        # `\cdot\mathbf{v}` must not become `\cdotv`.
        gap = " " if match.string[match.start() - 1 : match.start()].isalpha() else ""
        return f"{gap}({inner}){script}" if script and len(inner) > 1 else gap + inner + script

    for _ in range(_NESTED_STYLES):
        text, changes = _STYLED.subn(content, text)
        if not changes:
            break
    return text
