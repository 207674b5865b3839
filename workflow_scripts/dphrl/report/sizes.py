"""The sizes of the subsets, by the words that the page shows."""

import polars as pl

_WORDS = {"pef": "near-perfect prompts (D_pef)", "exp": "exploration prompts (D_exp)", "dropped": "dropped prompts"}


def partition_sizes(partition: pl.DataFrame) -> dict[str, int]:
    """How many training prompts there are, and in which subset, from the final partition."""
    counts = dict(partition.group_by("subset").len().iter_rows())
    return {"training prompts": partition.height, **{word: counts.get(name, 0) for name, word in _WORDS.items()}}
