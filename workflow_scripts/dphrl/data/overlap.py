"""Prompts that training and evaluation share."""

import json
import unicodedata
from collections.abc import Mapping
from functools import cache

import polars as pl

from dphrl.store.catalogue import SCHEMAS


def overlap(train_prompts: pl.DataFrame, other: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """The prompts of other datasets that are also training prompts.

    System messages are ignored: they say how to answer, and differ between datasets. A SQL prompt contains its
    database's schema, so the same question about another database is another prompt.

    Returns:
        A table of the schema `overlap`, sorted by key; kind is `exact` (the same texts) or `normalised` (the same
        letters, digits and signs, whatever their case, width, punctuation and spacing).
    """
    exact = {_texts(messages) for messages in train_prompts["messages"]}
    normalised = {_normalised(texts) for texts in exact}
    rows = []
    for dataset, prompts in other.items():
        for key, messages in prompts.select("prompt_id", "messages").iter_rows():
            texts = _texts(messages)
            if texts in exact or _normalised(texts) in normalised:
                rows.append((key, dataset, "exact" if texts in exact else "normalised"))
    return SCHEMAS["overlap"].frame(rows).sort("prompt_id", "dataset")


def shared(pairs: pl.DataFrame, other: Mapping[str, pl.DataFrame]) -> str:
    """How many prompts of other datasets are training prompts; arguments and result of `overlap`."""
    counts = {dataset: pairs.filter(dataset=dataset).height for dataset in other}
    listed = ", ".join(f"{n:,} of {other[name].height:,} prompts of {name}" for name, n in counts.items() if n)
    return f"training prompts too: {listed}" if listed else "none"


def _texts(messages: str) -> tuple[str, ...]:
    return tuple(message["content"] for message in json.loads(messages) if message["role"] != "system")


def _normalised(texts: tuple[str, ...]) -> str:
    return "".join(filter(_is_significant, unicodedata.normalize("NFKC", " ".join(texts)).casefold()))


@cache
def _is_significant(character: str) -> bool:
    """Letters, digits and mathematical signs are: a change of these changes the question."""
    return character.isalnum() or unicodedata.category(character) == "Sm" or character in "-*/%^"
