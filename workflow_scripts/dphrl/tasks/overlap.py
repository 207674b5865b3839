"""Prompts that training and evaluation share."""

import json
import unicodedata
from collections.abc import Mapping

import polars as pl


def overlap(train_prompts: pl.DataFrame, other: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """The prompts of other datasets that are also training prompts.

    Args:
        train_prompts: prompt_id, messages (JSON) of the training dataset.
        other: the same of each other dataset, by name.

    Returns:
        prompt_id str (of the other dataset's prompt), dataset str, kind str: `exact` (the same messages) or
        `normalised` (the same words, whatever their case, width, punctuation and spacing); sorted by key.
    """
    exact = set(train_prompts["messages"].to_list())
    normalised = {_words(messages) for messages in exact}
    found = []
    for dataset, prompts in sorted(other.items()):
        for key, messages in prompts.select("prompt_id", "messages").iter_rows():
            if messages in exact:
                found.append((key, dataset, "exact"))
            elif _words(messages) in normalised:
                found.append((key, dataset, "normalised"))
    schema = {"prompt_id": pl.String(), "dataset": pl.String(), "kind": pl.String()}
    return pl.DataFrame(found, schema=schema, orient="row").sort("prompt_id", "dataset")


def _words(messages: str) -> str:
    """The text of messages, folded. Signs of arithmetic and comparison are kept: they change the question."""
    text = " ".join(message["content"] for message in json.loads(messages))
    folded = unicodedata.normalize("NFKC", text).casefold()
    kept = (c if c.isalnum() or unicodedata.category(c) == "Sm" or c in "-*/%^" else " " for c in folded)
    return " ".join("".join(kept).split())
