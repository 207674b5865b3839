"""Options of the scorers and their defaults. Worker processes import this module, so it imports nothing heavy."""

from typing import Final, Literal

Comparison = Literal["spider", "bird", "strict"]
SqlAnswer = Literal["fenced", "bare"]
Partial = Literal["none", "columns", "one_to_one"]
SqlRepair = Literal["auto", "always", "never"]
MathAnswer = Literal["boxed", "final"]
MathComparison = Literal["rules", "published"]

THOUGHTS: Final = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<reasoning>": "</reasoning>",
    "<|begin_of_thought|>": "<|end_of_thought|>",
    "<seed:think>": "</seed:think>",
}
"""Tags around the thoughts of models: the end by the opening. Default of `scoring.thoughts`."""


class SqlDefaults:
    """Defaults of `SqlScorer` and of the block `scoring.sql`."""

    comparison: Final[Comparison] = "spider"
    answer: Final[SqlAnswer] = "fenced"
    partial: Final[Partial] = "none"
    repair: Final[SqlRepair] = "auto"
    timeout_s: Final = 30.0
    max_steps: Final = 500_000_000
    max_rows: Final = 200_000
    max_bytes: Final = 64 * 2**20
    memory_mib: Final = 1024


class MathDefaults:
    """Defaults of `MathScorer` and of the block `scoring.math`."""

    answer: Final[MathAnswer] = "boxed"
    comparison: Final[MathComparison] = "rules"
    timeout_s: Final = 5.0
    memory_mib: Final = 1024
