"""Which extra of this package brings a library that a light installation lacks."""

from typing import Final

_EXTRAS: Final = {
    **dict.fromkeys(("latex2sympy2_extended", "math_verify", "sympy"), "math"),
    "sqlglot": "sql",
    **dict.fromkeys(("accelerate", "gguf", "huggingface_hub", "peft", "psutil", "snakemake"), "workflow"),
    **dict.fromkeys(("torch", "transformers"), "workflow"),
}


def advice(error: ModuleNotFoundError) -> str:
    """One line: which library is missing, and which extra brings it."""
    library = (error.name or "").split(".")[0]
    if library not in _EXTRAS:
        return str(error)
    return f"{library} is not installed: pip install 'dphrl[{_EXTRAS[library]}]'"
