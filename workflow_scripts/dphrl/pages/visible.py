"""Control characters of foreign texts as visible symbols, on pages and in a terminal."""

from functools import cache

_C0, _C1 = (*range(0x20), 0x7F), range(0x80, 0xA0)
# Marks, line separators, embeddings and isolates move or reorder the text after them.
_ORDER = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
_SURROGATES = range(0xD800, 0xE000)


def visible(text: str, keep: str = "\n\t") -> str:
    """The text with a symbol for each character that a terminal obeys, a browser drops or no encoding supports.

    Args:
        keep: control characters that stay; "" where a line break would look like another line of the program.
    """
    return text.translate(_symbols(keep))


@cache
def _symbols(keep: str) -> dict[int, str]:
    symbols = {code: chr(0x2421 if code == 0x7F else 0x2400 + code) for code in _C0}
    symbols |= {code: f"\\x{code:02x}" for code in _C1}
    symbols |= {code: f"\\u{code:04x}" for code in (*_ORDER, *_SURROGATES)}
    return {code: symbol for code, symbol in symbols.items() if chr(code) not in keep}
