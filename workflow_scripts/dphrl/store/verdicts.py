"""The verdicts on an answer. Worker processes import this module, so it imports nothing heavy."""

from typing import Final

VERDICTS: Final = (
    "correct",
    "wrong",
    "no_answer",
    "refused",
    "parse_error",
    "runtime_error",
    "timeout",
    "too_large",
    "out_of_memory",
    "gold_error",
    "infrastructure_error",
)
